"""What those rely on who keep tables in a bucket: pyarrow, pandas and DuckDB; see promises.py."""

from pathlib import Path

import duckdb
import duckdb_extension_httpfs
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from promises import MIB, documented, keep, run_documented, seeded
from pyarrow import fs

ROWS = 24_000


def make_arguments(endpoint, promise):
    s3 = run_documented("pyarrow and pandas", endpoint, "s3")
    bucket = "data-" + promise.replace("_", "-")
    s3.create_dir(bucket)
    return s3, bucket, endpoint


def measurements():
    """Of three runs, in row groups that are small: readers ask for many short ranges."""
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "run": np.repeat(["a b", "c+d", "ü"], ROWS // 3),
            "event": np.arange(ROWS),
            "energy": random.normal(size=ROWS),
            "detector": random.integers(0, 40, size=ROWS).astype("int16"),
            "note": [f"event {n} of the run" for n in range(ROWS)],
        }
    )


def write_dataset(s3, path):
    table = pa.Table.from_pandas(measurements(), preserve_index=False)
    ds.write_dataset(
        table,
        path,
        filesystem=s3,
        format="parquet",
        partitioning=["run"],
        partitioning_flavor="hive",
        max_rows_per_group=1000,
        min_rows_per_group=500,
    )


def partitioned_dataset(s3, bucket, _):
    write_dataset(s3, f"{bucket}/events")
    found = s3.get_file_info(fs.FileSelector(f"{bucket}/events", recursive=True))
    assert sum(info.is_file for info in found) == 3, found
    dataset = ds.dataset(f"{bucket}/events", filesystem=s3, partitioning="hive")
    chosen = (ds.field("run") == "c+d") & (ds.field("detector") == 7)
    table = dataset.to_table(columns=["energy"], filter=chosen)
    frame = measurements()
    wanted = frame[(frame.run == "c+d") & (frame.detector == 7)].energy
    assert sorted(table["energy"].to_pylist()) == sorted(wanted.tolist())
    assert dataset.count_rows() == ROWS


def pandas_frames(s3, bucket, endpoint):
    frame = measurements()
    path = f"{bucket}/frame.parquet"
    frame.to_parquet(path, filesystem=s3, row_group_size=1000)
    filters = [("event", ">=", 11_500), ("event", "<", 11_510)]
    rows = pd.read_parquet(path, filesystem=s3, columns=["event", "note"], filters=filters)
    pd.testing.assert_frame_equal(
        rows.reset_index(drop=True),
        frame.loc[11_500:11_509, ["event", "note"]].reset_index(drop=True),
    )
    options = {"client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"}}
    url = f"s3://{bucket}/by fsspec/part=1/frame.csv.gz"
    frame.head(500).to_csv(url, index=False, storage_options=options)
    pd.testing.assert_frame_equal(
        pd.read_csv(url, storage_options=options, dtype={"detector": "int16"}), frame.head(500)
    )


def row_groups(s3, bucket, _):
    write_dataset(s3, f"{bucket}/events")
    frame = measurements()
    with s3.open_input_file(f"{bucket}/events/run=%C3%BC/part-0.parquet") as source:
        file = pq.ParquetFile(source, pre_buffer=False)
        first = file.read_row_group(0, columns=["event"])["event"][0].as_py()
        for group in range(0, file.num_row_groups, 5):
            told = file.read_row_group(group, columns=["note"])["note"][0].as_py()
            assert told in frame.note.values
    assert frame.run[first] == "ü"


def streams(s3, bucket, _):
    body = seeded(31, 11 * MIB + 7)
    with s3.open_output_stream(f"{bucket}/dir/k", metadata={"Content-Type": "text/x-test"}) as out:
        for at in range(0, len(body), 333_333):
            out.write(body[at : at + 333_333])
    with s3.open_input_stream(f"{bucket}/dir/k") as stream:
        assert stream.read() == body
        assert stream.metadata()["Content-Type"] == b"text/x-test", stream.metadata()
    with s3.open_input_file(f"{bucket}/dir/k") as file:
        assert file.size() == len(body)
        for at in (0, 1, 262_143, 5 * MIB - 1, len(body) - 10):
            assert file.read_at(100, at) == body[at : at + 100], at


def folders(s3, bucket, _):
    for path in ("a/b/c", "a/d", "other"):
        with s3.open_output_stream(f"{bucket}/{path}") as out:
            out.write(path.encode())
    s3.create_dir(f"{bucket}/empty/deeper", recursive=True)
    listed = s3.get_file_info(fs.FileSelector(bucket))
    assert sorted(info.base_name for info in listed) == ["a", "empty", "other"], listed
    assert s3.get_file_info(f"{bucket}/a").type == fs.FileType.Directory
    assert s3.get_file_info(f"{bucket}/none").type == fs.FileType.NotFound
    s3.copy_file(f"{bucket}/a/d", f"{bucket}/a/copy of d")
    s3.move(f"{bucket}/other", f"{bucket}/moved")
    s3.delete_dir(f"{bucket}/a/b")
    left = s3.get_file_info(fs.FileSelector(bucket, recursive=True))
    files = sorted(info.path for info in left if info.is_file)
    assert files == [f"{bucket}/a/copy of d", f"{bucket}/a/d", f"{bucket}/moved"], files
    s3.delete_dir_contents(bucket)
    assert s3.get_file_info(fs.FileSelector(bucket)) == []
    s3.delete_dir(bucket)


def connect_duckdb(endpoint):
    quack = duckdb.connect(config={"threads": 4})
    # Where DuckDB would download it, the documented line is enough.
    package = Path(duckdb_extension_httpfs.__file__).parent
    (extension,) = package.glob("extensions/*/httpfs.duckdb_extension")
    quack.execute(documented("DuckDB", endpoint).replace("LOAD httpfs", f"LOAD '{extension}'"))
    return quack


def duckdb_queries(s3, bucket, endpoint):
    write_dataset(s3, f"{bucket}/events")
    quack, frame = connect_duckdb(endpoint), measurements()
    events = f"read_parquet('s3://{bucket}/events/*/*.parquet', hive_partitioning = true)"
    told = quack.sql(f"SELECT run, count(*), max(event) FROM {events} GROUP BY run ORDER BY run")
    sums = frame.groupby("run").event.agg(["count", "max"])
    assert told.fetchall() == [(run, *row) for run, row in sums.iterrows()], told
    one = quack.sql(f"SELECT note FROM {events} WHERE run = 'a b' AND event = 1234").fetchall()
    assert one == [("event 1234 of the run",)], one


def duckdb_writes(s3, bucket, endpoint):
    quack, frame = connect_duckdb(endpoint), measurements()
    quack.register("frame", frame)
    folder = f"s3://{bucket}/by duckdb"
    quack.sql(f"COPY (SELECT * FROM frame) TO '{folder}' (FORMAT parquet, PARTITION_BY (run))")
    events = f"read_parquet('{folder}/**/*.parquet')"
    told = quack.sql(f"SELECT count(*), sum(event)::BIGINT FROM {events}").fetchone()
    assert told == (ROWS, int(frame.event.sum())), told
    quack.sql(f"COPY (SELECT event, note FROM frame) TO 's3://{bucket}/notes.csv' (HEADER)")
    told = quack.sql(f"SELECT max(note) FROM read_csv('s3://{bucket}/notes.csv')").fetchone()
    assert told == (frame.note.max(),), told
    table = pq.read_table(f"{bucket}/by duckdb", filesystem=s3, columns=["event"])
    assert table.num_rows == ROWS


if __name__ == "__main__":
    keep(globals(), make_arguments)
