"""What users of s3fs, the S3 of fsspec, rely on; see promises.py."""

import tempfile
from pathlib import Path

import fsspec
import s3fs
from promises import MIB, fetch, keep, run_documented, seeded


def make_arguments(endpoint, promise):
    s3 = run_documented("s3fs", endpoint, "s3")
    bucket = "s3fs-" + promise.replace("_", "-")
    s3.mkdir(bucket)
    return s3, bucket


def trees(s3, bucket):
    files = {"plain": b"1", "a b/c+d%20e": b"2", "a b/deep/ü": b"3"}
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files.items():
            Path(folder, "up", path).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, "up", path).write_bytes(content)
        s3.put(f"{folder}/up/", f"{bucket}/tree/", recursive=True)
        assert s3.find(bucket) == sorted(f"{bucket}/tree/{path}" for path in files)
        s3.get(f"{bucket}/tree/", f"{folder}/down/", recursive=True)
        for path, content in files.items():
            assert Path(folder, "down", path).read_bytes() == content, path
    assert sorted(s3.ls(f"{bucket}/tree")) == [f"{bucket}/tree/a b", f"{bucket}/tree/plain"]
    assert s3.glob(f"{bucket}/tree/**/ü") == [f"{bucket}/tree/a b/deep/ü"]
    assert s3.isdir(f"{bucket}/tree/a b") and not s3.exists(f"{bucket}/none")
    assert s3.du(f"{bucket}/tree") == 3
    # Its mv with recursive=True would ask for the folder itself, which is no object.
    s3.cp(f"{bucket}/tree/a b", f"{bucket}/moved", recursive=True)
    s3.rm(f"{bucket}/tree", recursive=True)
    assert s3.find(bucket) == [f"{bucket}/moved/c+d%20e", f"{bucket}/moved/deep/ü"]
    s3.cp(f"{bucket}/moved/deep/ü", f"{bucket}/copied")
    assert s3.cat(f"{bucket}/copied") == b"3"
    s3.rm(bucket, recursive=True)
    assert not s3.exists(bucket)


def files(s3, bucket):
    body = seeded(41, 12 * MIB + 5)
    with s3.open(f"{bucket}/k", "wb", block_size=5 * MIB) as out:
        for at in range(0, len(body), 1_000_003):
            out.write(body[at : at + 1_000_003])
    assert s3.info(f"{bucket}/k")["ETag"].endswith('-3"'), s3.info(f"{bucket}/k")
    with s3.open(f"{bucket}/k", "rb", block_size=100_000) as file:
        for at in (11 * MIB, 0, 5 * MIB - 50, len(body) - 100):
            file.seek(at)
            assert file.read(100) == body[at : at + 100], at
    with s3.open(f"{bucket}/k", "ab", block_size=5 * MIB) as out:
        out.write(b"appended")
    assert s3.cat(f"{bucket}/k") == body + b"appended"
    starts = list(range(0, len(body), 97_003))
    found = s3.cat_ranges([f"{bucket}/k"] * len(starts), starts, [at + 500 for at in starts])
    assert found == [(body + b"appended")[at : at + 500] for at in starts]
    s3.merge(f"{bucket}/twice", [f"{bucket}/k", f"{bucket}/k"])
    assert s3.info(f"{bucket}/twice")["size"] == 2 * len(body) + 16
    options = {"s3": s3.storage_options}
    with fsspec.open(f"simplecache::s3://{bucket}/k", "rb", **options) as file:
        assert file.read() == body + b"appended"


def metadata(s3, bucket):
    s3.pipe(f"{bucket}/k", b"1")
    s3.setxattr(f"{bucket}/k", colour="blue")
    assert s3.metadata(f"{bucket}/k", refresh=True) == {"colour": "blue"}
    s3.put_tags(f"{bucket}/k", {"kind": "log", "a b": "+"})
    assert s3.get_tags(f"{bucket}/k") == {"kind": "log", "a b": "+"}
    assert s3.cat(f"{bucket}/k") == b"1"
    assert fetch(s3.sign(f"{bucket}/k", expiration=60)) == b"1"
    assert s3.checksum(f"{bucket}/k") == s3.checksum(f"{bucket}/k", refresh=True)


def versions(s3, bucket):
    s3.call_s3(
        "put_bucket_versioning", Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    assert s3.is_bucket_versioned(bucket)
    aware = s3fs.S3FileSystem(**s3.storage_options, version_aware=True)
    for text in (b"1", b"2"):
        with aware.open(f"{bucket}/k", "wb") as file:
            file.write(text)
    listed = aware.object_version_info(f"{bucket}/k")
    assert len(listed) == 2, listed
    oldest = next(found["VersionId"] for found in listed if not found["IsLatest"])
    assert aware.cat(f"{bucket}/k", version_id=oldest) == b"1"
    with aware.open(f"{bucket}/k", "rb", version_id=oldest) as file:
        assert file.read() == b"1"
    assert aware.cat(f"{bucket}/k") == b"2"


if __name__ == "__main__":
    keep(globals(), make_arguments)
