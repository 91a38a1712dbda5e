"""What users of obstore rely on, and so those of polars, delta-rs and zarr; see promises.py."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from promises import MIB, documented, fetch, keep, run_documented, seeded


def make_arguments(endpoint, promise):
    bucket = "obstore-" + promise.replace("_", "-")
    # It makes no buckets.
    run_documented("minio-py", endpoint, "client").make_bucket(bucket)
    names = {}
    exec(documented("obstore", endpoint).replace('"first"', repr(bucket)), names)
    return (names["store"],)


def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"was not refused with {kind.__name__}")


def objects(store):
    body = seeded(91, 12 * MIB + 1)
    obstore.put(store, "dir/a b+%20ü", body, use_multipart=True, chunk_size=5 * MIB)
    assert bytes(obstore.get(store, "dir/a b+%20ü").bytes()) == body
    starts = [0, 5 * MIB - 5, 12 * MIB]
    found = obstore.get_ranges(store, "dir/a b+%20ü", starts=starts, lengths=[10, 10, 1])
    assert [bytes(one) for one in found] == [body[at : at + 10] for at in starts]
    obstore.copy(store, "dir/a b+%20ü", "copied")
    obstore.rename(store, "copied", "renamed")
    listed = obstore.list_with_delimiter(store)
    assert list(listed["common_prefixes"]) == ["dir"], listed
    assert [found["path"] for found in listed["objects"]] == ["renamed"], listed
    url = obstore.sign(store, "GET", "renamed", timedelta(minutes=1))
    assert fetch(url) == body
    obstore.delete(store, ["renamed", "dir/a b+%20ü"])
    assert obstore.list(store).collect() == []


def conditional_writes(store):
    """As a table of Delta or Iceberg is committed: of many writers one wins each turn."""

    def create(text):
        try:
            obstore.put(store, "log/1", text.encode(), mode="create")
        except AlreadyExistsError:
            return None
        return text

    with ThreadPoolExecutor(8) as pool:
        won = [text for text in pool.map(create, map(str, range(8))) if text is not None]
    assert len(won) == 1, won
    kept = obstore.get(store, "log/1")
    assert bytes(kept.bytes()).decode() == won[0]
    seen = {"e_tag": kept.meta["e_tag"]}
    obstore.put(store, "log/1", b"next", mode=seen)
    refused(PreconditionError, lambda: obstore.put(store, "log/1", b"late", mode=seen))
    assert bytes(obstore.get(store, "log/1").bytes()) == b"next"


if __name__ == "__main__":
    keep(globals(), make_arguments)
