"""What boto3 with awscrt does by SigV4A; run as: SCRIPT ENDPOINT, with a profile of a SigV4A key.

Each step is on a key of its own, by which the test finds its record.
"""

import sys
import urllib.request

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

endpoint = sys.argv[1]
bucket = "asymmetric"
strange = "a b/ü+~%2F"


def connect(keys=None, s3=None, **options):
    """A client by the profile's keys, else by `keys`."""
    config = Config(
        **options, s3={"addressing_style": "path", **(s3 or {})}, retries={"total_max_attempts": 1}
    )
    return boto3.client("s3", endpoint_url=endpoint, config=config, **(keys or {}))


def refused(call, code, message):
    try:
        call()
    except ClientError as error:
        seen = error.response["Error"]
        assert seen["Code"] == code and message in seen["Message"], seen
        return
    raise AssertionError(f"was not refused with {code}")


s3 = connect(signature_version="s3v4a")
s3.create_bucket(Bucket=bucket)
body = bytes(range(256)) * 400
s3.put_object(Bucket=bucket, Key=strange, Body=body, Metadata={"kind": "two  spaces"})
assert s3.get_object(Bucket=bucket, Key=strange, Range="bytes=1-3")["Body"].read() == body[1:4]
listed = s3.list_objects_v2(Bucket=bucket, Prefix="a b/")
assert [entry["Key"] for entry in listed["Contents"]] == [strange]
s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": strange})
deleted = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "copy"}]})
assert [entry["Key"] for entry in deleted["Deleted"]] == ["copy"]

# Older versions sign for all regions by themselves, and cannot be told so.
all_regions = {"sigv4a_signing_region_set": "*"}
if not all_regions.keys() <= Config.OPTION_DEFAULTS.keys():
    all_regions = {}
regions = connect(signature_version="s3v4a", **all_regions)
regions.put_object(Bucket=bucket, Key="all-regions", Body=body)

# Over HTTPS SDKs may do this by themselves.
unsigned = connect(signature_version="s3v4a", s3={"payload_signing_enabled": False})
unsigned.put_object(Bucket=bucket, Key="unsigned", Body=body)

plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "presigned"})
assert "X-Amz-Algorithm=AWS4-ECDSA-P256-SHA256" in url, url
with plain.open(urllib.request.Request(url, data=body, method="PUT"), timeout=30) as response:
    assert response.status == 200
assert s3.get_object(Bucket=bucket, Key="presigned")["Body"].read() == body

# This setting alone, which older versions do not know, silently falls back to an HMAC.
preference = {"auth_scheme_preference": "sigv4a"}
fallen = connect(**(preference if preference.keys() <= Config.OPTION_DEFAULTS.keys() else {}))
refused(
    lambda: fallen.get_object(Bucket=bucket, Key=strange),
    "SignatureDoesNotMatch",
    "This access key signs with AWS4-ECDSA-P256-SHA256.",
)
mine = boto3.Session().get_credentials()
wrong = connect(
    {"aws_access_key_id": mine.access_key, "aws_secret_access_key": mine.secret_key[::-1]},
    signature_version="s3v4a",
)
refused(
    lambda: wrong.get_object(Bucket=bucket, Key=strange),
    "SignatureDoesNotMatch",
    "does not match",
)
