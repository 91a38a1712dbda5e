// s3fs, the S3 of fsspec, on aiobotocore. Each promise is a function of s3fs-promises.py.
import { dataPython, describeWithTool } from '../tooling/tools.ts';
import { itKeepsPromises } from './python-promises.ts';
import { describeOnLocalStore } from './stores.ts';

const promises = {
  trees: 'carries trees to and fro, finds, moves, copies and removes',
  files: 'writes in parts, appends, merges, and reads many ranges at once',
  metadata: 'changes metadata and tags of an object, and signs URLs',
  versions: 'reads the version that it is told to',
};

describeWithTool(dataPython, 's3fs', (path) => {
  describeOnLocalStore((targetOf) => {
    itKeepsPromises(path, 's3fs-promises.py', targetOf, promises);
  });
});
