// boto3 with its defaults (CRC checksums in trailers or headers, checked on reads) against a served
// gateway. Each promise is a function of boto3-promises.py or boto3-resources.py.
import { describe } from 'vitest';
import { boto3Python, describeWithTool } from '../tooling/tools.ts';
import { itKeepsPromises } from './python-promises.ts';
import { describeOnLocalStore, describeOnS3Store } from './stores.ts';

const clients = {
  put_and_get: 'reads back what it put, with its type and metadata',
  default_checksums: 'has its default checksum stored and sent back',
  wrong_digest: 'stores nothing when the digest is wrong',
  ranges: 'reads ranges',
  conditional_reads: 'gets 304 and 412 on conditional reads',
  conditional_writes: 'never overwrites with If-None-Match: *',
  multipart_file_object: 'uploads and downloads a file object in parts',
  copies: 'copies, with metadata kept or replaced',
  customer_keys: 'reads, in parts as well, what it wrote with a key, with that key alone',
  renames: 'renames, and keeps what is there with If-None-Match: *',
  part_copies: 'joins parts that were copied from ranges',
  list_pages: 'pages through a listing with delimiter and start-after',
  strange_keys: 'round-trips strange keys in bodies and listings',
  delete_many: 'deletes many objects in one request',
  presigned: 'lets plain HTTP read and write by presigned URL',
  presigned_changed: 'refuses a presigned URL that was changed',
  list_buckets: 'lists, finds and deletes buckets',
  errors: 'is told by code what is wrong',
};

const resources = {
  resources: 'walks, copies, waits for and deletes resources',
  transfers: 'carries a file to and fro in parts by eight threads, and copies it in parts',
  versions: 'keeps every version, and undoes a deletion by deleting its marker',
  suspended: 'has the null version replaced, and others kept, while versioning is suspended',
  presigned_versions: 'lets curl read one version by presigned URL, under other headers',
  presigned_posts: 'lets curl post a form, and nothing that its policy does not allow',
  attributes: 'is told the attributes of an object in parts, and reads one part',
  locks: 'cannot delete what is locked or held, but by a bypass',
  configurations: 'puts, gets and deletes configurations of a bucket',
  object_tags: 'changes the tags of an object, and nothing else of it',
};

describeWithTool(boto3Python, 'boto3', (path) => {
  describeOnLocalStore((targetOf) => {
    describe('by its client', () => {
      itKeepsPromises(path, 'boto3-promises.py', targetOf, clients);
    });
    describe('by its resources', () => {
      itKeepsPromises(path, 'boto3-resources.py', targetOf, resources);
    });
  });
  describeOnS3Store((targetOf) => {
    itKeepsPromises(path, 'boto3-resources.py', targetOf, resources);
  });
});
