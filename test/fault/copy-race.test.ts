// Sources that are deleted or replaced, and swept at once, while they are read to be copied: a copy
// has one version of its source or finds none, and no client is told to try again.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { MiB, makeContent } from './content.ts';
import { element } from './load.ts';
import { type Answer, S3Client } from './s3-client.ts';

const roundsMax = 20;
/** Read for longer than the sweeper rests. */
const sizeBytes = 64 * MiB;
const { bytes: first } = makeContent(1, sizeBytes);
const { bytes: second } = makeContent(2, 100);

let gateway: ServedGateway;
let client: S3Client;

beforeAll(async () => {
  gateway = await startServedGateway({
    args: ['--sweep-interval', '100ms', '--sweep-grace', '0ms'],
  });
  client = new S3Client(gateway);
  expect((await client.send('PUT', '/raw')).status).toBe(200);
});
afterAll(async () => {
  client.close();
  await gateway.stop();
});

/**
 * What copies were answered that were begun a moment before their source was changed, until one of
 * them found it gone when it was to be committed.
 */
async function copyWhile(
  change: () => Promise<Answer>,
  copy: () => Promise<Answer>,
): Promise<Set<string>> {
  const told = new Set<string>();
  const lostBefore = await countLost();
  for (let round = 0; round < roundsMax; round++) {
    await client.send('PUT', '/raw/source', { body: first });
    const copying = copy();
    await new Promise((resolve) => setTimeout(resolve, 10));
    await change();
    const { status, body } = await copying;
    const about = element(body, status === 200 ? 'ETag' : 'Code');
    told.add(`${status} ${about.replaceAll('&quot;', '')}`);
    if ((await countLost()) > lostBefore) return told;
  }
  throw new Error('no source was gone in time');
}

/** With a checksum of its own, for which the source is read. */
function copyObject(): Promise<Answer> {
  const headers = { 'x-amz-copy-source': '/raw/source', 'x-amz-checksum-algorithm': 'SHA256' };
  return client.send('PUT', '/raw/copy', { headers });
}

async function copyPart(): Promise<Answer> {
  const begun = await client.send('POST', '/raw/parts', { query: [['uploads', '']] });
  const query: [string, string][] = [
    ['partNumber', '1'],
    ['uploadId', element(begun.body, 'UploadId')],
  ];
  const headers = { 'x-amz-copy-source': '/raw/source' };
  return client.send('PUT', '/raw/parts', { query, headers });
}

const remove = () => client.send('DELETE', '/raw/source');
const replace = () => client.send('PUT', '/raw/source', { body: second });

/** How many tries to copy found their source gone when they were to be committed. */
async function countLost(): Promise<number> {
  const query: [string, string][] = [['action', 's3:PutObject']];
  const { body } = await client.send('GET', '/_/v1/records', { query });
  const { records } = JSON.parse(body.toString()) as { records: { error?: string }[] };
  return records.filter(({ error }) => error === 'SlowDown').length;
}

describe.each([
  { title: 'an object', copy: copyObject },
  { title: 'a part', copy: copyPart },
])('the source of $title', ({ copy }) => {
  it('that is deleted while it is copied was copied whole, or is not found', async () => {
    const told = await copyWhile(remove, copy);
    expect(told).toContain('404 NoSuchKey');
    told.delete('404 NoSuchKey');
    told.delete(`200 ${etagOf(first)}`);
    expect([...told]).toEqual([]);
  });

  it('that is replaced while it is copied is copied as it was, or as it is then', async () => {
    const told = await copyWhile(replace, copy);
    expect(told).toContain(`200 ${etagOf(second)}`);
    told.delete(`200 ${etagOf(second)}`);
    told.delete(`200 ${etagOf(first)}`);
    expect([...told]).toEqual([]);
  });
});

function etagOf(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('hex');
}
