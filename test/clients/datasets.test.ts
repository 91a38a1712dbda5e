// Tables in buckets: pyarrow's S3FileSystem, pandas and DuckDB, which read many short ranges. Each
// promise is a function of dataset-promises.py.
import { dataPython, describeWithTool } from '../tooling/tools.ts';
import { itKeepsPromises } from './python-promises.ts';
import { describeOnBothStores } from './stores.ts';

const promises = {
  partitioned_dataset: 'writes a partitioned dataset with pyarrow, and reads a filtered column',
  row_groups: 'reads single row groups of a Parquet file',
  pandas_frames: 'writes and reads frames with pandas, by pyarrow and by fsspec',
  streams: 'streams a file of unknown length with pyarrow, and seeks in it',
  folders: 'lists, copies, moves and deletes folders with pyarrow',
  duckdb_queries: 'asks a partitioned dataset with DuckDB',
  duckdb_writes: 'has DuckDB write Parquet files and CSV, which it and pyarrow read',
};

describeWithTool(dataPython, 'tables', (path) => {
  describeOnBothStores((targetOf) => {
    itKeepsPromises(path, 'dataset-promises.py', targetOf, promises);
  });
});
