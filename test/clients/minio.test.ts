// minio-py, which is not built on an SDK of AWS. Each promise is a function of minio-promises.py.
import { dataPython, describeWithTool } from '../tooling/tools.ts';
import { itKeepsPromises } from './python-promises.ts';
import { describeOnLocalStore } from './stores.ts';

const promises = {
  objects: 'puts a stream of unknown length, copies, composes, lists and removes',
  presigned: 'lets others read, write and post a form by what it signed',
  versions: 'lists and removes versions and markers',
  configurations: 'puts, gets and deletes tags and lifecycle rules',
  locks: 'locks and holds versions, and bypasses governance',
};

describeWithTool(dataPython, 'minio-py', (path) => {
  describeOnLocalStore((targetOf) => {
    itKeepsPromises(path, 'minio-promises.py', targetOf, promises);
  });
});
