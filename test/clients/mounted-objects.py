"""What boto3 reads through the mount of a snapshot: MOUNT shows what BUCKET was; see
snapshots.test.ts, which has put these objects there and changed all of them since. Run as:
SCRIPT ENDPOINT DEED BUCKET MOUNT; DEED is `write`, `change` or `read`."""

import hashlib
import sys

import boto3
from botocore.config import Config
from promises import MIB, refused, seeded

endpoint, deed, bucket, mount = sys.argv[1:]
config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
s3 = boto3.client("s3", endpoint_url=endpoint, config=config)
parts = [seeded(1, 5 * MIB), seeded(2, 1000)]


def write():
    """What is frozen then."""
    s3.create_bucket(Bucket=bucket)
    versioning = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=versioning)
    s3.put_object(Bucket=bucket, Key="dir/a", Body=b"older")
    tags = "colour=blue&n=1"
    s3.put_object(Bucket=bucket, Key="dir/a", Body=b"first", Metadata={"n": "1"}, Tagging=tags)
    s3.put_object(Bucket=bucket, Key="dir/deleted", Body=b"hidden")
    s3.delete_object(Bucket=bucket, Key="dir/deleted")
    for n in range(5):
        s3.put_object(Bucket=bucket, Key=f"many/{n}", Body=seeded(n, 1000))
    upload = {"Bucket": bucket, "Key": "parts"}
    begun = s3.create_multipart_upload(**upload, ChecksumAlgorithm="SHA256")
    upload["UploadId"] = begun["UploadId"]
    done = []
    for number, body in enumerate(parts, 1):
        answer = s3.upload_part(
            **upload, PartNumber=number, Body=body, ChecksumAlgorithm="SHA256"
        )
        done.append({name: answer[name] for name in ("ETag", "ChecksumSHA256")})
        done[-1]["PartNumber"] = number
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": done})
    # Unfinished ones are in no snapshot.
    s3.create_multipart_upload(Bucket=bucket, Key="unfinished")


def change():
    """All of it."""
    tagging = {"TagSet": [{"Key": "colour", "Value": "red"}]}
    s3.put_object_tagging(Bucket=bucket, Key="dir/a", Tagging=tagging)
    s3.put_object(Bucket=bucket, Key="dir/a", Body=b"second")
    s3.put_object(Bucket=bucket, Key="many/9", Body=b"new")
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for one in page.get("Versions", []) + page.get("DeleteMarkers", []):
            name = {"Key": one["Key"], "VersionId": one["VersionId"]}
            if one["Key"] != "dir/a":
                s3.delete_object(Bucket=bucket, **name)
    left = s3.list_objects_v2(Bucket=bucket)
    assert [one["Key"] for one in left["Contents"]] == ["dir/a"], left


def read():
    """What was frozen."""
    names = ["dir/a", *(f"many/{n}" for n in range(5)), "parts"]
    for operation in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(operation).paginate(Bucket=mount, PaginationConfig={"PageSize": 3})
        keys = [one["Key"] for page in pages for one in page["Contents"]]
        assert keys == names, (operation, keys)
    folded = s3.list_objects_v2(Bucket=mount, Delimiter="/")
    assert [one["Prefix"] for one in folded["CommonPrefixes"]] == ["dir/", "many/"], folded
    listed = s3.list_object_versions(Bucket=mount, Prefix="dir/")
    versions = [(one["Key"], one["IsLatest"]) for one in listed["Versions"]]
    assert versions == [("dir/a", True), ("dir/a", False), ("dir/deleted", False)], versions
    assert [one["Key"] for one in listed["DeleteMarkers"]] == ["dir/deleted"], listed
    ids = [one["VersionId"] for one in listed["Versions"]]
    bodies = [b"first", b"older", b"hidden"]
    for (key, _), version, body in zip(versions, ids, bodies, strict=True):
        got = s3.get_object(Bucket=mount, Key=key, VersionId=version)
        assert got["Body"].read() == body, key
    refused(lambda: s3.get_object(Bucket=mount, Key="dir/deleted"), 404, "NoSuchKey")
    refused(lambda: s3.get_object(Bucket=mount, Key="many/9"), 404, "NoSuchKey")
    for _ in range(2):
        got = s3.get_object(Bucket=mount, Key="dir/a")
        assert got["Body"].read() == b"first"
        assert (got["Metadata"], got["TagCount"]) == ({"n": "1"}, 2), got
    head = s3.head_object(Bucket=mount, Key="dir/a")
    assert head["ETag"] == f'"{hashlib.md5(b"first").hexdigest()}"', head
    assert (head["ContentLength"], head["Metadata"]) == (5, {"n": "1"}), head
    tags = s3.get_object_tagging(Bucket=mount, Key="dir/a")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"colour": "blue", "n": "1"}, tags
    got = s3.get_object(Bucket=mount, Key="parts", Range=f"bytes={5 * MIB - 10}-{5 * MIB + 9}")
    assert got["Body"].read() == parts[0][-10:] + parts[1][:10]
    second = s3.get_object(Bucket=mount, Key="parts", PartNumber=2)
    assert (second["Body"].read(), second["PartsCount"]) == (parts[1], 2), second
    asked = ["ETag", "Checksum", "ObjectParts", "ObjectSize", "StorageClass"]
    told = s3.get_object_attributes(Bucket=mount, Key="parts", ObjectAttributes=asked)
    assert told["ObjectSize"] == 5 * MIB + 1000, told
    assert told["ObjectParts"]["TotalPartsCount"] == 2, told
    for write in (
        lambda: s3.put_object(Bucket=mount, Key="dir/a", Body=b""),
        lambda: s3.delete_object(Bucket=mount, Key="dir/a"),
        lambda: s3.create_multipart_upload(Bucket=mount, Key="new"),
        lambda: s3.list_multipart_uploads(Bucket=mount),
    ):
        refused(write, 405, "MethodNotAllowed")


{"write": write, "change": change, "read": read}[deed]()
