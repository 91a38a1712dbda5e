"""What users of boto3's client rely on: one function per promise, each with a bucket of its own."""

import hashlib
import io
import urllib.error

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from promises import MIB, Skipped, fetch, keep, open_url, refused, seeded


def connect(endpoint):
    # Without `s3v4`, boto3 presigns for us-east-1 with the long deprecated Signature Version 2.
    options = {"signature_version": "s3v4", "s3": {"addressing_style": "path"}}
    config = Config(**options, retries={"total_max_attempts": 1})
    return boto3.client("s3", endpoint_url=endpoint, config=config)


def read(s3, bucket, key, **options):
    return s3.get_object(Bucket=bucket, Key=key, **options)["Body"].read()


def put_and_get(s3, bucket):
    body = seeded(1, 100_000)
    put = s3.put_object(
        Bucket=bucket,
        Key="dir/object",
        Body=body,
        ContentType="application/x-test",
        CacheControl="max-age=60",
        ContentDisposition='attachment; filename="a.bin"',
        Metadata={"colour": "blue", "with-dash": "x y z"},
    )
    assert put["ETag"] == f'"{hashlib.md5(body).hexdigest()}"', put["ETag"]
    got = s3.get_object(Bucket=bucket, Key="dir/object")
    assert got["Body"].read() == body
    head = s3.head_object(Bucket=bucket, Key="dir/object")
    for answer in (got, head):
        assert answer["ETag"] == put["ETag"]
        assert answer["ContentLength"] == len(body)
        assert answer["ContentType"] == "application/x-test"
        assert answer["CacheControl"] == "max-age=60"
        assert answer["ContentDisposition"] == 'attachment; filename="a.bin"'
        assert answer["Metadata"] == {"colour": "blue", "with-dash": "x y z"}, answer["Metadata"]
        assert answer["AcceptRanges"] == "bytes"
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    assert read(s3, bucket, "empty") == b""


def default_checksums(s3, bucket):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"checked")
    kinds = [name for name in put if name.startswith("Checksum") and name != "ChecksumType"]
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    # Before 1.36, boto3 sends a checksum only where it is told to.
    if hasattr(s3.meta.config, "request_checksum_calculation"):
        assert len(kinds) == 1, f"the answer to a PUT has the checksum that was sent: {put}"
        assert head[kinds[0]] == put[kinds[0]], head
    for algorithm in ("CRC32", "SHA1", "SHA256"):
        body = io.BytesIO(seeded(2, 300_000))
        s3.put_object(Bucket=bucket, Key=algorithm, Body=body, ChecksumAlgorithm=algorithm)
        head = s3.head_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        assert head[f"Checksum{algorithm}"], head
        assert read(s3, bucket, algorithm) == seeded(2, 300_000)


def wrong_digest(s3, bucket):
    put = lambda **options: s3.put_object(Bucket=bucket, Key="k", Body=b"body", **options)
    refused(lambda: put(ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg=="), 400, "BadDigest")
    refused(lambda: put(ContentMD5="not base64"), 400, "InvalidDigest")
    refused(lambda: put(ChecksumCRC32="AAAAAA=="), 400)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def ranges(s3, bucket):
    body = seeded(3, 2 * MIB)
    s3.put_object(Bucket=bucket, Key="k", Body=body)
    for header, start, end in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=262143-262145", 262143, 262146),
        ("bytes=2097000-", 2097000, 2 * MIB),
        ("bytes=-77", 2 * MIB - 77, 2 * MIB),
        ("bytes=2000000-9000000", 2000000, 2 * MIB),
    ):
        got = s3.get_object(Bucket=bucket, Key="k", Range=header)
        assert got["Body"].read() == body[start:end], header
        assert got["ContentRange"] == f"bytes {start}-{end - 1}/{2 * MIB}", got["ContentRange"]
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    beyond = lambda: s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={2 * MIB}-")
    refused(beyond, 416, "InvalidRange")


def conditional_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    get = lambda **options: s3.get_object(Bucket=bucket, Key="k", **options)
    assert get(IfMatch=etag)["Body"].read() == b"1"
    assert get(IfNoneMatch='"other"')["Body"].read() == b"1"
    refused(lambda: get(IfNoneMatch=etag), 304)
    refused(lambda: get(IfModifiedSince=modified), 304)
    refused(lambda: get(IfMatch='"other"'), 412, "PreconditionFailed")
    refused(lambda: s3.head_object(Bucket=bucket, Key="k", IfNoneMatch=etag), 304)


def conditional_writes(s3, bucket):
    if "IfMatch" not in s3.meta.service_model.operation_model("PutObject").input_shape.members:
        raise Skipped("this version of boto3 has no conditional writes")
    put = lambda **options: s3.put_object(Bucket=bucket, Key="k", **options)
    first = put(Body=b"1", IfNoneMatch="*")
    refused(lambda: put(Body=b"2", IfNoneMatch="*"), 412, "PreconditionFailed")
    refused(lambda: put(Body=b"3", IfMatch='"0123"'), 412, "PreconditionFailed")
    assert read(s3, bucket, "k") == b"1"
    put(Body=b"4", IfMatch=first["ETag"])
    assert read(s3, bucket, "k") == b"4"


def multipart_file_object(s3, bucket):
    body = seeded(4, 13 * MIB + 17)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    s3.upload_fileobj(
        io.BytesIO(body), bucket, "k", Config=config, ExtraArgs={"Metadata": {"parts": "three"}}
    )
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentLength"] == len(body)
    assert head["Metadata"] == {"parts": "three"}
    digests = b"".join(
        hashlib.md5(body[at : at + 5 * MIB]).digest() for at in range(0, len(body), 5 * MIB)
    )
    assert head["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"', head["ETag"]
    down = io.BytesIO()
    s3.download_fileobj(bucket, "k", down, Config=config)
    assert hashlib.sha256(down.getvalue()).digest() == hashlib.sha256(body).digest()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def copies(s3, bucket):
    s3.put_object(Bucket=bucket, Key="a b/ü+", Body=b"copied", Metadata={"a": "1"})
    source = {"Bucket": bucket, "Key": "a b/ü+"}
    s3.copy_object(Bucket=bucket, Key="kept", CopySource=source)
    replaced = {"MetadataDirective": "REPLACE", "Metadata": {"b": "2"}, "ContentType": "text/x"}
    s3.copy_object(Bucket=bucket, Key="replaced", CopySource=source, **replaced)
    s3.copy(source, bucket, "managed")
    for key, metadata in (("kept", {"a": "1"}), ("replaced", {"b": "2"}), ("managed", {"a": "1"})):
        got = s3.get_object(Bucket=bucket, Key=key)
        assert got["Body"].read() == b"copied"
        assert got["Metadata"] == metadata, (key, got["Metadata"])
    assert s3.head_object(Bucket=bucket, Key="replaced")["ContentType"] == "text/x"
    s3.delete_object(Bucket=bucket, Key="a b/ü+")
    assert read(s3, bucket, "kept") == b"copied"
    gone = lambda: s3.copy_object(Bucket=bucket, Key="x", CopySource=source)
    refused(gone, 404, "NoSuchKey")


def renames(s3, bucket):
    if not hasattr(s3, "rename_object"):
        raise Skipped("this version of boto3 has no renames")
    made = s3.put_object(Bucket=bucket, Key="from/a b", Body=b"1", Metadata={"x": "y"})
    before = s3.head_object(Bucket=bucket, Key="from/a b")
    source = {"RenameSource": "from/a%20b", "SourceIfMatch": made["ETag"]}
    s3.rename_object(Bucket=bucket, Key="to/é", **source)
    after = s3.head_object(Bucket=bucket, Key="to/é")
    for name in ("ETag", "LastModified", "Metadata", "ContentLength"):
        assert after[name] == before[name], name
    assert read(s3, bucket, "to/é") == b"1"
    refused(lambda: s3.head_object(Bucket=bucket, Key="from/a b"), 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"2")
    keep = lambda: s3.rename_object(
        Bucket=bucket, Key="to/é", RenameSource="k", DestinationIfNoneMatch="*"
    )
    refused(keep, 412, "PreconditionFailed")


def part_copies(s3, bucket):
    body = seeded(5, 12 * MIB)
    s3.put_object(Bucket=bucket, Key="source", Body=body)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="joined")["UploadId"]
    target = {"Bucket": bucket, "Key": "joined", "UploadId": upload}
    parts = []
    for number, (first, last) in enumerate(((6 * MIB, 12 * MIB - 1), (0, 6 * MIB - 1)), 1):
        copied = s3.upload_part_copy(
            **target,
            PartNumber=number,
            CopySource={"Bucket": bucket, "Key": "source"},
            CopySourceRange=f"bytes={first}-{last}",
        )
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    listed = s3.list_parts(**target)["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in listed] == [(1, 6 * MIB), (2, 6 * MIB)]
    s3.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})
    assert read(s3, bucket, "joined") == body[6 * MIB :] + body[: 6 * MIB]
    aborted = s3.create_multipart_upload(Bucket=bucket, Key="aborted")["UploadId"]
    s3.abort_multipart_upload(Bucket=bucket, Key="aborted", UploadId=aborted)
    gone = lambda: s3.list_parts(Bucket=bucket, Key="aborted", UploadId=aborted)
    refused(gone, 404, "NoSuchUpload")


def list_pages(s3, bucket):
    keys = sorted([f"dir{n % 7}/file{n:03}" for n in range(60)] + [f"top{n:02}" for n in range(15)])
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    for operation in ("list_objects_v2", "list_objects"):
        paginator = s3.get_paginator(operation)
        pages = paginator.paginate(Bucket=bucket, PaginationConfig={"PageSize": 8})
        assert [item["Key"] for page in pages for item in page["Contents"]] == keys, operation
        pages = list(
            s3.get_paginator(operation).paginate(
                Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 4}
            )
        )
        folders = [item["Prefix"] for page in pages for item in page.get("CommonPrefixes", [])]
        assert folders == [f"dir{n}/" for n in range(7)], (operation, folders)
        files = [item["Key"] for page in pages for item in page.get("Contents", [])]
        assert files == [f"top{n:02}" for n in range(15)], (operation, files)
    after = s3.list_objects_v2(Bucket=bucket, Prefix="top", StartAfter="top07", MaxKeys=3)
    assert [item["Key"] for item in after["Contents"]] == ["top08", "top09", "top10"]
    assert after["IsTruncated"] and after["KeyCount"] == 3


STRANGE_KEYS = (
    "a b", "a+b", "a%2Fb", "a%b", "a&b<c>\"'", "ü/文字/😀", "e\u0301", "a//b", "a/./b?x=1#y",
    "trailing/", "~tilde*!()'", "line\nbreak", "\u00a0", "a" * 1024,
)  # fmt: skip


def strange_keys(s3, bucket):
    for n, key in enumerate(STRANGE_KEYS):
        s3.put_object(Bucket=bucket, Key=key, Body=str(n).encode())
    for n, key in enumerate(STRANGE_KEYS):
        assert read(s3, bucket, key) == str(n).encode(), key
    listed = [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(STRANGE_KEYS, key=lambda key: key.encode()), listed


def delete_many(s3, bucket):
    for n in range(30):
        s3.put_object(Bucket=bucket, Key=f"k&{n}", Body=b"")
    names = [{"Key": f"k&{n}"} for n in range(20)] + [{"Key": "never was"}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": names})
    assert len(answer["Deleted"]) == 21 and "Errors" not in answer, answer
    quiet = s3.delete_objects(Bucket=bucket, Delete={"Objects": names, "Quiet": True})
    assert "Deleted" not in quiet
    left = [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert left == sorted(f"k&{n}" for n in range(20, 30))


def presigned(s3, bucket):
    target = {"Bucket": bucket, "Key": "dir/a b+ü"}
    put = s3.generate_presigned_url("put_object", Params=target, ExpiresIn=60)
    fetch(put, data=b"by URL", method="PUT")
    get = s3.generate_presigned_url("get_object", Params=target, ExpiresIn=60)
    assert fetch(get) == b"by URL"
    assert fetch(get, headers={"Range": "bytes=3-5"}) == b"URL"
    renamed = {**target, "ResponseContentType": "text/x-test"}
    url = s3.generate_presigned_url("get_object", Params=renamed, ExpiresIn=60)
    with open_url(url) as response:
        assert response.headers["Content-Type"] == "text/x-test", response.headers


def presigned_changed(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    s3.put_object(Bucket=bucket, Key="other", Body=b"2")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    copy = {"x-amz-copy-source": f"/{bucket}/other"}
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    for changed, options in (
        (url.replace("/k?", "/other?"), {}),
        (url + "&response-content-type=text/html", {}),
        (url, {"method": "DELETE"}),
        (put, {"method": "PUT", "data": b"", "headers": copy}),
    ):
        try:
            fetch(changed, **options)
        except urllib.error.HTTPError as error:
            assert error.code == 403, (changed, error.code)
        else:
            raise AssertionError(f"was not refused: {changed} {options}")
    assert read(s3, bucket, "k") == b"1"


def customer_keys(s3, bucket):
    with_key = lambda n: {"SSECustomerKey": seeded(n, 32), "SSECustomerAlgorithm": "AES256"}
    key, other = with_key(1), with_key(2)
    body = seeded(5, 11 * MIB)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    s3.upload_fileobj(io.BytesIO(body), bucket, "k", ExtraArgs=key, Config=config)
    got = io.BytesIO()
    s3.download_fileobj(bucket, "k", got, ExtraArgs=key, Config=config)
    assert got.getvalue() == body
    refused(lambda: read(s3, bucket, "k"), 400, "InvalidRequest")
    refused(lambda: read(s3, bucket, "k", **other), 403, "AccessDenied")
    refused(lambda: s3.head_object(Bucket=bucket, Key="k"), 400)
    source = {"CopySourceSSECustomerKey": seeded(1, 32), "CopySourceSSECustomerAlgorithm": "AES256"}
    target = {"Bucket": bucket, "Key": "copy", "CopySource": {"Bucket": bucket, "Key": "k"}}
    s3.copy_object(**target, **source, **other)
    assert read(s3, bucket, "copy", **other, Range="bytes=7000000-7000009") == body[7_000_000:][:10]
    link = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k", **key})
    try:
        fetch(link)
    except urllib.error.HTTPError as error:
        assert error.code == 403, error.code
    else:
        raise AssertionError("a link that signs a key was taken without it")


def list_buckets(s3, bucket):
    assert bucket in [found["Name"] for found in s3.list_buckets()["Buckets"]]
    s3.head_bucket(Bucket=bucket)
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] in (None, "us-east-1")
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    refused(lambda: s3.delete_bucket(Bucket=bucket), 409, "BucketNotEmpty")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_bucket(Bucket=bucket)
    refused(lambda: s3.head_bucket(Bucket=bucket), 404)


def errors(s3, bucket):
    refused(lambda: s3.get_object(Bucket=bucket, Key="none"), 404, "NoSuchKey")
    refused(lambda: s3.get_object(Bucket="no-such-bucket", Key="k"), 404, "NoSuchBucket")
    refused(lambda: s3.put_object(Bucket=bucket, Key="k" * 1025, Body=b""), 400, "KeyTooLongError")
    upload = {"Bucket": bucket, "Key": "k", "UploadId": "none"}
    refused(lambda: s3.upload_part(**upload, PartNumber=1, Body=b""), 404, "NoSuchUpload")
    missing = refused(lambda: s3.head_object(Bucket=bucket, Key="none"), 404)
    assert missing["ResponseMetadata"]["RequestId"], missing
    s3.delete_object(Bucket=bucket, Key="none")


def make_arguments(endpoint, promise):
    client, bucket = connect(endpoint), "boto3-" + promise.replace("_", "-")
    client.create_bucket(Bucket=bucket)
    return client, bucket


if __name__ == "__main__":
    keep(globals(), make_arguments)
