// Attacks on the rows of versions, in each of their three tables, by somebody who can edit the
// database and has no keys: nothing is told of what was changed, no lock is got round, and what is
// right stays readable. The gateway serves meanwhile.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CatalogEditor } from '../tooling/attacks.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { readRecords } from './integrity-client.ts';
import { md5Header } from './load.ts';
import { sleep } from './plain-start.ts';
import { type Answer, S3Client } from './s3-client.ts';

const timeoutMs = 60_000;
const columns = `bucket_id, key, seq, version_id, is_marker, size, etag, sha256, class, owner,
  created_ms, manifest, attributes, epoch, manifest_mac, row_mac, billed`;

let gateway: ServedGateway;
let client: S3Client;
let catalog: CatalogEditor;
let key = '';
let keys = 0;

beforeAll(async () => {
  gateway = await startServedGateway({
    args: ['--sweep-interval', '100ms', '--sweep-grace', '0s'],
  });
  client = new S3Client(gateway);
  catalog = new CatalogEditor(gateway.dataDir);
  const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
  expect((await client.send('PUT', '/locked', { headers })).status).toBe(200);
  await client.send('PUT', '/kept');
  const body = Buffer.from(
    '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
  );
  const sending = { query: [['versioning', '']] as [string, string][], body };
  const answer = await client.send('PUT', '/kept', { ...sending, headers: md5Header(body) });
  expect(answer.status).toBe(200);
}, timeoutMs);

afterAll(async () => {
  catalog?.close();
  client?.close();
  await gateway?.stop();
}, timeoutMs);

beforeEach(() => {
  key = `key-${keys++}`;
});

/** Gives the version's id. */
async function put(text: string, bucket = 'kept', headers = {}): Promise<string> {
  const body = Buffer.from(text);
  const sending = { body, headers: { ...headers, ...md5Header(body) } };
  const answer = await client.send('PUT', `/${bucket}/${key}`, sending);
  expect(answer.status).toBe(200);
  return String(answer.headers['x-amz-version-id']);
}

function ask(method: string, id?: string, bucket = 'kept'): Promise<Answer> {
  const query: [string, string][] = id === undefined ? [] : [['versionId', id]];
  return client.send(method, `/${bucket}/${key}`, { query });
}

async function expectDamaged(answer: Answer): Promise<void> {
  expect(answer.status).toBe(500);
  expect(answer.headers.etag).toBeUndefined();
  const told = answer.body.toString();
  if (told !== '') expect(told).toContain('<Code>BursarIntegrityError</Code>');
  const [record] = await readRecords(client, String(answer.headers['x-amz-request-id']));
  expect(record).toMatchObject({ status: 500, error: 'BursarIntegrityError' });
}

async function expectText(text: string, id?: string): Promise<void> {
  const { status, body } = await ask('GET', id);
  expect([status, body.toString()]).toEqual([200, text]);
}

describe('a noncurrent version', { timeout: timeoutMs }, () => {
  it.each([
    ['its id', "version_id = '00000000000000000000000000000001'", '0'.repeat(31).concat('1')],
    ['its id, to null', 'version_id = NULL', 'null'],
    ['what it is', 'is_marker = 1', undefined],
    ['its content', 'size = size - 1', undefined],
    ['when it became noncurrent', 'superseded_ms = superseded_ms - 86400000000', undefined],
    ['what it became noncurrent by', 'superseded_seq = superseded_seq - 1', undefined],
    ['its metadata', `attributes = '{"headers":{},"metadata":{"a":"b"}}'`, undefined],
  ])('is refused with %s changed, and so is a listing of versions', async (_, change, asked) => {
    const older = await put('older');
    await put('newer');
    await catalog.run(
      'CREATE TEMP TABLE old AS SELECT * FROM noncurrent_versions WHERE key = ?',
      key,
    );
    await catalog.run(`UPDATE noncurrent_versions SET ${change} WHERE key = ?`, key);
    await expectDamaged(await ask('GET', asked ?? older));
    await expectDamaged(await ask('HEAD', asked ?? older));
    const query: [string, string][] = [
      ['versions', ''],
      ['prefix', key],
    ];
    await expectDamaged(await client.send('GET', '/kept', { query }));
    await expectText('newer');
    await catalog.run('DELETE FROM noncurrent_versions WHERE key = ?', key);
    await catalog.run('INSERT INTO noncurrent_versions SELECT * FROM old');
    await catalog.run('DROP TABLE old');
    await expectText('older', older);
  });

  it('is refused in the place of the current one', async () => {
    await put('older');
    await put('newer');
    await catalog.run('DELETE FROM versions WHERE key = ?', key);
    const moved = `SELECT ${columns} FROM noncurrent_versions WHERE key = ?`;
    await catalog.run(`INSERT INTO versions ${moved}`, key);
    await expectDamaged(await ask('GET'));
    await catalog.run('DELETE FROM noncurrent_versions WHERE key = ?', key);
    await expectDamaged(await ask('GET'));
    await put('newest');
    await expectText('newest');
  });

  it('is refused as the current one that it was, while it is kept as noncurrent', async () => {
    await put('older');
    await catalog.run('CREATE TEMP TABLE old AS SELECT * FROM versions WHERE key = ?', key);
    await put('newer');
    await catalog.run('DELETE FROM versions WHERE key = ?', key);
    await catalog.run('INSERT INTO versions SELECT * FROM old');
    await catalog.run('DROP TABLE old');
    await expectDamaged(await ask('GET'));
  });

  it('is refused again after it was deleted for good', async () => {
    const older = await put('older');
    await put('newer');
    await catalog.run(
      'CREATE TEMP TABLE old AS SELECT * FROM noncurrent_versions WHERE key = ?',
      key,
    );
    expect((await ask('DELETE', older)).status).toBe(204);
    await catalog.run('INSERT INTO noncurrent_versions SELECT * FROM old');
    await catalog.run('DROP TABLE old');
    await expectDamaged(await ask('GET', older));
    expect((await ask('DELETE', older)).status).toBe(204);
  });

  it('comes back refused, where it was damaged when the current one was deleted', async () => {
    const older = await put('older');
    const newer = await put('newer');
    await catalog.run("UPDATE noncurrent_versions SET etag = 'x' WHERE key = ?", key);
    expect((await ask('DELETE', newer)).status).toBe(204);
    await expectDamaged(await ask('GET'));
    expect((await ask('DELETE', older)).status).toBe(204);
    expect((await ask('GET')).status).toBe(404);
  });
});

describe('a delete marker', { timeout: timeoutMs }, () => {
  it('made of a version, or a version made of it, is refused', async () => {
    await put('hidden');
    await catalog.run('UPDATE versions SET is_marker = 1 WHERE key = ?', key);
    await expectDamaged(await ask('GET'));
    await catalog.run('UPDATE versions SET is_marker = 0 WHERE key = ?', key);
    await expectText('hidden');
    await ask('DELETE');
    await catalog.run('UPDATE versions SET is_marker = 0 WHERE key = ?', key);
    await expectDamaged(await ask('GET'));
  });
});

describe('a locked version', { timeout: timeoutMs }, () => {
  it('does not end when its lock is edited away, wherever it is', async () => {
    const lock = { 'x-amz-object-lock-legal-hold': 'ON' };
    const older = await put('older', 'locked', lock);
    const newer = await put('newer', 'locked', lock);
    for (const id of [older, newer]) expect((await ask('DELETE', id, 'locked')).status).toBe(403);
    const removed = `attributes = replace(attributes, '"legalHold"', '"formerHold"')`;
    await catalog.run(`UPDATE versions SET ${removed} WHERE key = ?`, key);
    await catalog.run(`UPDATE noncurrent_versions SET ${removed} WHERE key = ?`, key);
    for (const id of [older, newer]) await expectDamaged(await ask('DELETE', id, 'locked'));
    const put_ = `attributes = replace(attributes, '"formerHold"', '"legalHold"')`;
    await catalog.run(`UPDATE versions SET ${put_} WHERE key = ?`, key);
    await catalog.run(`UPDATE noncurrent_versions SET ${put_} WHERE key = ?`, key);
    for (const id of [older, newer]) expect((await ask('DELETE', id, 'locked')).status).toBe(403);
  });

  it('does not end when its bucket is made to look as if it had no lock', async () => {
    const id = await put('held', 'locked', { 'x-amz-object-lock-legal-hold': 'ON' });
    // Once the gateway has noticed that the bucket was edited, it refuses all that is asked of it.
    const expectHeld = async (): Promise<void> => {
      expect([403, 500]).toContain((await ask('DELETE', id, 'locked')).status);
      const { status, body } = await ask('GET', id, 'locked');
      if (status !== 500) expect([status, body.toString()]).toEqual([200, 'held']);
    };
    const unlocked = "UPDATE buckets SET object_lock = NULL, versioning = 'Unversioned'";
    await catalog.run(`${unlocked} WHERE name = 'locked'`);
    await expectHeld();
    expect([204, 500]).toContain((await ask('DELETE', undefined, 'locked')).status);
    const body = Buffer.from('over it');
    const sending = { body, headers: md5Header(body) };
    expect([200, 500]).toContain((await client.send('PUT', `/locked/${key}`, sending)).status);
    await expectHeld();
    const locked = "UPDATE buckets SET object_lock = '{}', versioning = 'Enabled'";
    await catalog.run(`${locked} WHERE name = 'locked'`);
    await expect.poll(async () => (await ask('DELETE', id, 'locked')).status).toBe(403);
    expect((await ask('GET', id, 'locked')).body.toString()).toBe('held');
  });
});

describe('a version that ended', { timeout: timeoutMs }, () => {
  it('lets go of nothing that its edited row names', async () => {
    await put('prey');
    const prey = key;
    key = `key-${keys++}`;
    // The sweeper takes what ends within its interval; a row of another's name is put besides.
    await catalog.run(
      `INSERT INTO ended_versions
         SELECT bucket_id, '${key}', seq, version_id, is_marker, size, etag, sha256, class, owner,
         created_ms, manifest, attributes, epoch, manifest_mac, row_mac, billed,
         NULL, NULL FROM versions WHERE key = ?`,
      prey,
    );
    const left = 'SELECT count(*) AS n FROM ended_versions';
    while ((await catalog.get<{ n: number }>(left))?.n !== 0) await sleep(20);
    key = prey;
    await expectText('prey');
    const extent = await catalog.get(
      `SELECT state, refs FROM extents
         WHERE id = (SELECT substr(manifest, 1, 16) FROM versions WHERE key = ?)`,
      key,
    );
    expect(extent).toEqual({ state: 1, refs: 1 });
  });

  it('lets go of nothing when a living one is entered as ended', async () => {
    await put('alive');
    await catalog.run(
      `INSERT INTO ended_versions SELECT ${columns}, NULL, NULL FROM versions WHERE key = ?`,
      key,
    );
    const left = 'SELECT count(*) AS n FROM ended_versions';
    while ((await catalog.get<{ n: number }>(left))?.n !== 0) await sleep(20);
    await expectText('alive');
  });
});
