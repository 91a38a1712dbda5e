// Each way in which a key's current version can change is told by its mark, through a real ledger.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { findCurrent } from '#bursar/catalog/versions.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import {
  commitOf,
  deleteOf,
  keyring,
  type LedgerFixture,
  openLedger,
  putOf,
} from '../ledger/fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
  await put('k');
});
afterEach(() => fixture.close());

const any = { ifMatch: null, ifNoneMatch: null };

async function commit(change: Change) {
  const result = await fixture.ledger.commit(commitOf(change, 'k'));
  expect(result).toMatchObject({ ok: true });
  return result.ok ? result : undefined;
}

async function put(key: string) {
  const result = await fixture.ledger.commit(putOf(key));
  expect(result).toMatchObject({ ok: true });
  return result.ok ? (result.version?.versionId ?? 'null') : 'null';
}

const versioned = () => commit({ kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' });

/** Whether what was read of `k` before is told to have changed by what is done. */
async function isTold(act: () => Promise<unknown>): Promise<boolean> {
  const { versionMarks } = fixture.ledger;
  const mark = versionMarks.take(1, 'k');
  if (!mark) throw new Error('nobody writes it, and it is marked');
  expect(versionMarks.holds(mark)).toBe(true);
  await act();
  // Nothing is left marked as being written.
  expect(versionMarks.take(1, 'k')).not.toBeNull();
  return !versionMarks.holds(mark);
}

it('is told of a PUT, and of what replaces an object', async () => {
  expect(await isTold(() => put('k'))).toBe(true);
  await versioned();
  expect(await isTold(() => put('k'))).toBe(true);
});

it('is told of a copy', async () => {
  const catalog = { read: fixture.read, keyring };
  const source = await findCurrent(catalog, { id: 1, tenant: 'one', name: 'data' }, 'k');
  if (!source) throw new Error('there is none');
  const copy = () =>
    commit({
      kind: 'copyObject',
      bucketId: 1,
      key: 'k',
      conditions: any,
      source: { bucketId: 1, key: 'k', seq: source.seq },
      object: { ...source, tenant: 'one' },
    });
  expect(await isTold(copy)).toBe(true);
});

it('is told of a deletion, of a marker, and of what comes back from under it', async () => {
  expect(await isTold(() => fixture.ledger.commit(deleteOf('k')))).toBe(true);
  await versioned();
  await put('k');
  const newest = await put('k');
  expect(await isTold(() => fixture.ledger.commit(deleteOf('k')))).toBe(true);
  const { isMarker, versionId } = await fixture.read
    .get<{ isMarker: number; versionId: string }>(
      "SELECT is_marker AS isMarker, version_id AS versionId FROM versions WHERE key = 'k'",
    )
    .then((row) => row ?? { isMarker: 0, versionId: '' });
  expect(isMarker).toBe(1);
  const end = (id: string): Change => ({
    ...{ kind: 'deleteObject', bucketId: 1, key: 'k', conditions: any },
    versionId: id,
  });
  expect(await isTold(() => commit(end(versionId)))).toBe(true);
  expect(await isTold(() => commit(end(newest)))).toBe(true);
});

it('is told of new tags', async () => {
  const tags = [['a', 'b']] as const;
  const amend: Change = {
    ...{ kind: 'amendVersion', bucketId: 1, key: 'k' },
    amendment: { tags },
  };
  expect(await isTold(() => commit(amend))).toBe(true);
});

it('is told that a held version was let go of, once no snapshot has it', async () => {
  const snapshot = { kind: 'createSnapshot', bucketId: 1, prefix: '' } as const;
  const create = (name: string) => commit({ ...snapshot, name, expiresMs: null, lock: null });
  await create('s');
  await put('k');
  await commit({ kind: 'deleteSnapshot', bucketId: 1, name: 's' });
  const dying = await fixture.read.get<{ seq: number }>('SELECT seq FROM snapshots');
  const book = 'aws-us-east-1-2026';
  const release = () =>
    fixture.ledger.maintain({
      ...{ kind: 'releaseHeld', bucketId: 1, seq: dying?.seq ?? -1, max: 1, book },
    });
  expect(await isTold(release)).toBe(true);
  expect(await isTold(() => create('another'))).toBe(false);
});

it('is not told of another key, nor of what was refused', async () => {
  expect(await isTold(() => put('another'))).toBe(false);
  const refused = putOf('k');
  if (refused.change.kind === 'putObject')
    refused.change.conditions = { ...any, ifNoneMatch: ['*'] };
  const isRefused = async () =>
    expect(await fixture.ledger.commit(refused)).toMatchObject({ code: 'PreconditionFailed' });
  expect(await isTold(isRefused)).toBe(false);
});
