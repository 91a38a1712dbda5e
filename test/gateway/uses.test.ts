// How the versions of a bucket were used, as the native API tells it from the records: what counts
// as a read, of which version, and who is told.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { VersionHistories } from '#bursar/cli/tiering/version-histories.js';
import {
  as,
  callNative,
  elementOf,
  type Message,
  newPrincipal,
  patternOf,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

interface Use {
  index: number;
  time: string;
  what: 'written' | 'renamed' | 'hidden' | 'ended' | 'read';
  key: string;
  version: number | null;
  versionId: string | null;
  from: number | null;
  size: number | null;
  reads: number;
  bytes: number;
}

let operator: Target;
let admin: Target;
/** Owns the bucket `hers`. */
let alice: Target;
let bob: Target;
let auditor: Target;
/** Of another tenant, and may read `data`. */
let stranger: Target;

async function ask(who: Target, method: string, path: string, more: Partial<Message> = {}) {
  const answer = await send(who, { ...more, method, path });
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer;
}

async function uses(who: Target, bucket: string, query: [string, string][] = []): Promise<Use[]> {
  const found: Use[] = [];
  for (let after: string | null = null; ; ) {
    const path = `/_/v1/tenants/cms/buckets/${bucket}/uses`;
    const page: { uses: Use[]; altered: number[]; next: string | null } = await callNative(
      ...([who, 'GET', path, undefined] as const),
      after === null ? query : [...query, ['after', after]],
    );
    expect(page.altered).toEqual([]);
    found.push(...page.uses);
    if (page.next === null) return found;
    after = page.next;
  }
}

/** Once the records of reads are there. */
function usesWith(bucket: string, reads: number, query: [string, string][] = []) {
  return vi.waitFor(
    async () => {
      const found = await uses(admin, bucket, query);
      expect(found.filter(({ what }) => what === 'read').length).toBe(reads);
      return found;
    },
    { timeout: 20_000, interval: 100 },
  );
}

const shown = (found: readonly Use[]) => found.map(({ what, key }) => `${what} ${key}`);

beforeAll(async () => {
  operator = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) {
    await callNative(operator, 'POST', '/_/v1/tenants', { name });
  }
  const make = async (name: string, role?: string, tenant = 'cms') =>
    as(operator, await newPrincipal(operator, { tenant, name, ...(role && { role }) }));
  admin = await make('ada', 'admin');
  alice = await make('alice');
  bob = await make('bob');
  auditor = await make('ann', 'auditor');
  stranger = await make('zoe', undefined, 'atlas');
  for (const bucket of ['data', 'kept', 'other']) await ask(admin, 'PUT', `/${bucket}`);
  await ask(alice, 'PUT', '/hers');
});
afterAll(() => operator.stop());

describe('what is told', () => {
  it('is each write, read and end, and neither HEAD nor what sent no bytes', async () => {
    await ask(admin, 'PUT', '/data/a', { body: patternOf(300_000) });
    await ask(admin, 'HEAD', '/data/a');
    await ask(admin, 'GET', '/data/a');
    const { etag } = (await ask(admin, 'GET', '/data/a', { headers: { range: 'bytes=0-99' } }))
      .headers;
    const same = { headers: { 'if-none-match': String(etag) } };
    expect((await send(admin, { method: 'GET', path: '/data/a', ...same })).status).toBe(304);
    expect((await send(bob, { method: 'GET', path: '/data/a' })).status).toBe(403);
    expect((await send(admin, { method: 'GET', path: '/data/none' })).status).toBe(404);
    await ask(admin, 'PUT', '/data/a', { body: 'new' });
    await ask(admin, 'DELETE', '/data/a');
    const found = await usesWith('data', 2);
    expect(shown(found.filter(({ what }) => what !== 'read'))).toEqual([
      ...['written a', 'ended a', 'written a', 'ended a'],
    ]);
    const [first, end] = found.filter(({ what }) => what !== 'read');
    expect(end?.version).toBe(first?.version);
    const reads = found.filter(({ what }) => what === 'read');
    expect(reads.map(({ bytes }) => bytes).sort((a, b) => a - b)).toEqual([100, 300_000]);
    expect(reads[0]).toMatchObject({ reads: 1, size: 300_000 });
    expect(Object.keys(reads[0] as Use)).not.toContain('principal');
  });

  it('follows versions by their ids, markers and new names', async () => {
    const versioning =
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    await ask(admin, 'PUT', '/kept', { query: [['versioning', '']], body: versioning });
    const one = await ask(admin, 'PUT', '/kept/k', { body: patternOf(1000) });
    await ask(admin, 'PUT', '/kept/k', { body: patternOf(2000) });
    const versionId = String(one.headers['x-amz-version-id']);
    await ask(admin, 'GET', '/kept/k', { query: [['versionId', versionId]] });
    await ask(admin, 'GET', '/kept/k');
    await ask(admin, 'DELETE', '/kept/k');
    await ask(admin, 'DELETE', '/kept/k', { query: [['versionId', versionId]] });
    const found = await usesWith('kept', 2);
    const histories = new VersionHistories();
    for (const use of found) histories.add(use);
    expect(histories.strayReads).toBe(0);
    const known = histories.list(Date.now()).map(({ sizeBytes, isEnded, reads }) => {
      return { sizeBytes, isEnded, read: reads.map(({ bytes }) => bytes) };
    });
    expect(known).toEqual([
      { sizeBytes: 1000, isEnded: true, read: [1000] },
      { sizeBytes: 2000, isEnded: false, read: [2000] },
    ]);
  });

  it('counts copies as reads of their source, but not onto itself; a rename goes on', async () => {
    await ask(admin, 'PUT', '/other/a', { body: patternOf(5000) });
    const copying = (source: string, more = {}) => ({
      headers: { 'x-amz-copy-source': source, ...more },
    });
    await ask(admin, 'PUT', '/other/b', copying('/other/a'));
    await ask(admin, 'PUT', '/data/copied', copying('/other/a'));
    const begun = await ask(admin, 'POST', '/data/parts', { query: [['uploads', '']] });
    const uploadId = elementOf(begun.text, 'UploadId') ?? '';
    await ask(admin, 'PUT', '/data/parts', {
      ...copying('/other/a', { 'x-amz-copy-source-range': 'bytes=0-999' }),
      query: [
        ['partNumber', '1'],
        ['uploadId', uploadId],
      ],
    });
    const anew = { 'x-amz-metadata-directive': 'REPLACE' };
    await ask(admin, 'PUT', '/other/a', copying('/other/a', anew));
    await callNative(operator, 'PUT', '/_/v1/tenants/cms/grants/zoe', {
      ...{ effect: 'allow', actions: ['s3:GetObject'], subjects: ['principal:atlas/zoe'] },
      bucket: 'other',
    });
    await ask(stranger, 'PUT', '/mine');
    await ask(stranger, 'PUT', '/mine/c', copying('/cms:other/b'));
    const found = await usesWith('other', 4);
    const reads = found.filter(({ what }) => what === 'read');
    expect(reads.map(({ key, bytes }) => `${key} ${bytes}`)).toEqual([
      'a 5000',
      'a 5000',
      'a 1000',
      'b 5000',
    ]);
    await ask(admin, 'PUT', '/other/z', {
      ...{ query: [['renameObject', '']], headers: { 'x-amz-rename-source': '/other/b' } },
    });
    const histories = new VersionHistories();
    for (const use of await uses(admin, 'other')) histories.add(use);
    const renamed = histories.list(Date.now()).filter(({ reads }) => reads.length > 0);
    expect(renamed.map(({ isEnded }) => isEnded)).toEqual([true, false]);
  });

  it('is of one prefix where one is asked for, and goes on behind a page', async () => {
    for (const key of ['p/1', 'p/2', 'q/1'])
      await ask(admin, 'PUT', `/other/${key}`, { body: key });
    const some = await uses(admin, 'other', [['prefix', 'p/']]);
    expect(shown(some)).toEqual(['written p/1', 'written p/2']);
    const all = await uses(admin, 'other');
    const path = '/_/v1/tenants/cms/buckets/other/uses';
    const after: [string, string][] = [['after', String(all.at(-2)?.index)]];
    const rest: { uses: Use[] } = await callNative(admin, 'GET', path, undefined, after);
    expect(rest.uses).toEqual(all.slice(-1));
  });
});

describe('who is told', () => {
  const statusOf = async (who: Target, bucket: string, query: [string, string][] = []) => {
    const path = `/_/v1/tenants/cms/buckets/${bucket}/uses`;
    return (await send(who, { method: 'GET', path, query })).status;
  };

  it('is the owner of the bucket, admins, auditors and operators', async () => {
    await ask(alice, 'PUT', '/hers/a', { body: 'hers' });
    for (const who of [alice, admin, auditor, operator]) {
      expect(shown(await uses(who, 'hers'))).toEqual(['written a']);
    }
    for (const who of [bob, alice]) expect(await statusOf(who, 'data')).toBe(403);
    expect(await statusOf(bob, 'none')).toBe(403);
    expect(await statusOf(stranger, 'data')).toBe(404);
    expect(await statusOf(stranger, 'none')).toBe(404);
    expect(await statusOf(admin, 'none')).toBe(404);
  });

  it('is who was granted a part, of that part', async () => {
    await callNative(operator, 'PUT', '/_/v1/tenants/cms/grants/bob', {
      ...{ effect: 'allow', actions: ['bursar:ListUses'], subjects: ['principal:cms/bob'] },
      ...{ bucket: 'other', prefix: 'p/' },
    });
    expect(shown(await uses(bob, 'other', [['prefix', 'p/']]))).toHaveLength(2);
    expect(await statusOf(bob, 'other')).toBe(403);
    expect(await statusOf(bob, 'other', [['prefix', 'q/']])).toBe(403);
    expect(await statusOf(bob, 'other', [['prefix', 'p']])).toBe(403);
  });

  it('is told nothing of an earlier bucket of the name, nor of one of another tenant', async () => {
    await ask(bob, 'PUT', '/again');
    await ask(bob, 'PUT', '/again/secret-of-bob', { body: 'secret' });
    await ask(bob, 'DELETE', '/again/secret-of-bob');
    await ask(bob, 'DELETE', '/again');
    await ask(alice, 'PUT', '/again');
    await ask(stranger, 'PUT', '/again');
    await ask(stranger, 'PUT', '/again/of-zoe', { body: 'zoe' });
    await ask(alice, 'PUT', '/again/of-alice', { body: 'alice' });
    expect(shown(await uses(alice, 'again'))).toEqual(['written of-alice']);
  });

  it('refuses what is no place to go on from, nor a count, nor a key', async () => {
    for (const [name, value] of [
      ['after', '-1'],
      ['after', '9'.repeat(16)],
      ['limit', '1'],
      ['prefix', 'x'.repeat(2000)],
      ['by', 'bob'],
    ] as [string, string][]) {
      expect(await statusOf(admin, 'data', [[name, value]]), name).toBe(400);
    }
  });
});

describe('histories', () => {
  it('end where there are more than fit', () => {
    const write = (version: number): Use => ({
      ...{ index: version, time: '2026-11-28T00:00:00Z', what: 'written', key: `k${version}` },
      ...{ version, versionId: null, from: null, size: 1, reads: 0, bytes: 0 },
    });
    const full = new VersionHistories({ versions: 2, days: 2 });
    full.add(write(1));
    full.add(write(2));
    expect(() => full.add(write(3))).toThrow('ask for a prefix');
    const read = (day: number): Use => ({
      ...write(1),
      ...{ what: 'read', version: null, time: `2026-11-0${day}T00:00:00Z`, reads: 1, bytes: 1 },
    });
    const long = new VersionHistories({ versions: 2, days: 2 });
    for (const use of [{ ...write(1), time: '2026-11-01T00:00:00Z' }, read(2), read(2), read(3)]) {
      long.add(use);
    }
    expect(() => long.add(read(4))).toThrow('ask for a prefix');
    const stray = new VersionHistories();
    stray.add(read(1));
    expect(stray.strayReads).toBe(1);
    expect(stray.list(0)).toEqual([]);
  });
});
