"""What users of boto3's resources, transfers, waiters and versions rely on; see promises.py."""

import io
import json
import subprocess
import tempfile
import threading
import urllib.error
from datetime import datetime, timedelta, timezone
from pathlib import Path

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from promises import MIB, fetch, keep, open_url, refused, seeded
from s3transfer.copies import CopySubmissionTask


def connect(endpoint):
    options = {"signature_version": "s3v4", "s3": {"addressing_style": "path"}}
    config = Config(**options, retries={"total_max_attempts": 1})
    return boto3.resource("s3", endpoint_url=endpoint, config=config)


def make_arguments(endpoint, promise):
    return (connect(endpoint).create_bucket(Bucket="resource-" + promise.replace("_", "-")),)


def client_of(bucket):
    return bucket.meta.client


def resources(bucket):
    for n in range(25):
        bucket.put_object(Key=f"dir{n % 3}/{n:02}", Body=str(n).encode(), Metadata={"n": str(n)})
    assert bucket.creation_date is not None
    page = [found.key for found in bucket.objects.filter(Prefix="dir1/").page_size(3)]
    assert page == sorted(f"dir1/{n:02}" for n in range(25) if n % 3 == 1), page
    one = bucket.Object("dir0/03")
    assert (one.metadata, one.content_length) == ({"n": "3"}, 1)
    assert one.get()["Body"].read() == b"3"
    other = bucket.Object("copied")
    other.copy_from(CopySource={"Bucket": bucket.name, "Key": one.key})
    other.wait_until_exists()
    assert other.e_tag == one.e_tag and other.metadata == {"n": "3"}
    other.delete()
    other.wait_until_not_exists()
    deleted = bucket.objects.filter(Prefix="dir0/").delete()
    assert sum(len(answer["Deleted"]) for answer in deleted) == 9, deleted
    bucket.objects.all().delete()
    bucket.delete()
    bucket.wait_until_not_exists()


def transfers(bucket):
    config = TransferConfig(
        multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=8
    )
    body = seeded(21, 17 * MIB + 3)
    seen, lock = {"up": 0, "down": 0}, threading.Lock()

    def count(way):
        def add(size):
            with lock:
                seen[way] += size

        return add

    with tempfile.TemporaryDirectory() as folder:
        up, down = Path(folder, "up"), Path(folder, "down")
        up.write_bytes(body)
        extra = {"ContentType": "text/x-test", "ChecksumAlgorithm": "SHA256"}
        bucket.upload_file(str(up), "k", ExtraArgs=extra, Config=config, Callback=count("up"))
        bucket.download_file("k", str(down), Config=config, Callback=count("down"))
        assert down.read_bytes() == body
    assert seen == {"up": len(body), "down": len(body)}, seen
    source = {"Bucket": bucket.name, "Key": "k"}
    bucket.copy(source, "in parts", Config=config)
    copied = bucket.Object("in parts")
    assert copied.content_length == len(body)
    # Older versions of boto3 copy no attributes of what they copy in parts.
    if hasattr(CopySubmissionTask, "PRESERVED_METADATA_FIELDS"):
        assert copied.content_type == "text/x-test", copied.content_type
    into = io.BytesIO()
    copied.download_fileobj(into, Config=config)
    assert into.getvalue() == body
    assert list(bucket.multipart_uploads.all()) == []


def versions(bucket):
    bucket.Versioning().enable()
    assert bucket.Versioning().status == "Enabled"
    ids = [bucket.Object("k").put(Body=text)["VersionId"] for text in (b"1", b"2", b"3")]
    assert len(set(ids)) == 3
    bucket.Object("k").delete()
    s3 = client_of(bucket)
    missing = refused(lambda: s3.get_object(Bucket=bucket.name, Key="k"), 404, "NoSuchKey")
    headers = missing["ResponseMetadata"]["HTTPHeaders"]
    assert headers["x-amz-delete-marker"] == "true", headers
    listed = s3.list_object_versions(Bucket=bucket.name)
    assert [found["VersionId"] for found in listed["Versions"]] == ids[::-1], listed
    (marker,) = listed["DeleteMarkers"]
    assert marker["IsLatest"] and marker["VersionId"] == headers["x-amz-version-id"], marker
    assert s3.get_object(Bucket=bucket.name, Key="k", VersionId=ids[0])["Body"].read() == b"1"
    bucket.Object("k").Version(marker["VersionId"]).delete()
    assert bucket.Object("k").get()["Body"].read() == b"3"
    source = {"Bucket": bucket.name, "Key": "k", "VersionId": ids[1]}
    answer = bucket.Object("k").copy_from(CopySource=source)
    assert answer["CopySourceVersionId"] == ids[1], answer
    assert bucket.Object("k").get()["Body"].read() == b"2"
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=bucket.name, PaginationConfig={"PageSize": 3}
    )
    found = [version["VersionId"] for page in pages for version in page.get("Versions", [])]
    assert found == [answer["VersionId"], *ids[::-1]], found
    bucket.object_versions.delete()
    bucket.delete()


def suspended(bucket):
    s3 = client_of(bucket)
    bucket.Object("k").put(Body=b"before")
    bucket.Versioning().enable()
    kept = bucket.Object("k").put(Body=b"kept")["VersionId"]
    bucket.Versioning().suspend()
    bucket.Object("k").put(Body=b"null again")
    listed = s3.list_object_versions(Bucket=bucket.name)["Versions"]
    assert [found["VersionId"] for found in listed] == ["null", kept], listed
    deleted = bucket.Object("k").delete()
    assert deleted["DeleteMarker"] and deleted["VersionId"] == "null", deleted
    assert s3.get_object(Bucket=bucket.name, Key="k", VersionId=kept)["Body"].read() == b"kept"


def presigned_versions(bucket):
    """As handed to somebody who has curl and nothing else."""
    bucket.Versioning().enable()
    first = bucket.Object("a b/ü+").put(Body=b"first")["VersionId"]
    bucket.Object("a b/ü+").put(Body=b"second")
    params = {
        "Bucket": bucket.name,
        "Key": "a b/ü+",
        "VersionId": first,
        "ResponseContentType": "text/x-test",
        "ResponseContentDisposition": 'attachment; filename="a b.txt"',
        "ResponseCacheControl": "no-store",
    }
    url = client_of(bucket).generate_presigned_url("get_object", Params=params, ExpiresIn=60)
    curl = ["curl", "--silent", "--show-error", "--noproxy", "*", "--include", url]
    head, body = subprocess.run(curl, check=True, capture_output=True).stdout.split(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "http/1.1 200 ok" and body == b"first", (lines, body)
    for line in (
        f"x-amz-version-id: {first}",
        "content-type: text/x-test",
        'content-disposition: attachment; filename="a b.txt"',
        "cache-control: no-store",
    ):
        assert line in lines, (line, lines)
    other = {**params, "VersionId": "0" * len(first)}
    unsigned = url.replace(first, other["VersionId"])
    for refused_url, status in (
        (unsigned, 403),
        (client_of(bucket).generate_presigned_url("get_object", Params=other), 404),
    ):
        try:
            fetch(refused_url)
        except urllib.error.HTTPError as error:
            assert error.code == status, (refused_url, error.code, error.read())
        else:
            raise AssertionError(f"was not refused: {refused_url}")


def presigned_posts(bucket):
    s3 = client_of(bucket)
    post = s3.generate_presigned_post(
        bucket.name,
        "forms/${filename}",
        Fields={"x-amz-meta-colour": "blue", "success_action_status": "201"},
        Conditions=[
            {"x-amz-meta-colour": "blue"},
            {"success_action_status": "201"},
            ["content-length-range", 1, 1000],
        ],
        ExpiresIn=60,
    )
    for size, status in ((1000, 201), (1001, 400)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{size}.bin")
            path.write_bytes(seeded(size, size))
            pairs = ["=".join(pair) for pair in post["fields"].items()]
            fields = [part for pair in pairs for part in ("--form-string", pair)]
            curl = ["curl", "-sS", "--noproxy", "*", "-w", "%{http_code}", "-o", "/dev/null"]
            command = [*curl, *fields, "-F", f"file=@{path}", post["url"]]
            seen = subprocess.run(command, check=True, capture_output=True).stdout
            assert seen == str(status).encode(), (size, seen)
    kept = [found.key for found in bucket.objects.all()]
    assert kept == ["forms/1000.bin"], kept
    got = bucket.Object("forms/1000.bin").get()
    assert got["Body"].read() == seeded(1000, 1000) and got["Metadata"] == {"colour": "blue"}


def attributes(bucket):
    s3, target = client_of(bucket), {"Bucket": bucket.name, "Key": "k"}
    upload = s3.create_multipart_upload(**target, ChecksumAlgorithm="SHA256")["UploadId"]
    parts = []
    for number, size in ((1, 5 * MIB), (2, 1000)):
        part = {"PartNumber": number, "UploadId": upload, "ChecksumAlgorithm": "SHA256"}
        answer = s3.upload_part(**target, **part, Body=seeded(number, size))
        kept = {name: answer[name] for name in ("ETag", "ChecksumSHA256")}
        parts.append({"PartNumber": number, **kept})
    s3.complete_multipart_upload(**target, UploadId=upload, MultipartUpload={"Parts": parts})
    wanted = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    told = s3.get_object_attributes(**target, ObjectAttributes=wanted)
    assert told["ObjectSize"] == 5 * MIB + 1000 and told["StorageClass"] == "STANDARD", told
    assert told["ETag"].endswith("-2") and '"' not in told["ETag"], told
    # Older versions of boto3 do not know the type.
    assert told["Checksum"].get("ChecksumType", "COMPOSITE") == "COMPOSITE", told
    assert told["ObjectParts"]["TotalPartsCount"] == 2, told
    sizes = [part["Size"] for part in told["ObjectParts"]["Parts"]]
    assert sizes == [5 * MIB, 1000], told
    second = s3.get_object(**target, PartNumber=2)
    assert second["Body"].read() == seeded(2, 1000) and second["PartsCount"] == 2, second
    assert second["ContentRange"] == f"bytes {5 * MIB}-{5 * MIB + 999}/{5 * MIB + 1000}"


def locks(bucket):
    s3 = client_of(bucket)
    locked = s3.create_bucket(Bucket="resource-locked", ObjectLockEnabledForBucket=True)
    assert locked["ResponseMetadata"]["HTTPStatusCode"] == 200
    until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(days=1)
    target = {"Bucket": "resource-locked", "Key": "k"}
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    version = s3.put_object(**target, Body=b"locked", **lock)["VersionId"]
    head = s3.head_object(**target)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", until)
    gone = {**target, "VersionId": version}
    refused(lambda: s3.delete_object(**gone), 403, "AccessDenied")
    s3.put_object_legal_hold(**gone, LegalHold={"Status": "ON"})
    bypass = {"BypassGovernanceRetention": True}
    refused(lambda: s3.delete_object(**gone, **bypass), 403, "AccessDenied")
    assert s3.get_object_legal_hold(**gone)["LegalHold"]["Status"] == "ON"
    s3.put_object_legal_hold(**gone, LegalHold={"Status": "OFF"})
    s3.delete_object(**gone, **bypass)
    s3.delete_bucket(Bucket="resource-locked")


def configurations(bucket):
    """Each is given back as it was put, and is gone when it was deleted."""
    s3, name = client_of(bucket), {"Bucket": bucket.name}
    tags = [{"Key": "team", "Value": "a b"}, {"Key": "ünï", "Value": ""}]
    bucket.Tagging().put(Tagging={"TagSet": tags})
    told = sorted(bucket.Tagging().tag_set, key=lambda tag: tag["Key"])
    assert told == tags, told
    bucket.Tagging().delete()
    refused(lambda: s3.get_bucket_tagging(**name), 404, "NoSuchTagSet")
    rule = {
        "AllowedMethods": ["GET", "PUT"],
        "AllowedOrigins": ["https://*.example.test"],
        "AllowedHeaders": ["*"],
        "ExposeHeaders": ["ETag"],
        "MaxAgeSeconds": 600,
    }
    bucket.Cors().put(CORSConfiguration={"CORSRules": [rule]})
    assert bucket.Cors().cors_rules == [rule], bucket.Cors().cors_rules
    asked = {"Origin": "https://a.example.test", "Access-Control-Request-Method": "PUT"}
    url = f"{s3.meta.endpoint_url}/{bucket.name}/k"
    with open_url(url, method="OPTIONS", headers=asked) as answer:
        assert answer.headers["Access-Control-Allow-Origin"] == asked["Origin"]
    bucket.Cors().delete()
    refused(lambda: s3.get_bucket_cors(**name), 404, "NoSuchCORSConfiguration")
    life = {
        "ID": "old logs",
        "Status": "Enabled",
        "Filter": {"And": {"Prefix": "logs/", "Tags": [{"Key": "kind", "Value": "log"}]}},
        "Expiration": {"Days": 30},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 7},
    }
    s3.put_bucket_lifecycle_configuration(**name, LifecycleConfiguration={"Rules": [life]})
    assert s3.get_bucket_lifecycle_configuration(**name)["Rules"] == [life]
    s3.delete_bucket_lifecycle(**name)
    none = lambda: s3.get_bucket_lifecycle_configuration(**name)
    refused(none, 404, "NoSuchLifecycleConfiguration")
    block = {"BlockPublicAcls": True, "IgnorePublicAcls": True}
    block |= {"BlockPublicPolicy": True, "RestrictPublicBuckets": True}
    s3.put_public_access_block(**name, PublicAccessBlockConfiguration=block)
    assert s3.get_public_access_block(**name)["PublicAccessBlockConfiguration"] == block
    everybody = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject"}
    everybody["Resource"] = f"arn:aws:s3:::{bucket.name}/*"
    policy = json.dumps({"Version": "2012-10-17", "Statement": [everybody]})
    refused(lambda: s3.put_bucket_policy(**name, Policy=policy), 403, "AccessDenied")
    s3.delete_public_access_block(**name)
    s3.put_bucket_policy(**name, Policy=policy)
    assert s3.get_bucket_policy_status(**name)["PolicyStatus"]["IsPublic"] is True


def object_tags(bucket):
    s3, target = client_of(bucket), {"Bucket": bucket.name, "Key": "k"}
    etag = s3.put_object(**target, Body=b"tagged", Tagging="kind=log&a%20b=%2B")["ETag"]
    assert s3.get_object(**target)["TagCount"] == 2
    tags = [{"Key": "kind", "Value": "kept"}]
    s3.put_object_tagging(**target, Tagging={"TagSet": tags})
    assert s3.get_object_tagging(**target)["TagSet"] == tags
    s3.delete_object_tagging(**target)
    assert s3.get_object_tagging(**target)["TagSet"] == []
    assert s3.head_object(**target)["ETag"] == etag


if __name__ == "__main__":
    keep(globals(), make_arguments)
