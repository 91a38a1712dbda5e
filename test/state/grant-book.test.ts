// The grants and mounts in memory against those in the tables: after changes that come at once,
// that are refused, that fail, and after a new start.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import type { IdentityChange } from '#bursar/ledger/commands/identities.js';
import { schema } from '#bursar/ledger/schema.js';
import { GrantBook } from '#bursar/state/grant-book.js';
import { MountBook } from '#bursar/state/mount-book.js';
import { ToldMemory, type Verdict } from './told-memory.ts';

let db: OpenDatabase;
let grants: GrantBook;
let mounts: MountBook;
let memory: ToldMemory;

/** A change as the gateway makes it. `commit` is what the ledger does. */
function change(wanted: IdentityChange, commit?: () => Promise<Verdict>) {
  return memory.change(db.tx, wanted, commit);
}

function put(name: string, bucket: string): IdentityChange {
  const subjects = ['tenant:cms'];
  const grant = { name, effect: 'allow', subjects, actions: ['s3:GetObject'], bucket } as const;
  return { kind: 'putGrant', tenant: 'cms', isByAdmin: true, grant };
}

function drop(name: string): IdentityChange {
  return { kind: 'deleteGrant', tenant: 'cms', isByAdmin: true, name };
}

function mount(name: string, bucket: string): IdentityChange {
  return { kind: 'putMount', tenant: 'cms', name, bucketTenant: 'atlas', bucket };
}

/** The names of grants that a decision about a bucket looks at. */
function proposed(bucket: string, from = grants): string[] {
  const request = {
    ...{ who: null, subjects: ['tenant:cms'], action: 's3:GetObject', tenant: 'cms' },
    ...{ bucket, owner: null, key: 'k', listPrefix: null, facts: {} },
  };
  return from.index.propose(request as never).map(({ name }) => name);
}

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  [grants, mounts] = [await GrantBook.load(db.tx), await MountBook.load(db.tx)];
  memory = new ToldMemory();
  memory.projections.push(grants, mounts);
  await change({ kind: 'createTenant', name: 'cms', membersCreateBuckets: true });
});

afterEach(() => db.close());

describe('what is in memory', () => {
  it('is what the tables say, of changes of one name that come at once', async () => {
    const buckets = ['a', 'b', 'c', 'd'];
    await Promise.all(buckets.map((bucket) => change(put('one', bucket))));
    expect(grants.index.count).toBe(1);
    const { grant } = (await grants.read('cms', 'one')) ?? {};
    expect(buckets.filter((bucket) => proposed(bucket).length > 0)).toEqual([grant?.bucket]);
    await Promise.all([change(drop('one')), change(put('one', 'e')), change(drop('one'))]);
    expect(grants.index.count).toBe(0);
  });

  it('stays as it was when a change is refused or fails', async () => {
    await change(put('one', 'a'));
    await change(mount('m', 'x'));
    const fail = () => Promise.reject(new Error('the disk is on fire'));
    await expect(change(put('one', 'b'), fail)).rejects.toThrow('fire');
    await expect(change(drop('one'), fail)).rejects.toThrow('fire');
    await expect(change(mount('m', 'y'), fail)).rejects.toThrow('fire');
    const foreign: IdentityChange = { ...put('one', 'c'), isByAdmin: false } as IdentityChange;
    const grant = { name: 'one', effect: 'deny', subjects: ['anyone'], actions: ['*'] } as const;
    const refused = await change({ ...foreign, grant } as IdentityChange);
    expect(refused).toEqual({ ok: false, code: 'AccessDenied' });
    expect([proposed('a'), proposed('b'), proposed('c')]).toEqual([['one'], [], []]);
    expect(mounts.find('cms', 'm')).toMatchObject({ bucket: 'x' });
    // And whoever comes next does not wait for those.
    expect(await change(put('one', 'b'))).toMatchObject({ ok: true });
    expect(proposed('b')).toEqual(['one']);
  });

  it('is there again after a new start', async () => {
    for (let i = 0; i < 20; i++) await change(put(`grant-${i}`, 'a'));
    await change(drop('grant-7'));
    await change(mount('m', 'x'));
    const again = await GrantBook.load(db.tx);
    expect(proposed('a', again).sort()).toEqual(proposed('a').sort());
    expect(again.index.count).toBe(19);
    expect((await MountBook.load(db.tx)).find('cms', 'm')).toMatchObject({ bucket: 'x' });
  });

  it('goes with its tenant, and stays when that stays', async () => {
    await change(put('one', 'a'));
    await change(mount('m', 'x'));
    const insert = 'INSERT INTO buckets (tenant, name, owner, created_ms) VALUES (?, ?, ?, 0)';
    await db.tx.run(insert, 'cms', 'held', 'alice');
    const end: IdentityChange = { kind: 'deleteTenant', name: 'cms' };
    expect(await change(end)).toEqual({ ok: false, code: 'InUse' });
    expect([grants.index.count, mounts.find('cms', 'm')?.bucket]).toEqual([1, 'x']);
    await db.tx.run('DELETE FROM buckets');
    expect(await change(end)).toMatchObject({ ok: true });
    expect([grants.index.count, mounts.find('cms', 'm')]).toEqual([0, undefined]);
  });
});
