// obstore, Python's way to object_store, the S3 of many Rust programs: polars, delta-rs, zarr. Each
// promise is a function of obstore-promises.py.
import { dataPython, describeWithTool } from '../tooling/tools.ts';
import { itKeepsPromises } from './python-promises.ts';
import { describeOnBothStores } from './stores.ts';

const promises = {
  objects: 'puts in parts, reads several ranges, copies, lists and signs',
  conditional_writes: 'lets one of many writers commit, and the next only from what that one wrote',
};

describeWithTool(dataPython, 'obstore', (path) => {
  describeOnBothStores((targetOf) => {
    itKeepsPromises(path, 'obstore-promises.py', targetOf, promises);
  });
});
