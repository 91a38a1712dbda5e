// Which root keys a database goes with.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { findVersion } from '#bursar/catalog/versions.js';
import { openDatabase } from '#bursar/core/database.js';
import { Keyring, type RootKey } from '#bursar/core/keyring.js';
import { Ledger } from '#bursar/ledger/ledger.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { commitOf, rootKey as first, openLedger, putOf } from './fixture.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-epochs-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const path = () => join(folder, 'test.db');
const rootKey = (epoch: number, fill = epoch): RootKey => ({ epoch, key: Buffer.alloc(32, fill) });

function open(...rootKeys: RootKey[]): Promise<Ledger> {
  const unexpected = (reason: string): never => {
    throw new Error(reason);
  };
  return Ledger.open({
    path: path(),
    rootKeys,
    priceBooks: [...readPriceBooks()],
    onFatal: unexpected,
    onFailure: unexpected,
  });
}

async function openAndClose(...rootKeys: RootKey[]): Promise<void> {
  await (await open(...rootKeys)).close();
}

async function notedEpochs(): Promise<number[]> {
  const db = openDatabase(path(), { readonly: true, cacheKib: 1024 });
  const sql = 'SELECT epoch FROM key_epochs ORDER BY epoch';
  const rows = await db.tx.all<{ epoch: number }>(sql);
  db.close();
  return rows.map(({ epoch }) => epoch);
}

it('a database opens with its own root keys, and with more', async () => {
  await openAndClose(rootKey(1));
  await openAndClose(rootKey(1), rootKey(2));
  expect(await notedEpochs()).toEqual([1, 2]);
});

it('another key of an epoch is refused, and nothing is noted', async () => {
  await openAndClose(rootKey(1));
  await expect(open(rootKey(1, 9), rootKey(2))).rejects.toThrow('another root key of epoch 1');
  expect(await notedEpochs()).toEqual([1]);
  await openAndClose(rootKey(1));
});

it('keys that lack an epoch in use are refused', async () => {
  await openAndClose(rootKey(1), rootKey(3));
  await expect(open(rootKey(1))).rejects.toThrow('lacks the root key of epoch 3');
  await expect(open(rootKey(1), rootKey(2))).rejects.toThrow('lacks the root key of epoch 3');
});

it('a key that is added is in use with its record, and may be added again', async () => {
  const ledger = await open(rootKey(1));
  const change = { kind: 'addRootKey', key: rootKey(2) } as const;
  expect(await ledger.commit(commitOf(change))).toMatchObject({ ok: true, index: 0 });
  expect(await ledger.commit(commitOf(change))).toMatchObject({ ok: true, index: 1 });
  await ledger.close();
  expect(await notedEpochs()).toEqual([1, 2]);
  await expect(open(rootKey(1))).rejects.toThrow('lacks the root key of epoch 2');
});

it('nothing is sealed under a key before the batch that adds it is durable', async () => {
  const fixture = await openLedger();
  const { ledger, read } = fixture;
  try {
    const tag = (key: string) => {
      const amendment = { tags: [['a', 'b']] } as const;
      return commitOf({ kind: 'amendVersion', bucketId: 1, key, amendment }, key);
    };
    const [one, two] = await Promise.all([
      ledger.commit(putOf('one')),
      ledger.commit(putOf('two')),
    ]);
    const added = { kind: 'addRootKey', key: rootKey(2) } as const;
    await Promise.all([ledger.commit(commitOf(added)), ledger.commit(tag('one'))]);
    await ledger.commit(tag('two'));
    const bucket = { id: 1, tenant: 'one', name: 'data' };
    const find = (keyring: Keyring, key: string, result: typeof one) =>
      findVersion({ read, keyring }, bucket, { key, seq: Number(result.index) });
    const [before, told] = [new Keyring([first]), new Keyring([first])];
    told.learn(rootKey(2));
    expect(await find(before, 'one', one)).toMatchObject({ epoch: 1 });
    expect(await find(told, 'two', two)).toMatchObject({ epoch: 2 });
    await expect(find(before, 'two', two)).rejects.toThrow('no root key of epoch 2');
  } finally {
    await fixture.close();
  }
});
