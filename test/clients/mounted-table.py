"""A table that pyarrow and pandas read through the mount of a snapshot; see snapshots.test.ts. Run
as: SCRIPT ENDPOINT DEED BUCKET; DEED is `write`, `overwrite` or `read`."""

import sys

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
from promises import leave, run_documented

endpoint, deed, bucket = sys.argv[1:]
s3 = run_documented("pyarrow and pandas", endpoint, "s3")
ROWS = 12_000


def frame(factor):
    runs = [f"run {n % 3}" for n in range(ROWS)]
    return pd.DataFrame({"run": runs, "energy": [factor * n for n in range(ROWS)]})


def write(factor):
    table = pa.Table.from_pandas(frame(factor), preserve_index=False)
    ds.write_dataset(
        table,
        f"{bucket}/events",
        filesystem=s3,
        format="parquet",
        partitioning=["run"],
        partitioning_flavor="hive",
        max_rows_per_group=1000,
        existing_data_behavior="overwrite_or_ignore",
    )


if deed == "write":
    s3.create_dir(bucket)
    write(1)
elif deed == "overwrite":
    write(2)
else:
    dataset = ds.dataset(f"{bucket}/events", filesystem=s3, partitioning="hive")
    assert len(dataset.files) == 3, dataset.files
    chosen = dataset.to_table(columns=["energy"], filter=ds.field("run") == "run 1").to_pandas()
    assert sorted(chosen["energy"]) == list(range(1, ROWS, 3)), chosen
    first = pd.read_parquet(dataset.files[0], filesystem=s3)
    assert len(first) == ROWS / 3, first
leave()
