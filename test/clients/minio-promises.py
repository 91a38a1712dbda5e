"""What users of minio-py rely on; see promises.py."""

import io
import subprocess
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from minio.commonconfig import ENABLED, GOVERNANCE, ComposeSource, CopySource, Filter, Tags
from minio.datatypes import PostPolicy
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from minio.lifecycleconfig import Expiration, LifecycleConfig, Rule
from minio.objectlockconfig import DAYS, ObjectLockConfig
from minio.retention import Retention
from minio.versioningconfig import VersioningConfig
from promises import MIB, fetch, keep, run_documented, seeded


def make_arguments(endpoint, promise):
    client = run_documented("minio-py", endpoint, "client")
    bucket = "minio-" + promise.replace("_", "-")
    client.make_bucket(bucket, object_lock=promise == "locks")
    return client, bucket


def read(client, bucket, key, **options):
    answer = client.get_object(bucket, key, **options)
    try:
        return answer.read()
    finally:
        answer.close()
        answer.release_conn()


def refused(call, code):
    try:
        call()
    except S3Error as error:
        assert error.code == code, error
    else:
        raise AssertionError(f"was not refused with {code}")


def objects(client, bucket):
    body = seeded(51, 11 * MIB + 1)
    client.put_object(
        bucket, "dir/a b+ü", io.BytesIO(body), -1, part_size=5 * MIB, metadata={"colour": "blue"}
    )
    found = client.stat_object(bucket, "dir/a b+ü")
    assert found.size == len(body) and found.metadata["x-amz-meta-colour"] == "blue"
    assert read(client, bucket, "dir/a b+ü") == body
    assert read(client, bucket, "dir/a b+ü", offset=MIB, length=10) == body[MIB : MIB + 10]
    client.copy_object(bucket, "copied", CopySource(bucket, "dir/a b+ü"))
    sources = [ComposeSource(bucket, "copied"), ComposeSource(bucket, "dir/a b+ü")]
    client.compose_object(bucket, "composed", sources)
    assert read(client, bucket, "composed") == body + body
    listed = [found.object_name for found in client.list_objects(bucket, recursive=True)]
    assert listed == ["composed", "copied", "dir/a b+ü"], listed
    shallow = [(found.object_name, found.is_dir) for found in client.list_objects(bucket)]
    assert ("dir/", True) in shallow, shallow
    names = [DeleteObject(name) for name in listed]
    assert list(client.remove_objects(bucket, names)) == []
    refused(lambda: client.stat_object(bucket, "copied"), "NoSuchKey")
    client.remove_bucket(bucket)
    assert not client.bucket_exists(bucket)


def presigned(client, bucket):
    hour = timedelta(hours=1)
    fetch(client.presigned_put_object(bucket, "k", expires=hour), data=b"by URL", method="PUT")
    assert fetch(client.presigned_get_object(bucket, "k", expires=hour)) == b"by URL"
    policy = PostPolicy(bucket, datetime.now(timezone.utc) + hour)
    policy.add_starts_with_condition("key", "forms/")
    policy.add_content_length_range_condition(1, 100)
    fields = {**client.presigned_post_policy(policy), "key": "forms/k"}
    url = client.presigned_get_object(bucket, "k").split("/k?")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k")
        path.write_bytes(b"by form")
        parts = [part for pair in fields.items() for part in ("--form-string", "=".join(pair))]
        curl = ["curl", "--fail", "-sS", "--noproxy", "*", *parts, "-F", f"file=@{path}", url]
        subprocess.run(curl, check=True, capture_output=True)
    assert read(client, bucket, "forms/k") == b"by form"


def versions(client, bucket):
    client.set_bucket_versioning(bucket, VersioningConfig(ENABLED))
    assert client.get_bucket_versioning(bucket).status == ENABLED
    put = lambda text: client.put_object(bucket, "k", io.BytesIO(text), len(text))
    first, second = put(b"1").version_id, put(b"2").version_id
    client.remove_object(bucket, "k")
    # It gives markers after versions, whatever the order in the answer.
    listed = list(client.list_objects(bucket, include_version=True))
    assert [one.version_id for one in listed[:2]] == [second, first], listed
    assert [one.is_delete_marker for one in listed] == [False, False, True], listed
    assert listed[2].is_latest == "true"
    assert read(client, bucket, "k", version_id=first) == b"1"
    names = [DeleteObject(one.object_name, one.version_id) for one in listed]
    assert list(client.remove_objects(bucket, names)) == []
    client.remove_bucket(bucket)


def configurations(client, bucket):
    tags = Tags.new_object_tags()
    tags["kind"] = "log"
    client.put_object(bucket, "k", io.BytesIO(b"1"), 1, tags=tags)
    assert client.get_object_tags(bucket, "k") == tags
    tags["more"] = "a b"
    client.set_object_tags(bucket, "k", tags)
    assert client.get_object_tags(bucket, "k") == tags
    client.delete_object_tags(bucket, "k")
    assert client.get_object_tags(bucket, "k") is None
    bucket_tags = Tags.new_bucket_tags()
    bucket_tags["team"] = "ünï"
    client.set_bucket_tags(bucket, bucket_tags)
    assert client.get_bucket_tags(bucket) == bucket_tags
    of_logs = Filter(prefix="logs/")
    rule = Rule(ENABLED, rule_filter=of_logs, rule_id="r", expiration=Expiration(days=3))
    client.set_bucket_lifecycle(bucket, LifecycleConfig([rule]))
    (told,) = client.get_bucket_lifecycle(bucket).rules
    assert (told.rule_id, told.expiration.days, told.rule_filter.prefix) == ("r", 3, "logs/")
    client.delete_bucket_lifecycle(bucket)
    assert client.get_bucket_lifecycle(bucket) is None


def locks(client, bucket):
    client.set_object_lock_config(bucket, ObjectLockConfig(GOVERNANCE, 1, DAYS))
    config = client.get_object_lock_config(bucket)
    assert (config.mode, config.duration, config.duration_unit) == (GOVERNANCE, 1, DAYS)
    version = client.put_object(bucket, "k", io.BytesIO(b"1"), 1).version_id
    assert client.get_object_retention(bucket, "k", version).mode == GOVERNANCE
    remove = lambda: client.remove_object(bucket, "k", version_id=version)
    refused(remove, "AccessDenied")
    client.enable_object_legal_hold(bucket, "k", version)
    assert client.is_object_legal_hold_enabled(bucket, "k", version)
    client.disable_object_legal_hold(bucket, "k", version)
    later = datetime.now(timezone.utc) + timedelta(days=2)
    client.set_object_retention(bucket, "k", Retention(GOVERNANCE, later), version)
    retention = client.get_object_retention(bucket, "k", version)
    assert retention.retain_until_date > later - timedelta(1)
    doomed = [DeleteObject("k", version)]
    assert [error.code for error in client.remove_objects(bucket, doomed)] == ["AccessDenied"]
    assert list(client.remove_objects(bucket, doomed, bypass_governance_mode=True)) == []
    client.delete_object_lock_config(bucket)


if __name__ == "__main__":
    keep(globals(), make_arguments)
