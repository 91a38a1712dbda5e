// Sources that are deleted or replaced, and swept at once, while they are read to be copied: a copy
// has one version of its source or finds none, no client is told to try again, and what it is told
// is recorded and charged once.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { chunkBytes } from '#bursar/core/limits.js';
import { labMarket, labTexts } from '../quota/storage/lab-books.ts';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { MiB, makeContent } from './content.ts';
import { element } from './load.ts';
import { type Answer, S3Client } from './s3-client.ts';

const roundsMax = 20;
/** Read for longer than the sweeper rests. */
const sizeBytes = 64 * MiB;
const { bytes: first } = makeContent(1, sizeBytes);
const { bytes: second } = makeContent(2, 100);

/** Of prices by which reading costs something. */
const books = mkdtempSync(join(tmpdir(), 'bursar-books-'));

interface LogRecord {
  index: number;
  status: number;
  requestId: string;
  cost?: string;
}

let gateway: ServedGateway;
/** Whose sources they are, and who copies them. */
let owner: S3Client;
let copier: S3Client;

beforeAll(async () => {
  for (const [name, text] of Object.entries(labTexts)) {
    writeFileSync(join(books, name), text.replaceAll('{"usdPerGb":"0"', '{"usdPerGb":"1"'));
  }
  const prices = ['--price-books', books, '--prices', labMarket];
  gateway = await startServedGateway({
    args: ['--sweep-interval', '100ms', '--sweep-grace', '0ms', ...prices],
  });
  owner = new S3Client(gateway);
  const principals = '/_/v1/tenants/default/principals';
  const body = Buffer.from(JSON.stringify({ name: 'copier', kind: 'robot', role: 'member' }));
  const headers = { 'content-type': 'application/json' };
  await owner.send('POST', principals, { body, headers });
  const key = await owner.send('POST', `${principals}/copier/access-keys`);
  copier = new S3Client({ endpoint: gateway.endpoint, ...JSON.parse(key.body.toString()) });
  await setLimits();
  expect((await owner.send('PUT', '/raw')).status).toBe(200);
  expect((await copier.send('PUT', '/copies')).status).toBe(200);
});
afterAll(async () => {
  owner.close();
  copier.close();
  await gateway.stop();
  rmSync(books, { recursive: true, force: true });
});

/** Far more than is used. What is set aside for operations to come goes back. */
async function setLimits(): Promise<{ caps: { reserved: string | number }[] }> {
  const limits = { requests: { day: 1e9 }, spend: { day: '1000' }, storedBytes: { total: 1e12 } };
  const { status, body } = await owner.send('PUT', '/_/v1/limits/principal:default/copier', {
    encodedPath: `/_/v1/limits/${encodeURIComponent('principal:default/copier')}`,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(limits)),
  });
  if (status !== 200) throw new Error(body.toString());
  return JSON.parse(body.toString());
}

const sharing = Buffer.from(
  JSON.stringify({
    Version: '2012-10-17',
    Statement: {
      Effect: 'Allow',
      Principal: { AWS: 'default/copier' },
      Action: ['s3:GetObject', 's3:ListBucket'],
      Resource: ['arn:aws:s3:::raw', 'arn:aws:s3:::raw/*'],
    },
  }),
);
const policy: [string, string][] = [['policy', '']];
const share = () => owner.send('PUT', '/raw', { query: policy, body: sharing });
const keepOut = () => owner.send('DELETE', '/raw', { query: policy });

/** What a copy was answered, and charged. */
interface Told {
  about: string;
  cost: string | undefined;
}

async function tell(copying: Promise<Answer>): Promise<Told> {
  const { status, headers, body } = await copying;
  const query: [string, string][] = [
    ['bucket', 'copies'],
    ['limit', '1000'],
  ];
  const listed = await owner.send('GET', '/_/v1/records', { query });
  const { records } = JSON.parse(listed.body.toString()) as { records: LogRecord[] };
  const its = records.filter(({ requestId }) => requestId === headers['x-amz-request-id']);
  const index = Number(headers['x-bursar-receipt']);
  expect(its).toEqual([expect.objectContaining({ status, index })]);
  const about = element(body, status === 200 ? 'ETag' : 'Code').replaceAll('&quot;', '');
  return { about: `${status} ${about}`, cost: its[0]?.cost };
}

/** How many chunks were read of what is stored. */
async function countChunks(): Promise<number> {
  const text = await readMetrics(gateway);
  const labels = { store: 'local', kind: 'get' };
  return totalOf(parseMetrics(text), 'bursar_store_requests_total', labels);
}

/**
 * What a copy was told that was begun a moment before its source was changed, and had read it whole
 * when it was gone: that must be about `changed`.
 */
async function copyWhile(
  change: () => Promise<unknown>,
  copy: () => Promise<Answer>,
  changed: string,
): Promise<Told> {
  for (let round = 0; round < roundsMax; round++) {
    await share();
    await owner.send('PUT', '/raw/source', { body: first });
    const before = await countChunks();
    const telling = tell(copy());
    await new Promise((resolve) => setTimeout(resolve, 10));
    await change();
    const told = await telling;
    if (told.about === `200 ${etagOf(first)}`) continue;
    expect(told.about).toBe(changed);
    if ((await countChunks()) - before >= sizeBytes / chunkBytes) return told;
  }
  throw new Error('no source was gone in time');
}

/** With a checksum of its own, for which the source is read. */
function copyObject(more: Record<string, string> = {}): Promise<Answer> {
  const headers = { 'x-amz-copy-source': '/raw/source', 'x-amz-checksum-algorithm': 'SHA256' };
  return copier.send('PUT', '/copies/copy', { headers: { ...headers, ...more } });
}

async function copyPart(more: Record<string, string> = {}): Promise<Answer> {
  const begun = await copier.send('POST', '/copies/parts', { query: [['uploads', '']] });
  const query: [string, string][] = [
    ['partNumber', '1'],
    ['uploadId', element(begun.body, 'UploadId')],
  ];
  const headers = { 'x-amz-copy-source': '/raw/source', ...more };
  return copier.send('PUT', '/copies/parts', { query, headers });
}

const remove = () => owner.send('DELETE', '/raw/source');
const replace = () => owner.send('PUT', '/raw/source', { body: second });

describe.each([
  { title: 'an object', copy: copyObject },
  { title: 'a part', copy: copyPart },
])('the source of $title', ({ copy }) => {
  it('that is deleted while it is copied was copied whole, or is not found', async () => {
    await copyWhile(remove, copy, '404 NoSuchKey');
  });

  it('that is replaced while it is copied is copied as it was, or as it is then', async () => {
    const { about, cost } = await copyWhile(replace, copy, `200 ${etagOf(second)}`);
    // It costs what it costs where nothing is changed.
    expect(await tell(copy())).toEqual({ about, cost });
    expect(Number(cost)).toBeGreaterThan(0);
  });

  it('that is replaced by what does not meet the conditions is not copied', async () => {
    const only = () => copy({ 'x-amz-copy-source-if-match': etagOf(first) });
    await copyWhile(replace, only, '412 PreconditionFailed');
  });

  it('that is replaced for others to read is not copied as it is then', async () => {
    const change = async () => {
      await keepOut();
      await replace();
    };
    await copyWhile(change, copy, '403 AccessDenied');
  });
});

it('nothing stays set aside', async () => {
  await vi.waitFor(async () => {
    const { caps } = await setLimits();
    expect(caps.map(({ reserved }) => Number(reserved))).toEqual([0, 0, 0]);
  }, 20_000);
});

function etagOf(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('hex');
}
