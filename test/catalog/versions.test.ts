// What the ledger makes of versions in buckets that are versioned, were, or are locked: through a
// real ledger and a real database.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listObjects, listVersions } from '#bursar/catalog/listing.js';
import type { Amendment } from '#bursar/catalog/version-changes.js';
import { type Attributes, findCurrent, findNamed } from '#bursar/catalog/versions.js';
import type { SqlValue } from '#bursar/core/database.js';
import { IntegrityError } from '#bursar/core/errors.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import type { CommitResult } from '#bursar/ledger/commit.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';
import { listUsage } from '../quota/listed-usage.ts';

const bucket = { id: 1, tenant: 'one', name: 'data' };
const any = { ifMatch: null, ifNoneMatch: null };
const dayMs = 86_400_000;
let fixture: LedgerFixture;

beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

type Done = Extract<CommitResult, { ok: true }>;

async function commit(change: Change): Promise<Done> {
  const result = await fixture.ledger.commit(commitOf(change, 'k'));
  if (!result.ok) throw new Error(`refused: ${result.code}`);
  return result;
}

async function refusal(change: Change): Promise<string> {
  const result = await fixture.ledger.commit(commitOf(change, 'k'));
  return result.ok ? 'it went through' : result.code;
}

function setVersioning(versioning: 'Enabled' | 'Suspended'): Promise<Done> {
  return commit({ kind: 'setVersioning', bucketId: 1, versioning });
}

/** Gives the id of the version, or `null`. */
async function put(key = 'k', attributes?: Partial<Attributes>): Promise<string> {
  const { change } = putOf(key);
  if (change.kind !== 'putObject') throw new Error('no PUT');
  const { object } = change;
  if (attributes) object.attributes = JSON.stringify({ headers: {}, metadata: {}, ...attributes });
  const { version } = await commit(change);
  return version?.versionId ?? 'null';
}

function deletion(versionId?: string, more: object = {}): Change {
  return { kind: 'deleteObject', bucketId: 1, key: 'k', conditions: any, versionId, ...more };
}

function amendmentOf(amendment: Amendment, more: object = {}): Change {
  return { kind: 'amendVersion', bucketId: 1, key: 'k', amendment, ...more };
}

async function versions(): Promise<string[]> {
  const query = { bucketId: 1, prefix: '', delimiter: '', max: 1000, after: null };
  const { entries } = await listVersions(fixture.read, query, (row) => row);
  return entries.map(({ versionId, isMarker }) => `${isMarker ? 'marker ' : ''}${versionId}`);
}

async function objects(): Promise<string[]> {
  const query = { bucketId: 1, prefix: '', delimiter: '', max: 1000, after: null };
  return (await listObjects(fixture.read, query, (row) => row)).entries.map(({ key }) => key);
}

async function lastRecord(): Promise<Record<string, unknown>> {
  const sql = 'SELECT record FROM records ORDER BY idx DESC LIMIT 1';
  return JSON.parse((await fixture.read.get<{ record: string }>(sql))?.record ?? '');
}

async function stored(): Promise<[number, number]> {
  await fixture.ledger.writeAccounts();
  const usage = await listUsage(fixture.read, null);
  const row = usage.find(({ account }) => account === 'bucket:one/data');
  return [row?.storedBytes ?? 0, row?.storedObjects ?? 0];
}

const catalog = () => ({ read: fixture.read, keyring });

describe('a bucket that never had versioning', () => {
  it('says nothing of versions, and names its objects null', async () => {
    expect(await commit(putOf('k').change)).not.toHaveProperty('version');
    expect(await lastRecord()).not.toHaveProperty('versionId');
    expect(await commit(deletion('f'.repeat(32)))).not.toHaveProperty('version');
    expect(await objects()).toEqual(['k']);
    expect(await commit(deletion('null'))).not.toHaveProperty('version');
    expect(await versions()).toEqual([]);
  });
});

describe('a bucket with versioning', () => {
  it('keeps what it had as the null version, and gives each new one an id of its own', async () => {
    await put();
    await setVersioning('Enabled');
    const [first, second] = [await put(), await put()];
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(await versions()).toEqual([second, first, 'null']);
    expect(await stored()).toEqual([30, 3]);
    expect(await lastRecord()).toMatchObject({ versionId: second, storedBytes: 10 });
    expect(await lastRecord()).not.toHaveProperty('supersedes');
  });

  it('has an object back when the marker that hides it is deleted', async () => {
    await setVersioning('Enabled');
    const id = await put();
    const { version: marker, index } = await commit(deletion());
    expect(marker).toEqual({ versionId: expect.stringMatching(/^[0-9a-f]{32}$/), isMarker: true });
    expect(await lastRecord()).toMatchObject({ marker: true, version: index, storedObjects: 0 });
    expect(await findCurrent(catalog(), bucket, 'k')).toBeUndefined();
    expect((await findNamed(catalog(), bucket, { key: 'k' }))?.isMarker).toBe(1);
    expect([await objects(), await stored()]).toEqual([[], [10, 1]]);
    const undone = await commit(deletion(marker?.versionId as string));
    expect(undone.version).toEqual(marker);
    expect(await lastRecord()).toMatchObject({ marker: true, supersedes: index });
    expect((await findCurrent(catalog(), bucket, 'k'))?.versionId).toBe(id);
    expect([await objects(), await versions()]).toEqual([['k'], [id]]);
  });

  it('hides what is not there under a marker too, and each deletion adds one', async () => {
    await setVersioning('Enabled');
    await commit(deletion());
    await commit(deletion());
    expect((await versions()).map((one) => one.slice(0, 6))).toEqual(['marker', 'marker']);
    expect(await refusal({ kind: 'deleteBucket', bucketId: 1 })).toBe('BucketNotEmpty');
  });

  it('makes the newest of those that are left current when that is deleted', async () => {
    await setVersioning('Enabled');
    const [first, second, third] = [await put(), await put(), await put()];
    await commit(deletion(second));
    await commit(deletion(third));
    const current = await findCurrent(catalog(), bucket, 'k');
    expect(current).toMatchObject({ versionId: first, supersededSeq: null, supersededMs: null });
    expect(await stored()).toEqual([10, 1]);
    await commit(deletion(first));
    expect([await versions(), await stored()]).toEqual([[], [0, 0]]);
    expect(await commit(deletion(first))).toMatchObject({ version: { versionId: first } });
    await commit({ kind: 'deleteBucket', bucketId: 1 });
  });

  it('finds a version among any number of them by one step of an index', async () => {
    await setVersioning('Enabled');
    const first = await put();
    await put();
    const steps: string[] = [];
    const read = {
      ...fixture.read,
      get: async <R>(sql: string, ...values: SqlValue[]) => {
        const explain = `EXPLAIN QUERY PLAN ${sql}`;
        const plan = await fixture.read.all<{ detail: string }>(explain, ...values);
        steps.push(...plan.map(({ detail }) => detail));
        return fixture.read.get<R>(sql, ...values);
      },
    };
    const found = await findNamed({ read, keyring }, bucket, { key: 'k', versionId: first });
    expect(found?.versionId).toBe(first);
    expect(steps.filter((step) => step.startsWith('SEARCH v'))).toEqual([
      'SEARCH v USING PRIMARY KEY (bucket_id=? AND key=?)',
      'SEARCH v USING INDEX noncurrent_by_id (bucket_id=? AND key=? AND version_id=?)',
    ]);
  });

  it('says since when a version is noncurrent', async () => {
    await setVersioning('Enabled');
    const first = await put();
    const { index, timeMs } = await commit(putOf('k').change);
    const version = await findNamed(catalog(), bucket, { key: 'k', versionId: first });
    expect(version).toMatchObject({ supersededSeq: index, supersededMs: timeMs });
  });

  it('holds conditions to the current version, which a marker is not', async () => {
    await setVersioning('Enabled');
    const named = await put();
    await commit(deletion());
    const ifMatch = { conditions: { ...any, ifMatch: ['etag'] } };
    expect(await refusal({ ...putOf('k').change, ...ifMatch } as Change)).toBe('NoSuchKey');
    const ifNoneMatch = { conditions: { ...any, ifNoneMatch: ['*'] } };
    await commit({ ...putOf('k').change, ...ifNoneMatch } as Change);
    const other = { conditions: { ...any, ifMatch: ['other'] } };
    expect(await refusal(deletion(named, other))).toBe('PreconditionFailed');
    await commit(deletion(named, ifMatch));
  });

  it('copies from a version that is not current, and from one that has just ended', async () => {
    await setVersioning('Enabled');
    const first = await put();
    await put();
    const source = await findNamed(catalog(), bucket, { key: 'k', versionId: first });
    if (!source) throw new Error('no source');
    const { bucketId, key, seq } = source;
    const from = { bucketId, key, seq };
    const object = { ...source, tenant: 'one' };
    const to = { kind: 'copyObject', bucketId: 1, conditions: any, source: from, object } as const;
    await commit({ ...to, key: 'a' });
    await commit(deletion(first));
    await commit({ ...to, key: 'b' });
    await fixture.ledger.maintain({ kind: 'purgeEnded', max: 10 });
    expect(await refusal({ ...to, key: 'c' })).toBe('SlowDown');
    const refs = await fixture.read.all('SELECT refs FROM extents ORDER BY refs');
    expect(refs).toEqual([{ refs: 1 }, { refs: 2 }]);
  });
});

describe('what is copied from a version that is moved meanwhile', () => {
  it('never names the extents that it has left', async () => {
    await put();
    const source = await findCurrent(catalog(), bucket, 'k');
    if (!source) throw new Error('no source');
    const { bucketId, key, seq } = source;
    const from = { bucketId, key, seq };
    const { change: elsewhere } = putOf('elsewhere');
    if (elsewhere.kind !== 'putObject') throw new Error('no PUT');
    const { object: written, inline } = elsewhere;
    const bytes = { manifest: written.manifest, extentIds: [], inline };
    await commit({ kind: 'moveVersion', ...from, class: 'STANDARD_IA', bytes });
    const object = { ...source, tenant: 'one' };
    const to = {
      kind: 'copyObject',
      bucketId: 1,
      conditions: any,
      source: from,
      key: 'a',
    } as const;
    expect(await refusal({ ...to, object })).toBe('SlowDown');
    const moved = await findCurrent(catalog(), bucket, 'k');
    if (!moved) throw new Error('not there');
    await commit({ ...to, object: { ...moved, tenant: 'one' } });
    const refs = 'SELECT refs, state FROM extents ORDER BY refs';
    expect(await fixture.read.all(refs)).toEqual([
      { refs: 0, state: 2 },
      { refs: 2, state: 1 },
    ]);
  });
});

describe('what a restore moves under a snapshot', () => {
  it('has its attributes at once, and can be moved again', async () => {
    await put();
    const named = { kind: 'createSnapshot', bucketId: 1, name: 's', prefix: '' } as const;
    await commit({ ...named, expiresMs: null, lock: null });
    const found = await findCurrent(catalog(), bucket, 'k');
    if (!found) throw new Error('not there');
    const { bucketId, key, seq, manifest } = found;
    const attributes = JSON.stringify({ ...JSON.parse(found.attributes), classedMs: 5 });
    const placed = { class: 'STANDARD_IA', manifest, attributes };
    await commit({ kind: 'restoreMove', bucketId, key, versionId: null, ...placed });
    const moved = await findCurrent(catalog(), bucket, 'k');
    expect(moved).toMatchObject({ class: 'STANDARD_IA', attributes });
    expect(await fixture.read.all('SELECT key FROM held_versions')).toEqual([]);
    await commit({ kind: 'moveVersion', bucketId, key, seq, class: 'GLACIER_IR', bytes: null });
  });
});

describe('a bucket whose versioning is suspended', () => {
  it('overwrites the null version, current or not, and keeps all others', async () => {
    await put();
    await setVersioning('Enabled');
    const kept = await put();
    await setVersioning('Suspended');
    expect(await commit(putOf('k').change)).toMatchObject({
      version: { versionId: null, isMarker: false },
    });
    expect(await lastRecord()).toMatchObject({ versionId: 'null', supersedes: 3, storedBytes: 0 });
    expect(await versions()).toEqual(['null', kept]);
    await put();
    expect([await versions(), await stored()]).toEqual([
      ['null', kept],
      [20, 2],
    ]);
  });

  it('lets who may only create end nothing that a marker hides', async () => {
    await put();
    await setVersioning('Enabled');
    await commit(deletion());
    await setVersioning('Suspended');
    const conditions = { ...any, ifNoneMatch: ['*'], mustCreate: true } as const;
    expect(await refusal({ ...putOf('k').change, conditions } as Change)).toBe('AccessDenied');
    expect((await versions()).at(-1)).toBe('null');
    await commit(deletion('null'));
    await commit({ ...putOf('k').change, conditions } as Change);
  });

  it('deletes the null version under a null marker', async () => {
    await setVersioning('Enabled');
    const kept = await put();
    await setVersioning('Suspended');
    await put();
    const { version } = await commit(deletion());
    expect(version).toEqual({ versionId: null, isMarker: true });
    expect([await versions(), await stored()]).toEqual([
      ['marker null', kept],
      [10, 1],
    ]);
    await commit(deletion());
    expect(await versions()).toEqual(['marker null', kept]);
    await commit(deletion('null'));
    expect(await objects()).toEqual(['k']);
  });
});

describe('a locked version', () => {
  const soon = () => Date.now() + dayMs;
  const bypass = { bypassGovernance: true };

  beforeEach(async () => {
    fixture.edit("UPDATE buckets SET versioning = 'Enabled', object_lock = '{}' WHERE id = 1");
  });

  it.each([
    ['a legal hold', { legalHold: true }, 'AccessDenied', 'AccessDenied'],
    [
      'compliance',
      { retention: { mode: 'COMPLIANCE', untilMs: soon() } },
      'AccessDenied',
      'AccessDenied',
    ],
    [
      'governance',
      { retention: { mode: 'GOVERNANCE', untilMs: soon() } },
      'AccessDenied',
      'it went through',
    ],
    [
      'a past retention',
      { retention: { mode: 'COMPLIANCE', untilMs: 1 } },
      'it went through',
      'it went through',
    ],
  ] as const)('under %s ends only as that allows', async (_, lock, plainly, bypassing) => {
    const [one, two] = [await put('k', lock), await put('k', lock)];
    expect(await refusal(deletion(one))).toBe(plainly);
    expect(await refusal(deletion(two, bypass))).toBe(bypassing);
    expect(await refusal(deletion())).toBe('it went through');
  });

  it('has its retention lengthened, and shortened only where governance is bypassed', async () => {
    const [governed, complied] = [await put(), await put()];
    const until = (untilMs: number, mode: 'GOVERNANCE' | 'COMPLIANCE') => ({
      retention: { mode, untilMs },
    });
    const of = (versionId: string, more = {}) => ({ versionId, ...more });
    const later = soon() + dayMs;
    await commit(amendmentOf(until(soon(), 'GOVERNANCE'), of(governed)));
    await commit(amendmentOf(until(later, 'GOVERNANCE'), of(governed)));
    const sooner = until(soon(), 'GOVERNANCE');
    expect(await refusal(amendmentOf(sooner, of(governed)))).toBe('AccessDenied');
    await commit(amendmentOf(sooner, of(governed, bypass)));
    await commit(amendmentOf(until(later, 'COMPLIANCE'), of(complied)));
    for (const shorter of [
      until(soon(), 'COMPLIANCE'),
      until(later, 'GOVERNANCE'),
      { retention: null },
    ]) {
      expect(await refusal(amendmentOf(shorter, of(complied, bypass)))).toBe('AccessDenied');
    }
  });

  it('cannot be overwritten in its place either', async () => {
    fixture.edit("UPDATE buckets SET versioning = 'Suspended' WHERE id = 1");
    await put('k', { legalHold: true });
    expect(await refusal(putOf('k').change)).toBe('AccessDenied');
    expect(await refusal(deletion())).toBe('AccessDenied');
    fixture.edit("UPDATE buckets SET versioning = 'Unversioned', object_lock = NULL WHERE id = 1");
    expect(await refusal(putOf('k').change)).toBe('AccessDenied');
    expect(await refusal(deletion())).toBe('AccessDenied');
  });

  it('gets the default retention of its bucket, from when it is made', async () => {
    const lock = JSON.stringify({ default: { mode: 'GOVERNANCE', days: 2 } });
    fixture.edit(`UPDATE buckets SET object_lock = '${lock}' WHERE id = 1`);
    await put();
    const version = await findCurrent(catalog(), bucket, 'k');
    const { retention } = JSON.parse(version?.attributes ?? '') as Attributes;
    expect(retention).toEqual({
      mode: 'GOVERNANCE',
      untilMs: (version?.createdMs ?? 0) + 2 * dayMs,
    });
    expect(await refusal(deletion(version?.versionId as string))).toBe('AccessDenied');
  });

  it('stays when its row is damaged, since its lock may be what was removed', async () => {
    const id = await put('k', { legalHold: true });
    await put();
    fixture.edit("UPDATE noncurrent_versions SET attributes = '{}'");
    expect(await refusal(deletion(id, bypass))).toBe('BursarIntegrityError');
    expect(await refusal(amendmentOf({ legalHold: false }, { versionId: id }))).toBe(
      'BursarIntegrityError',
    );
  });
});

describe('an amendment', () => {
  it('changes tags, of any version, and nothing else', async () => {
    await setVersioning('Enabled');
    const first = await put('k', { metadata: { colour: 'blue' }, tags: [['a', 'b']] });
    await put();
    const before = await findNamed(catalog(), bucket, { key: 'k', versionId: first });
    const tags = [['c', 'd']] as const;
    expect((await commit(amendmentOf({ tags }, { versionId: first }))).version).toEqual({
      versionId: first,
      isMarker: false,
    });
    const after = await findNamed(catalog(), bucket, { key: 'k', versionId: first });
    const attributes = { headers: {}, metadata: { colour: 'blue' }, tags };
    expect(JSON.parse(after?.attributes ?? '')).toEqual(attributes);
    expect({ ...after, attributes: '', rowMac: null }).toEqual({
      ...before,
      attributes: '',
      rowMac: null,
    });
    await commit(amendmentOf({ tags: null }));
    expect(await lastRecord()).not.toHaveProperty('version');
  });

  it('of what cannot have it is refused', async () => {
    const tags = { tags: [['a', 'b']] } as Amendment;
    expect(await refusal(amendmentOf(tags))).toBe('NoSuchKey');
    expect(await refusal(amendmentOf(tags, { versionId: 'f'.repeat(32) }))).toBe('NoSuchVersion');
    expect(await refusal(amendmentOf(tags, { bucketId: 7 }))).toBe('NoSuchBucket');
    await put();
    expect(await refusal(amendmentOf({ legalHold: true }))).toBe('InvalidRequest');
    await setVersioning('Enabled');
    await commit(deletion());
    expect(await refusal(amendmentOf(tags))).toBe('MethodNotAllowed');
  });
});

describe('a row that was moved behind the ledger’s back', () => {
  let older: string;
  let newer: string;

  beforeEach(async () => {
    await setVersioning('Enabled');
    older = await put();
    newer = await put();
  });

  const shared = `bucket_id, key, seq, version_id, is_marker, size, etag, sha256, class, owner,
    created_ms, manifest, attributes, epoch, manifest_mac, row_mac, billed`;
  const find = (versionId?: string) => findNamed(catalog(), bucket, { key: 'k', versionId });

  it('is refused as the current one when it was noncurrent', async () => {
    fixture.edit(`DELETE FROM versions;
      INSERT INTO versions SELECT ${shared} FROM noncurrent_versions;
      DELETE FROM noncurrent_versions`);
    await expect(find()).rejects.toThrow(IntegrityError);
  });

  it('is refused as noncurrent when it was the current one', async () => {
    fixture.edit(`INSERT INTO noncurrent_versions SELECT ${shared}, 99, 99 FROM versions`);
    await expect(find(newer)).rejects.toThrow(IntegrityError);
    await expect(find(older)).resolves.toMatchObject({ versionId: older });
    fixture.edit('DELETE FROM versions');
    for (const id of [newer, older]) await expect(find(id)).rejects.toThrow(IntegrityError);
  });

  it('is refused as it was before, when it was current, or had not ended', async () => {
    fixture.edit('CREATE TABLE old AS SELECT * FROM versions');
    await put();
    fixture.edit('DELETE FROM versions; INSERT INTO versions SELECT * FROM old');
    await expect(find()).rejects.toThrow(IntegrityError);
    fixture.edit('DELETE FROM noncurrent_versions WHERE seq >= (SELECT seq FROM old)');
    await commit(deletion(newer));
    fixture.edit('DELETE FROM versions; INSERT INTO versions SELECT * FROM old');
    await expect(find()).rejects.toThrow(IntegrityError);
  });

  it('is moved as it is when it is damaged, and can be deleted', async () => {
    fixture.edit("UPDATE versions SET etag = 'forged'");
    await put();
    await expect(find(newer)).rejects.toThrow(IntegrityError);
    await commit(deletion(newer));
    expect(await find(newer)).toBeUndefined();
    expect((await versions()).at(-1)).toBe(older);
  });
});
