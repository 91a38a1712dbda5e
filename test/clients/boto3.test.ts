// boto3 with its defaults (CRC checksums in trailers or headers, checked on reads) against a served
// gateway. Each promise is one function of boto3-promises.py, which asserts and exits with 0 or 1.
import { join } from 'node:path';
import { afterAll, beforeAll, it } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { boto3Python, clientEnvironment, describeWithTool, runTool } from '../tooling/tools.ts';

const timeoutMs = 120_000;
const script = join(import.meta.dirname, 'boto3-promises.py');

const promises = {
  put_and_get: 'reads back what it put, with its type and metadata',
  default_checksums: 'has its default checksum stored and sent back',
  wrong_digest: 'stores nothing when the digest is wrong',
  ranges: 'reads ranges',
  conditional_reads: 'gets 304 and 412 on conditional reads',
  conditional_writes: 'never overwrites with If-None-Match: *',
  multipart_file_object: 'uploads and downloads a file object in parts',
  copies: 'copies, with metadata kept or replaced',
  part_copies: 'joins parts that were copied from ranges',
  list_pages: 'pages through a listing with delimiter and start-after',
  strange_keys: 'round-trips strange keys in bodies and listings',
  delete_many: 'deletes many objects in one request',
  presigned: 'lets plain HTTP read and write by presigned URL',
  presigned_changed: 'refuses a presigned URL that was changed',
  list_buckets: 'lists, finds and deletes buckets',
  errors: 'is told by code what is wrong',
};

describeWithTool(boto3Python, 'boto3', (path) => {
  let gateway: ServedGateway;

  beforeAll(async () => {
    gateway = await startServedGateway();
  }, timeoutMs);

  afterAll(async () => {
    await gateway?.stop();
  }, timeoutMs);

  for (const [name, title] of Object.entries(promises)) {
    it(title, { timeout: timeoutMs }, async () => {
      await runTool(path, [script, gateway.endpoint, name], clientEnvironment(gateway));
    });
  }
});
