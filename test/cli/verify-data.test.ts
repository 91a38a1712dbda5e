// `bursar verify data` on a served gateway: what it covers, what it says of damage, and how it goes
// on where it was interrupted.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { formatBytes } from '#bursar/core/bytes-text.js';
import { compareCounters, RecordSum } from '../fault/bookkeeping.ts';
import { KiB, MiB, makeContent } from '../fault/content.ts';
import { type Finding, makeTenant } from '../fault/integrity-client.ts';
import { md5Header } from '../fault/load.ts';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor, flipBit, StoredExtents } from '../tooling/attacks.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const keys = {
  accessKeyId: 'VERIFYTESTACCESSKEY0',
  secretAccessKey: 'a-secret-of-the-operator-0123456789',
};
const rootKeys = {
  BURSAR_ROOT_ACCESS_KEY: keys.accessKeyId,
  BURSAR_ROOT_SECRET_KEY: keys.secretAccessKey,
};

let place: Workplace;
let served: Served;
let client: S3Client;
let cms: S3Client;
let extents: StoredExtents;
let catalog: CatalogEditor;

beforeAll(async () => {
  place = new Workplace();
  // No sweep comes between: what is edited stays.
  served = await place.serve(['--sweep-interval', '1h'], rootKeys);
  const target = { endpoint: served.endpoint, ...keys };
  client = new S3Client(target);
  cms = await makeTenant(client, target, 'cms');
  extents = StoredExtents.ofDataFolder(place.data);
  catalog = new CatalogEditor(place.data);
});

afterAll(async () => {
  catalog.close();
  cms.close();
  client.close();
  await place.remove();
});

function verify(...flags: string[]): Promise<Outcome> {
  return place.run(['verify', 'data', ...flags]);
}

async function put(by: S3Client, path: string, bytes: Buffer): Promise<void> {
  expect((await by.send('PUT', path, { body: bytes })).status).toBe(200);
}

async function makeBucket(by: S3Client, name: string): Promise<void> {
  expect((await by.send('PUT', `/${name}`)).status).toBe(200);
}

async function keepVersions(by: S3Client, name: string): Promise<void> {
  const status = '<Status>Enabled</Status>';
  const body = Buffer.from(`<VersioningConfiguration>${status}</VersioningConfiguration>`);
  const query: [string, string][] = [['versioning', '']];
  const answer = await by.send('PUT', `/${name}`, { query, body, headers: md5Header(body) });
  expect(answer.status).toBe(200);
}

/** Begins an upload of one part of 5 MiB; gives its id. */
async function uploadPart(path: string): Promise<string> {
  const begun = await client.send('POST', path, { query: [['uploads', '']] });
  const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body.toString())?.[1] as string;
  const query: [string, string][] = [
    ['partNumber', '3'],
    ['uploadId', id],
  ];
  const { bytes: body } = makeContent(3, 5 * MiB);
  expect((await client.send('PUT', path, { query, body })).status).toBe(200);
  return id;
}

/** Flips a bit of the first extent of an object's current version. */
async function damage(bucket: string, key: string): Promise<void> {
  const [run] = await catalog.runsOf(bucket, key);
  extents.edit(run?.id as Buffer, (sealed) => flipBit(sealed, 1000));
}

function readJson(outcome: Outcome): { findings: Finding[]; sum: Record<string, number> } {
  const lines = outcome.stdout.trim().split('\n');
  const parsed = lines.map((line) => JSON.parse(line));
  return { findings: parsed.slice(0, -1), sum: parsed.at(-1) };
}

describe('a run', () => {
  let upload: string;

  beforeAll(async () => {
    await makeBucket(client, 'first');
    await keepVersions(client, 'first');
    await put(client, '/first/empty', Buffer.alloc(0));
    await put(client, '/first/small', Buffer.from('some bytes'));
    await put(client, '/first/large', makeContent(1, 20 * MiB).bytes);
    await put(client, '/first/overwritten', makeContent(2, 300 * KiB).bytes);
    await put(client, '/first/overwritten', Buffer.from('shorter'));
    const source = { 'x-amz-copy-source': '/first/large' };
    await client.send('PUT', '/first/copy', { headers: source });
    upload = await uploadPart('/first/begun');
    await makeBucket(cms, 'second');
    await put(cms, '/second/theirs', makeContent(4, 100 * KiB).bytes);
  });

  it('of undamaged data covers every version and part, and ends with 0', async () => {
    const bytes = 10 + 2 * 20 * MiB + 300 * KiB + 7 + 5 * MiB + 100 * KiB;
    const { findings, sum } = readJson(await verify('--json', '--rate', '1GiB/s'));
    expect(findings).toEqual([]);
    expect(sum).toEqual({ versions: 8, bytes, findings: 0 });
    expect(existsSync(join(place.folder, 'bursar-verify.json'))).toBe(false);
    expect(await verify('--rate', '1GiB/s')).toEqual({
      code: 0,
      stdout: `verified 8 versions, ${formatBytes(bytes)}\n`,
      stderr: '',
    });
  });

  it('covers what tenant, bucket and prefix say', async () => {
    const sumOf = async (...flags: string[]) => readJson(await verify('--json', ...flags)).sum;
    expect(await sumOf('--tenant', 'cms')).toMatchObject({ versions: 1, bytes: 100 * KiB });
    expect(await sumOf('--tenant', 'cms', '--bucket', 'second')).toMatchObject({ versions: 1 });
    expect(await sumOf('--bucket', 'first', '--prefix', 'o')).toMatchObject({ versions: 2 });
    expect(await sumOf('--prefix', 'be')).toMatchObject({ versions: 1, bytes: 5 * MiB });
    expect(await sumOf('--prefix', 'nothing')).toMatchObject({ versions: 0 });
  });

  it('refuses what is not there, with the gateway’s own words', async () => {
    expect(await verify('lhcb')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'bursar: The tenant does not exist. (NoSuchTenant)\n',
    });
    expect((await verify('--bucket', 'second')).stderr).toContain('(NoSuchBucket)');
    expect((await verify('--rate', 'fast')).code).toBe(2);
    expect((await verify('--rate', '0')).code).toBe(2);
  });

  it('reports damage of every kind of row, and exits with 1', async () => {
    await put(client, '/first/\u001b[2Jevil', makeContent(5, 80 * KiB).bytes);
    await damage('first', '\u001b[2Jevil');
    await damage('first', 'large');
    const older = `SELECT id FROM extents WHERE store = 1 AND id = (SELECT substr(manifest, 1, 16)
      FROM noncurrent_versions WHERE key = 'overwritten')`;
    extents.remove((await catalog.get<{ id: Buffer }>(older))?.id as Buffer);
    await catalog.run("UPDATE parts SET etag = 'altered' WHERE upload_id = ?", upload);
    await catalog.run("UPDATE versions SET size = 11 WHERE key = 'small'");
    // Hidden from readers who name no version.
    await catalog.run(`INSERT INTO noncurrent_versions SELECT *, 9, 9 FROM versions
      WHERE key = 'empty'`);
    await catalog.run("DELETE FROM versions WHERE key = 'empty'");
    await catalog.run(`UPDATE extents SET state = 2 WHERE id =
      (SELECT substr(manifest, 1, 16) FROM versions WHERE key = 'theirs')`);

    const told = await verify('--bucket', 'first', '--rate', '1GiB/s');
    expect(told.code).toBe(1);
    expect(told.stderr).toBe('bursar: 7 of 8 versions are not what was written\n');
    expect(told.stdout).toMatch(/^default\/first\/small {2}version \d+ {2}row: /m);
    expect(told.stdout).toMatch(/^default\/first\/empty {2}version \d+ {2}row: /m);
    expect(told.stdout).toMatch(/^default\/first\/copy {2}version \d+ {2}chunk: /m);
    expect(told.stdout).toMatch(/^default\/first\/large {2}version \d+ {2}chunk: /m);
    expect(told.stdout).toMatch(/^default\/first\/overwritten {2}version \d+ {2}missing: /m);
    expect(told.stdout).toContain(`default/first/begun  part 3 of upload ${upload}  row: `);
    expect(told.stdout).not.toContain('\u001b');

    const { findings, sum } = readJson(await verify('--json', '--rate', '1GiB/s'));
    expect(sum.findings).toBe(8);
    expect(findings).toHaveLength(8);
    expect(findings.at(-1)).toMatchObject({ tenant: 'cms', bucket: 'second', kind: 'missing' });
    expect(findings.find(({ key }) => key === 'begun')).toMatchObject({
      tenant: 'default',
      bucket: 'first',
      seq: null,
      uploadId: upload,
      partNumber: 3,
      kind: 'row',
    });
  });

  it('leaves a record of each slice and finding, and the counters are their sum', async () => {
    const query: [string, string][] = [['action', 'bursar:IntegrityFailure']];
    const { body } = await client.send('GET', '/_/v1/records', { query });
    const { records } = JSON.parse(body.toString()) as { records: Record<string, unknown>[] };
    expect(records).toHaveLength(7 + 8);
    const large = records.find(({ key }) => key === 'large');
    expect(large).toMatchObject({
      tenant: 'default',
      principal: 'admin',
      bucket: 'first',
      evidence: 'none',
      status: 500,
      error: 'BursarIntegrityError',
    });
    expect(large).not.toHaveProperty('accessKeyId');
    expect(large?.target).toMatch(/^versions\/\d+$/);
    const seen = await cms.send('GET', '/_/v1/records', { query });
    expect(JSON.parse(seen.body.toString()).records).toMatchObject([
      { tenant: 'cms', principal: 'boss', bucket: 'second', key: 'theirs' },
    ]);
    const sum = new RecordSum();
    expect(await compareCounters(client, sum)).toEqual([]);
  });
});
