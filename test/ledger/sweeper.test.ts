// The sweeper takes only what the catalog has given up, spares what is read, and stops at a store's
// error.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sealObject } from '#bursar/catalog/authentic.js';
import { newExtentId } from '#bursar/core/ids.js';
import { encodeManifest } from '#bursar/core/manifest.js';
import { Sweeper } from '#bursar/ledger/sweeper.js';
import { ClassBook } from '#bursar/state/class-book.js';
import type { ClassDefinition } from '#bursar/tiering/classes/class-definition.js';
import { ReadLeases } from '#bursar/tiering/read-leases.js';
import { commitOf, deleteOf, keyring, type LedgerFixture, openLedger, putOf } from './fixture.ts';

let fixture: LedgerFixture;
let removed: string[];
let leases: ReadLeases;
/** Numbers of the stores that are away. */
let failing: Set<number>;
/** Stores in which no tenant has a leg of a class. */
let unlinked: Set<number>;
/** Stores whose journals are behind. */
let untold: Set<number>;
/** Stores whose journals have lost something. */
let cut: Set<number>;
let lockedIds: Set<string>;

beforeEach(async () => {
  fixture = await openLedger();
  removed = [];
  leases = new ReadLeases();
  failing = new Set();
  untold = new Set();
  unlinked = new Set();
  cut = new Set();
  lockedIds = new Set();
});
afterEach(() => fixture.close());

function sweeper(graceMs = 0): Sweeper {
  const get = (store: number) => ({
    remove: async (id: Buffer): Promise<void> => {
      if (failing.has(store)) throw new Error(`store ${store} is away`);
      if (lockedIds.has(id.toString('hex'))) throw new Error('it is locked');
      removed.push(id.toString('hex'));
    },
  });
  const { ledger, read } = fixture;
  return new Sweeper({
    read,
    ledger,
    stores: { get },
    maySweep: (store) => !untold.has(store),
    journaled: () => [2, 3],
    isWhole: (store) => !cut.has(store),
    mayLink: (_, store) => !unlinked.has(store),
    leases,
    graceMs,
  });
}

async function putStored(key: string, store = 1, bucketId = 1): Promise<Buffer> {
  const storedId = newExtentId();
  await fixture.ledger.maintain({ kind: 'declareExtents', store, ids: [storedId] });
  const put = putOf(key, { storedId });
  const change = { ...put.change, bucketId } as typeof put.change;
  await fixture.ledger.commit({ ...put, change });
  return storedId;
}

/** Those that may be in a store. */
async function extents(): Promise<string[]> {
  const rows = await fixture.read.all<{ id: Buffer }>('SELECT id FROM extents WHERE state <> 4');
  return rows.map(({ id }) => id.toString('hex')).sort();
}

const hex = (...ids: Buffer[]): string[] => ids.map((id) => id.toString('hex')).sort();

describe('a sweep', () => {
  it('removes what deleted and overwritten objects held, and nothing that lives', async () => {
    const kept = await putStored('kept');
    const deleted = await putStored('deleted');
    const overwritten = await putStored('twice');
    const current = await putStored('twice');
    await fixture.ledger.commit(deleteOf('deleted'));
    const result = await sweeper().sweep();
    expect(result).toEqual({ condemnedIntents: 0, purgedVersions: 2, removedExtents: 2 });
    expect(removed.sort()).toEqual(hex(deleted, overwritten));
    expect(await extents()).toEqual(hex(kept, current));
    expect(await sweeper().sweep()).toMatchObject({ purgedVersions: 0, removedExtents: 0 });
  });

  it('leaves what a copy still holds', async () => {
    const shared = await putStored('source');
    const run = {
      id: shared,
      store: 1,
      algorithm: 1,
      epoch: 1,
      extentBytes: 10,
      offset: 0,
      length: 10,
      trailerBytes: 0,
    };
    const copy = putOf('copy').change;
    if (copy.kind !== 'putObject') throw new Error('not a PUT');
    const object = sealObject(keyring, { ...copy.object, manifest: encodeManifest([run]) });
    const { conditions } = copy;
    const source = { bucketId: 1, key: 'source', seq: 3 };
    const change = {
      kind: 'copyObject',
      bucketId: 1,
      key: 'copy',
      conditions,
      source,
      object,
    } as const;
    expect(await fixture.ledger.commit(commitOf(change))).toMatchObject({ ok: true });
    await fixture.ledger.commit(deleteOf('source'));
    await sweeper().sweep();
    expect([removed, await extents()]).toEqual([[], hex(shared)]);
    await fixture.ledger.commit(deleteOf('copy'));
    await sweeper().sweep();
    expect([removed, await extents()]).toEqual([hex(shared), []]);
  });

  it('spares what is being read until the read has ended', async () => {
    const id = await putStored('read');
    const release = leases.hold([
      {
        id,
        store: 1,
        algorithm: 1,
        epoch: 1,
        extentBytes: 10,
        offset: 0,
        length: 10,
        trailerBytes: 0,
      },
    ]);
    await fixture.ledger.commit(deleteOf('read'));
    await sweeper().sweep();
    expect([removed, await extents()]).toEqual([[], hex(id)]);
    release();
    await sweeper().sweep();
    expect([removed, await extents()]).toEqual([hex(id), []]);
  });

  it('waits for the grace period', async () => {
    const id = await putStored('young');
    await fixture.ledger.commit(deleteOf('young'));
    await sweeper(3_600_000).sweep();
    expect([removed, await extents()]).toEqual([[], hex(id)]);
  });

  it('takes inline bodies without asking the store', async () => {
    await fixture.ledger.commit(putOf('inline'));
    await fixture.ledger.commit(deleteOf('inline'));
    expect(await sweeper().sweep()).toMatchObject({ removedExtents: 1 });
    expect([removed, await extents()]).toEqual([[], []]);
  });

  it('gives up at an error, and what it could not remove is still known', async () => {
    const id = await putStored('stuck');
    await fixture.ledger.commit(deleteOf('stuck'));
    failing.add(1);
    await expect(sweeper().sweep()).rejects.toThrow('store 1 is away');
    expect(await extents()).toEqual(hex(id));
    failing.clear();
    await sweeper().sweep();
    expect([removed, await extents()]).toEqual([hex(id), []]);
  });

  it('goes on with others when the store keeps one, and comes back to it', async () => {
    const locked = await putStored('locked', 2);
    const others = [await putStored('b', 2), await putStored('c', 2)];
    for (const key of ['locked', 'b', 'c']) await fixture.ledger.commit(deleteOf(key));
    lockedIds.add(locked.toString('hex'));
    await expect(sweeper().sweep()).rejects.toThrow('locked');
    expect(removed.sort()).toEqual(hex(...others));
    expect(await extents()).toEqual(hex(locked));
    lockedIds.clear();
    await sweeper(0).sweep();
    expect(await extents()).toEqual([]);
  });

  it('remembers what it swept from an S3 store, for some hours', async () => {
    await putStored('far', 2);
    await putStored('near');
    for (const key of ['far', 'near']) await fixture.ledger.commit(deleteOf(key));
    await sweeper().sweep();
    const count = async () =>
      (await fixture.read.all('SELECT 1 FROM extents WHERE state = 4')).length;
    expect(await count()).toBe(1);
    const { maintain } = fixture.ledger;
    const forget = (beforeMs: number) =>
      maintain.call(fixture.ledger, { kind: 'forgetSwept', beforeMs, max: 10 });
    expect(await forget(Date.now() - 3600_000)).toBe(0);
    expect(await forget(Date.now() + 1)).toBe(1);
    expect(await count()).toBe(0);
  });

  it('goes through with the other stores when one is away, and says so at the end', async () => {
    const stuck = [await putStored('a', 2), await putStored('b', 3)];
    const gone = [await putStored('c', 1), await putStored('d', 4)];
    for (const key of ['a', 'b', 'c', 'd']) await fixture.ledger.commit(deleteOf(key));
    failing.add(2);
    await fixture.ledger.commit(putOf('inline'));
    await fixture.ledger.commit(deleteOf('inline'));
    await expect(sweeper().sweep()).rejects.toThrow('store 2 is away');
    expect(removed.sort()).toEqual(hex(stuck[1] as Buffer, ...gone));
    expect(await extents()).toEqual(hex(stuck[0] as Buffer));
    failing.clear();
    await sweeper().sweep();
    expect(await extents()).toEqual([]);
  });

  it('removes nothing from a store whose journal is another’s, or is behind', async () => {
    untold.add(2);
    const far = await putStored('far', 2);
    const near = await putStored('near', 3);
    for (const key of ['far', 'near']) await fixture.ledger.commit(deleteOf(key));
    expect(await sweeper().sweep()).toMatchObject({ removedExtents: 1 });
    expect(removed).toEqual(hex(near));
    expect(await extents()).toEqual(hex(far));
    untold.clear();
    expect(await sweeper().sweep()).toMatchObject({ removedExtents: 1 });
    expect(removed).toEqual([...hex(near), ...hex(far)]);
  });

  it('removes nothing that the journal in the store still calls alive', async () => {
    const { ledger } = fixture;
    await ledger.maintain({ kind: 'registerStore', name: 'remote', location: 'there' });
    const owner = 'alice';
    const bucket = { kind: 'createBucket', tenant: 'one', name: 'far', owner, store: 2 } as const;
    await ledger.commit(commitOf(bucket));
    const id = await putStored('k', 2, 2);
    const deletion = deleteOf('k');
    const gone = await ledger.commit({
      ...deletion,
      change: { ...deletion.change, bucketId: 2 } as typeof deletion.change,
    });
    expect(await sweeper().sweep()).toMatchObject({ purgedVersions: 1, removedExtents: 0 });
    expect(removed).toEqual([]);
    const lastSeq = gone.index as number;
    const segment = { name: 'segment', lastSeq, sizeBytes: 1, digest: Buffer.alloc(32) };
    await ledger.maintain({ kind: 'forgetJournaled', store: 2, lastSeq, segment });
    await sweeper().sweep();
    expect(removed).toEqual(hex(id));
  });

  it('removes nothing that the journal of a bucket in another store still names', async () => {
    const { ledger } = fixture;
    await ledger.maintain({ kind: 'registerStore', name: 'remote', location: 'there' });
    const owner = 'alice';
    const bucket = { kind: 'createBucket', tenant: 'one', name: 'far', owner, store: 2 } as const;
    await ledger.commit(commitOf(bucket));
    const id = await putStored('k', 3, 2);
    const deletion = deleteOf('k');
    const gone = await ledger.commit({
      ...deletion,
      change: { ...deletion.change, bucketId: 2 } as typeof deletion.change,
    });
    expect(await sweeper().sweep()).toMatchObject({ purgedVersions: 1, removedExtents: 0 });
    const lastSeq = gone.index as number;
    const segment = { name: 'segment', lastSeq, sizeBytes: 1, digest: Buffer.alloc(32) };
    await ledger.maintain({ kind: 'forgetJournaled', store: 2, lastSeq, segment });
    await sweeper().sweep();
    expect(removed).toEqual(hex(id));
  });

  it('waits until a journal that may have named it is whole', async () => {
    cut.add(2);
    const [near, own] = [await putStored('near', 3), await putStored('own')];
    for (const key of ['near', 'own']) await fixture.ledger.commit(deleteOf(key));
    expect(await sweeper().sweep()).toMatchObject({ removedExtents: 1 });
    expect(await extents()).toEqual(hex(near));
    cut.clear();
    await sweeper().sweep();
    expect(removed).toEqual(hex(own, near).sort((a) => (a === hex(own)[0] ? -1 : 1)));
  });

  it('asks other journals also after the last class is gone, and a new start', async () => {
    const { ledger, read } = fixture;
    expect((await ClassBook.load(read)).isEmpty).toBe(true);
    const definition: ClassDefinition = {
      ...{ aliases: [], durability: { legs: [{ store: 'near' }], ack: 1, repairHours: 24 } },
      availability: { answer: 'first', maxOfflineHoursPerMonth: 0 },
      ...{ access: 'online', restoreWithinHours: null, loss: 'report' },
      minimum: { days: 0, bytes: 0 },
    };
    const named = { tenant: 'default', name: 'derived' };
    const tenant = { kind: 'createTenant', name: 'default', membersCreateBuckets: true } as const;
    await ledger.commit(commitOf(tenant));
    const made = await ledger.commit(commitOf({ kind: 'createClass', ...named, definition }));
    const gone = await ledger.commit(commitOf({ kind: 'deleteClass', ...named }));
    expect([made, gone]).toMatchObject([{ ok: true }, { ok: true }]);
    expect((await ClassBook.load(read)).isEmpty).toBe(false);
  });

  it('waits for no journal whose buckets cannot have named it', async () => {
    const { ledger } = fixture;
    const gone = async (
      key: string,
      at: Parameters<typeof commitOf>[0] | null,
      bucketId: number,
    ) => {
      if (at) await ledger.commit(commitOf(at));
      const id = await putStored(key, 3, bucketId);
      const deletion = deleteOf(key);
      const change = { ...deletion.change, bucketId } as typeof deletion.change;
      return { id, seq: (await ledger.commit({ ...deletion, change })).index as number };
    };
    for (const name of ['away', 'there']) {
      await ledger.maintain({ kind: 'registerStore', name, location: name });
    }
    const bucket = (name: string, store: number) =>
      ({ kind: 'createBucket', ...{ tenant: 'one', name, owner: 'alice', store } }) as const;
    const told = async (store: number, lastSeq: number) => {
      const segment = { name: `s${store}`, lastSeq, sizeBytes: 1, digest: Buffer.alloc(32) };
      await ledger.maintain({ kind: 'forgetJournaled', store, lastSeq, segment });
    };
    await sweeper().sweep();
    // What the store that is away has still to tell is of the tenant `one`.
    const far = await gone('far', bucket('far', 2), 2);
    const own = await gone('own', bucket('near', 3), 3);
    const other = await gone('other', null, 3);
    await fixture.edit(`UPDATE extents SET tenant = 'two' WHERE id = x'${hex(other.id)}'`);
    await told(3, other.seq);
    const swept = sweeper();
    await swept.sweep();
    expect(removed).toEqual(hex(other.id));
    // Without a class of the tenant's in the store nothing there was named elsewhere; but what was
    // told before the gateway started may have been of a class that is gone.
    unlinked.add(3);
    await sweeper().sweep();
    expect(removed).toEqual(hex(other.id));
    await told(2, far.seq);
    const next = await gone('far', null, 2);
    const last = await gone('own', null, 3);
    await told(3, last.seq);
    await swept.sweep();
    expect(removed.sort()).toEqual(hex(...[other, far, own, next, last].map(({ id }) => id)));
    // A bucket that is gone may have been anybody's.
    await ledger.commit(commitOf({ kind: 'deleteBucket', bucketId: 2 }));
    const late = await gone('late', null, 3);
    await told(3, late.seq);
    await swept.sweep();
    expect(await extents()).toEqual(hex(late.id));
  });

  it.each(['manifest = (SELECT manifest FROM versions WHERE key = ?)', "manifest = x'00' || ?"])(
    'lets go of nothing that an edited row of a deleted object names: %s',
    async (edit) => {
      const alive = await putStored('alive');
      const own = await putStored('deleted');
      await fixture.ledger.commit(deleteOf('deleted'));
      await fixture.edit(
        `UPDATE ended_versions SET ${edit.replace('?', "'alive'")} WHERE key = 'deleted'`,
      );
      expect(await sweeper().sweep()).toMatchObject({ purgedVersions: 1, removedExtents: 0 });
      expect(await extents()).toEqual([...hex(alive), ...hex(own)].sort());
    },
  );

  it('goes on with what the objects of a deleted bucket held', async () => {
    const id = await putStored('k');
    await fixture.ledger.commit(deleteOf('k'));
    await fixture.ledger.commit(commitOf({ kind: 'deleteBucket', bucketId: 1 }));
    await sweeper().sweep();
    expect(removed).toEqual(hex(id));
  });

  it('of several stores that are away names each', async () => {
    await putStored('a', 2);
    await putStored('b', 3);
    for (const key of ['a', 'b']) await fixture.ledger.commit(deleteOf(key));
    failing = new Set([2, 3]);
    const error: unknown = await sweeper()
      .sweep()
      .catch((thrown: unknown) => thrown);
    expect((error as AggregateError).errors.map(String)).toEqual([
      'Error: store 2 is away',
      'Error: store 3 is away',
    ]);
  });

  it('takes what uploads of a former run left, not what this one is writing', async () => {
    const [orphan, own] = [newExtentId(), newExtentId()];
    const { ledger } = fixture;
    await ledger.maintain({ kind: 'declareExtents', store: 1, ids: [orphan] });
    await fixture.reopen();
    await fixture.ledger.maintain({ kind: 'declareExtents', store: 1, ids: [own] });
    expect(await sweeper().sweep()).toMatchObject({ condemnedIntents: 1, removedExtents: 1 });
    expect([removed, await extents()]).toEqual([hex(orphan), hex(own)]);
  });

  it('of more than a batch removes all', async () => {
    const names = Array.from({ length: 450 }, (_, i) => `k${i}`);
    await Promise.all(names.map((key) => fixture.ledger.commit(putOf(key))));
    await Promise.all(names.map((key) => fixture.ledger.commit(deleteOf(key))));
    expect(await sweeper().sweep()).toEqual({
      condemnedIntents: 0,
      purgedVersions: 450,
      removedExtents: 450,
    });
  });

  it('of objects that are of very many extents removes all, too', async () => {
    const run = { store: 1, algorithm: 1, epoch: 1, extentBytes: 1, offset: 0, length: 1 };
    const runs = Array.from({ length: 1500 }, () => ({
      ...run,
      id: newExtentId(),
      trailerBytes: 0,
    }));
    for (let made = 0; made < 4; made++) {
      const { change } = putOf('k');
      if (change.kind !== 'putObject') throw new Error('not a PUT');
      const object = sealObject(keyring, { ...change.object, manifest: encodeManifest(runs) });
      await fixture.ledger.commit(commitOf({ ...change, object }));
    }
    await fixture.ledger.commit(deleteOf('k'));
    expect(await sweeper().sweep()).toMatchObject({ purgedVersions: 4 });
    expect(await fixture.read.all('SELECT seq FROM ended_versions')).toEqual([]);
  });

  it('removes all copies of what is in several stores, and waits for each of them', async () => {
    const { ledger } = fixture;
    const [id, orphan] = [newExtentId(), newExtentId()];
    await ledger.maintain({ kind: 'declareExtents', store: 1, stores: [1, 2, 3], ids: [id] });
    const put = putOf('k', { storedId: id });
    const change = { ...put.change, places: [[1, 3]] } as typeof put.change;
    await ledger.commit({ ...put, change });
    const statesOf = async () =>
      (
        await fixture.read.all<{ state: number }>(
          'SELECT state FROM extent_copies WHERE extent_id = ? ORDER BY store',
          id,
        )
      ).map(({ state }) => state);
    expect(await statesOf()).toEqual([1, 2, 1]);
    await ledger.commit(deleteOf('k'));
    failing = new Set([2]);
    await expect(sweeper().sweep()).rejects.toThrow('copies in store 2 are not removed');
    expect(await extents()).toEqual(hex(id));
    failing = new Set();
    removed = [];
    await sweeper().sweep();
    expect(removed).toEqual([...hex(id), ...hex(id), ...hex(id)]);
    expect([await extents(), await statesOf()]).toEqual([[], []]);
    // What a killed write left may be in any of them.
    await ledger.maintain({ kind: 'declareExtents', store: 1, stores: [1, 2], ids: [orphan] });
    await fixture.reopen();
    removed = [];
    expect(await sweeper().sweep()).toMatchObject({ condemnedIntents: 1, removedExtents: 1 });
    expect(removed).toEqual([...hex(orphan), ...hex(orphan)]);
  });

  it('removes what is in a store alone, though others have copies that stay', async () => {
    const both = Array.from({ length: 20 }, newExtentId);
    const alone = newExtentId();
    await fixture.ledger.maintain({
      ...{ kind: 'declareExtents', store: 1, stores: [1, 2], ids: both },
    });
    await fixture.ledger.maintain({ kind: 'declareExtents', store: 1, ids: [alone] });
    await fixture.reopen();
    failing = new Set([2]);
    await expect(sweeper().sweep()).rejects.toThrow('copies in store 2 are not removed');
    expect(await extents()).toEqual(hex(...both));
    failing = new Set();
    await sweeper().sweep();
    expect(await extents()).toEqual([]);
  });
});
