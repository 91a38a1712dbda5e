// Snapshots and undelete windows beside a plain model: random writes, deletions, changes of tags,
// snapshots and windows in one bucket, with versioning and without; as of every living snapshot,
// and of moments in the window, each key is what it was then. What is let go of is what nobody has.
// BURSAR_FULL=1 does many more.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { listUncounted, readHeldTotal } from '#bursar/catalog/held-totals.js';
import {
  type Listing,
  type ListQuery,
  listObjects,
  listVersions,
  type Position,
  type VersionListing,
  type VersionPosition,
} from '#bursar/catalog/listing.js';
import { findAt } from '#bursar/catalog/snapshot-reads.js';
import { findSnapshot, listSnapshots } from '#bursar/catalog/snapshots.js';
import { readWindow } from '#bursar/catalog/undelete-window.js';
import { findNamed, type Version } from '#bursar/catalog/versions.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import { releaseHeldRun } from '#bursar/ledger/held-upkeep.js';
import { randomBelow, randomOf, seededRandom } from '../fuzz/seeded-random.ts';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';
import { listUsage } from '../quota/listed-usage.ts';

const bucket = { id: 1, tenant: 'one', name: 'data' };
const any = { ifMatch: null, ifNoneMatch: null };
const book = 'aws-us-east-1-2026';
const soonMs = 20_000;
const isFull = process.env.BURSAR_FULL === '1';
let fixture: LedgerFixture;

beforeEach(async () => {
  fixture = await openLedger();
});
afterEach(() => fixture.close());

const catalog = () => ({ read: fixture.read, keyring });

async function commit(change: Change): Promise<number> {
  const key = 'key' in change && typeof change.key === 'string' ? change.key : null;
  const result = await fixture.ledger.commit(commitOf(change, key));
  if (!result.ok) throw new Error(`refused: ${result.code}`);
  return result.index ?? -1;
}

async function refusal(change: Change): Promise<string> {
  const result = await fixture.ledger.commit(commitOf(change));
  return result.ok ? 'it went through' : result.code;
}

const snapshot = (name: string, more: object = {}): Change => ({
  ...{ kind: 'createSnapshot', bucketId: 1, name, prefix: '', expiresMs: null, lock: null },
  ...more,
});
const deletion = (name: string, more: object = {}): Change => ({
  ...{ kind: 'deleteSnapshot', bucketId: 1, name },
  ...more,
});

async function put(key: string): Promise<number> {
  return commit(putOf(key).change);
}

function remove(key: string, versionId?: string): Promise<number> {
  return commit({ kind: 'deleteObject', bucketId: 1, key, conditions: any, versionId });
}

const hourMs = 3_600_000;
const window = (windowMs: number | null): Change => ({
  ...{ kind: 'setUndelete', bucketId: 1, windowMs },
});

/** Lets go of all that snapshots held which are dying, and of what the window has passed. */
async function release(): Promise<void> {
  const passed = { kind: 'releaseHeld', bucketId: 1, seq: 0, max: 3, book } as const;
  while ((await fixture.ledger.maintain(passed)) > 0);
  const sql = "SELECT seq FROM snapshots WHERE state = 'dying'";
  for (const { seq } of await fixture.read.all<{ seq: number }>(sql)) {
    const work = { kind: 'releaseHeld', bucketId: 1, seq, max: 3, book } as const;
    while ((await fixture.ledger.maintain(work)) > 0);
  }
}

/** Sums up what was held since it was summed up last. */
async function count(): Promise<void> {
  for (const holding of await listUncounted(fixture.read)) {
    await fixture.ledger.maintain({ kind: 'countHeld', ...holding });
  }
}

/** One run of what does so in a gateway, and deletes what has expired. */
async function releaseDue(): Promise<void> {
  const { read, ledger } = fixture;
  const errors: unknown[] = [];
  const run = releaseHeldRun({ read, ledger, bookOf: () => book, onError: (e) => errors.push(e) });
  await run(new AbortController().signal);
  expect(errors).toEqual([]);
}

interface Shown {
  key: string;
  seq: number;
  attributes: string;
}

const shown = ({ key, seq, attributes }: Shown): Shown => ({ key, seq, attributes });

async function listedAt(at?: number, max = 3): Promise<Shown[]> {
  const all: Shown[] = [];
  let after: Position | null = null;
  do {
    const query: ListQuery = { bucketId: 1, prefix: '', delimiter: '', max, after, at };
    const listing: Listing<Shown> = await listObjects(fixture.read, query, shown);
    all.push(...listing.entries);
    after = listing.next;
  } while (after);
  return all;
}

async function versionsAt(at?: number, max = 3): Promise<string[]> {
  const all: string[] = [];
  let after: VersionPosition | null = null;
  do {
    const query = { bucketId: 1, prefix: '', delimiter: '', max, after, at };
    const listing: VersionListing<string> = await listVersions(fixture.read, query, (row) =>
      JSON.stringify([row.key, row.seq, row.isMarker, row.isLatest, row.attributes]),
    );
    all.push(...listing.entries);
    after = listing.next;
  } while (after);
  return all;
}

async function held(): Promise<{ versions: number; bytes: number }> {
  return readHeldTotal(fixture.read, 1);
}

async function stored(): Promise<[number, number]> {
  await fixture.ledger.writeAccounts();
  const usage = await listUsage(fixture.read, null);
  const row = usage.find(({ account }) => account === 'bucket:one/data');
  return [row?.storedBytes ?? 0, row?.storedObjects ?? 0];
}

async function refs(): Promise<number> {
  const sql = 'SELECT sum(refs) AS n FROM extents WHERE state = 1';
  return (await fixture.read.get<{ n: number | null }>(sql))?.n ?? 0;
}

describe('a snapshot', () => {
  it('has what was overwritten and deleted, and lets go of it when it is deleted', async () => {
    const first = await put('a');
    await put('b');
    const at = await commit(snapshot('s'));
    await put('a');
    await remove('b');
    await put('c');
    expect((await listedAt()).map(({ key }) => key)).toEqual(['a', 'c']);
    expect((await listedAt(at)).map(({ key }) => key)).toEqual(['a', 'b']);
    expect((await findAt(catalog(), bucket, { key: 'a', at }))?.seq).toBe(first);
    expect(await findAt(catalog(), bucket, { key: 'c', at })).toBeUndefined();
    // Two that are there, and two that are held.
    expect([await stored(), await held()]).toEqual([[40, 2], { versions: 2, bytes: 20 }]);
    const [listed] = await listSnapshots(fixture.read, { bucketId: 1, after: '', max: 9 });
    expect(listed).toMatchObject({ name: 's', seq: at, heldVersions: 2, heldBytes: 20 });
    await commit(deletion('s'));
    expect(await findSnapshot(fixture.read, 1, 's')).toBeUndefined();
    await release();
    expect([await stored(), await held()]).toEqual([[20, 2], { versions: 0, bytes: 0 }]);
    expect(await refs()).toBe(2);
  });

  it('has tags as they were', async () => {
    await put('a');
    const tag = (value: string): Change => ({
      ...{ kind: 'amendVersion', bucketId: 1, key: 'a' },
      amendment: { tags: [['t', value]] },
    });
    await commit(tag('1'));
    const at = await commit(snapshot('s'));
    await commit(tag('2'));
    await commit(tag('3'));
    const then = await findAt(catalog(), bucket, { key: 'a', at });
    expect(JSON.parse(then?.attributes ?? '').tags).toEqual([['t', '1']]);
    // An image shares the bytes of the version that goes on, and is stored once.
    expect([await stored(), await held()]).toEqual([[10, 1], { versions: 1, bytes: 0 }]);
    await remove('a');
    expect([await stored(), await held()]).toEqual([[10, 0], { versions: 2, bytes: 10 }]);
    await commit(deletion('s'));
    await release();
    expect([await stored(), await held(), await refs()]).toEqual([
      [0, 0],
      { versions: 0, bytes: 0 },
      0,
    ]);
  });

  it('is told what it holds, whether that was summed up or not', async () => {
    for (const key of ['a', 'b', 'c']) await put(key);
    await commit(snapshot('old'));
    await commit(snapshot('new'));
    await put('a');
    expect(await held()).toEqual({ versions: 1, bytes: 10 });
    await vi.waitFor(async () => {
      await count();
      expect(await listUncounted(fixture.read)).toEqual([]);
    }, soonMs);
    const sum = 'SELECT sum(versions) AS versions, sum(bytes) AS bytes FROM held_totals';
    expect(await fixture.read.get(sum)).toEqual({ versions: 1, bytes: 10 });
    await remove('b');
    await put('c');
    expect(await held()).toEqual({ versions: 3, bytes: 30 });
    // Some of what goes to the older one is in a sum, and some is not.
    await commit(deletion('new'));
    await release();
    const [listed] = await listSnapshots(fixture.read, { bucketId: 1, after: '', max: 9 });
    expect(listed).toMatchObject({ name: 'old', heldVersions: 3, heldBytes: 30 });
    expect(await held()).toEqual({ versions: 3, bytes: 30 });
  });

  it('has what is renamed under its old key', async () => {
    const seq = await put('a');
    const at = await commit(snapshot('s'));
    const source = { key: 'a', seq };
    const to = { bucketId: 1, key: 'b', conditions: any, source, token: null };
    await commit({ kind: 'renameObject', ...to });
    expect((await listedAt()).map(({ key }) => key)).toEqual(['b']);
    expect(await listedAt(at)).toEqual([{ key: 'a', seq, attributes: '{}' }]);
    expect([await stored(), await held()]).toEqual([[20, 1], { versions: 1, bytes: 10 }]);
    await commit(deletion('s'));
    await release();
    expect([await stored(), await refs()]).toEqual([[10, 1], 1]);
  });

  it('is of keys with its prefix alone', async () => {
    await put('in/a');
    await put('out');
    const at = await commit(snapshot('s', { prefix: 'in/' }));
    await remove('in/a');
    await remove('out');
    expect(await held()).toEqual({ versions: 1, bytes: 10 });
    expect((await listedAt(at)).map(({ key }) => key)).toEqual(['in/a']);
  });

  it('is locked until it expires, and then deleted by itself', async () => {
    const expiresMs = Date.now() + 3_600_000;
    await commit(snapshot('c', { lock: 'compliance', expiresMs }));
    await commit(snapshot('g', { lock: 'governance', expiresMs }));
    await commit(snapshot('gone', { expiresMs: 1 }));
    expect(await refusal(snapshot('c'))).toBe('AlreadyExists');
    expect(await refusal(deletion('c', { bypassGovernance: true }))).toBe('SnapshotLocked');
    expect(await refusal(deletion('g'))).toBe('SnapshotLocked');
    expect(await refusal(deletion('g', { bypassGovernance: true, seq: 0 }))).toBe('NoSuchSnapshot');
    await commit(deletion('g', { bypassGovernance: true }));
    const [gone] = await fixture.read.all<{ seq: number }>(
      "SELECT seq FROM snapshots WHERE name = 'gone'",
    );
    const expiry = (name: string, seq = gone?.seq) => deletion(name, { expiredSeq: seq });
    expect(await refusal(expiry('c'))).toBe('NoSuchSnapshot');
    expect(await refusal(expiry('gone', 0))).toBe('NoSuchSnapshot');
    const names = async () => {
      const left = await listSnapshots(fixture.read, { bucketId: 1, after: '', max: 9 });
      return left.map(({ name }) => name);
    };
    expect(await names()).toEqual(['c', 'gone']);
    await releaseDue();
    expect(await names()).toEqual(['c']);
  });

  it('that holds much and would have expired lets go of it when it is deleted', async () => {
    await put('a');
    await commit(snapshot('s', { expiresMs: Date.now() + 3_600_000 }));
    await put('a');
    await commit(deletion('s'));
    await releaseDue();
    expect(await held()).toEqual({ versions: 0, bytes: 0 });
  });

  it('keeps its bucket from being deleted', async () => {
    await commit(snapshot('s'));
    expect(await refusal({ kind: 'deleteBucket', bucketId: 1 })).toBe('BucketNotEmpty');
    await commit(deletion('s'));
    await release();
    await commit({ kind: 'deleteBucket', bucketId: 1 });
  });

  it('lets go of nothing where one of the snapshots was taken out of the database', async () => {
    await put('a');
    await commit(snapshot('one'));
    await commit(snapshot('two'));
    await put('a');
    fixture.edit("DELETE FROM snapshots WHERE name = 'one'");
    await commit(deletion('two'));
    await expect(release()).rejects.toThrow();
    expect(await held()).toEqual({ versions: 1, bytes: 10 });
  });

  it('shows nothing of a held row that was altered', async () => {
    await put('a');
    const at = await commit(snapshot('s'));
    await put('a');
    fixture.edit('UPDATE held_versions SET ended_ms = ended_ms + 1');
    await expect(findAt(catalog(), bucket, { key: 'a', at })).rejects.toThrow('not authentic');
  });
});

describe('an undelete window', () => {
  it('holds what is overwritten and deleted, and lets go of it when it has passed', async () => {
    await put('before');
    await remove('before');
    while ((await fixture.ledger.maintain({ kind: 'purgeEnded', max: 100 })) > 0);
    await commit(window(hourMs));
    const at = [await put('a'), await put('b')];
    await put('a');
    await remove('b');
    expect((await listedAt(at[1])).map(({ seq }) => seq)).toEqual(at);
    expect([await stored(), await held()]).toEqual([[30, 1], { versions: 2, bytes: 20 }]);
    await release();
    expect(await held()).toEqual({ versions: 2, bytes: 20 });
    // It moves on: what is narrower has passed them.
    await commit(window(1));
    await vi.waitFor(async () => {
      await release();
      expect([await stored(), await held()]).toEqual([[10, 1], { versions: 0, bytes: 0 }]);
    }, soonMs);
    expect(await refs()).toBe(1);
  });

  it('never reaches back to what was let go of, however it is set', async () => {
    await commit(window(hourMs));
    const first = await readWindow(fixture.read, 1);
    await commit(window(2 * hourMs));
    expect(await readWindow(fixture.read, 1)).toEqual({ ...first, windowMs: 2 * hourMs });
    await commit(window(1));
    const later = (first?.sinceMs ?? 0) + 10;
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(later), soonMs);
    await commit(window(hourMs));
    const last = await readWindow(fixture.read, 1);
    expect(last?.sinceMs).toBeGreaterThan(first?.sinceMs ?? 0);
    await commit(window(null));
    expect(await readWindow(fixture.read, 1)).toBeUndefined();
  });

  it('gives an older snapshot what that has, when it has passed it', async () => {
    await put('a');
    const at = await commit(snapshot('s'));
    await commit(window(hourMs));
    await put('a');
    await put('a');
    expect(await held()).toEqual({ versions: 2, bytes: 20 });
    await commit(window(null));
    await release();
    expect([await held(), await refs()]).toEqual([{ versions: 1, bytes: 10 }, 2]);
    expect(await listedAt(at)).toHaveLength(1);
    await commit(deletion('s'));
    await release();
    expect([await held(), await refs()]).toEqual([{ versions: 0, bytes: 0 }, 1]);
  });

  it('keeps its bucket from being deleted for as long as it holds something', async () => {
    await commit(window(hourMs));
    await put('a');
    await remove('a');
    expect(await refusal({ kind: 'deleteBucket', bucketId: 1 })).toBe('BucketNotEmpty');
    await commit(window(null));
    await release();
    await commit({ kind: 'deleteBucket', bucketId: 1 });
    expect(await fixture.read.all('SELECT * FROM held_totals')).toEqual([]);
  });

  it('lets go of nothing where its setting was taken out of the database', async () => {
    await commit(window(hourMs));
    await put('a');
    await put('a');
    fixture.edit("DELETE FROM bucket_settings WHERE name = 'undelete'");
    await expect(release()).rejects.toThrow();
    expect(await held()).toEqual({ versions: 1, bytes: 10 });
  });
});

describe.each([false, true])('beside a model, versioned: %s', (isVersioned) => {
  const seeds = isFull ? [...Array(40).keys()] : [1, 2];
  const timeout = isFull ? 600_000 : 60_000;
  it.each(seeds)('shows what was, seed %i', { timeout }, async (seed) => {
    const random = seededRandom(seed);
    const keys = ['a', 'a/b', 'b', 'c', 'é'];
    if (isVersioned) await commit({ kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' });
    const living = new Map<string, { at: number; objects: Shown[]; versions: string[] }>();
    let moments: { at: number; objects: Shown[]; versions: string[] }[] = [];
    let isOpen = false;
    const step = async (i: number): Promise<void> => {
      const key = randomOf(random, keys);
      const current = await findNamed(catalog(), bucket, { key });
      switch (randomBelow(random, 13)) {
        case 0: {
          const [objects, versions] = [await listedAt(), await versionsAt()];
          const at = await commit(snapshot(`s${i}`));
          living.set(`s${i}`, { at, objects, versions });
          return;
        }
        case 1: {
          const name = [...living.keys()][randomBelow(random, Math.max(1, living.size))];
          if (name === undefined) return;
          await commit(deletion(name));
          living.delete(name);
          return;
        }
        case 2:
          return randomBelow(random, 2) ? release() : count();
        case 3:
        case 4: {
          if (!current || current.isMarker) return;
          const amendment = { tags: [['t', `${i}`] as const] };
          await commit({ kind: 'amendVersion', bucketId: 1, key, amendment });
          return;
        }
        case 5:
          await remove(key);
          return;
        case 6:
          if (current) await remove(key, current.versionId ?? 'null');
          return;
        case 7: {
          const sql = `SELECT key, version_id AS versionId FROM noncurrent_versions
            ORDER BY seq LIMIT 1 OFFSET ?`;
          const row = await fixture.read.get<Version>(sql, randomBelow(random, 4));
          if (row) await remove(row.key, row.versionId ?? 'null');
          return;
        }
        case 8: {
          const to = randomOf(random, keys);
          if (!current || current.isMarker || to === key) return;
          const source = { key, seq: current.seq };
          const named = { bucketId: 1, key: to, conditions: any, source, token: null };
          await commit({ kind: 'renameObject', ...named });
          return;
        }
        case 9:
          if (!isOpen || randomBelow(random, 4) === 0) {
            await commit(window(isOpen ? null : hourMs));
            isOpen = !isOpen;
            moments = [];
          }
          return;
        case 10: {
          if (!isOpen) return;
          const [objects, versions] = [await listedAt(), await versionsAt()];
          const sql = 'SELECT max(idx) AS at FROM records';
          const { at } = (await fixture.read.get<{ at: number }>(sql)) ?? { at: 0 };
          moments.push({ at, objects, versions });
          return;
        }
        default:
          await put(key);
      }
    };
    for (let i = 0; i < (isFull ? 600 : 90); i++) {
      await step(i);
      if (i % 25 !== 0 && i < 85) continue;
      for (const { at, objects, versions } of [...living.values(), ...moments]) {
        expect(await listedAt(at)).toEqual(objects);
        expect(await versionsAt(at)).toEqual(versions);
        for (const key of keys) {
          const found = await findAt(catalog(), bucket, { key, at });
          const then = objects.find((one) => one.key === key);
          if (then) expect(found).toMatchObject(then);
          else expect(found?.isMarker ?? 1).toBe(1);
        }
      }
      const sql = `SELECT count(*) AS versions,
        ifnull(sum(iif(is_image OR is_marker, 0, size)), 0) AS bytes FROM held_versions`;
      expect(await held()).toEqual(await fixture.read.get(sql));
    }
    for (const name of living.keys()) await commit(deletion(name));
    await commit(window(null));
    await release();
    while ((await fixture.ledger.maintain({ kind: 'purgeEnded', max: 100 })) > 0);
    expect(await held()).toEqual({ versions: 0, bytes: 0 });
    const sql = `SELECT count(*) AS n, ifnull(sum(size), 0) AS bytes FROM
      (SELECT size FROM versions WHERE NOT is_marker
        UNION ALL SELECT size FROM noncurrent_versions WHERE NOT is_marker)`;
    const row = await fixture.read.get<{ n: number; bytes: number }>(sql);
    expect([await refs(), await stored()]).toEqual([row?.n, [row?.bytes, row?.n]]);
    expect(fixture.failures).toEqual([]);
  });
});
