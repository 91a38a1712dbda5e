// Tenant keys: bound to tenant and epoch, unsealed once.
import { expect, it } from 'vitest';
import type { Reader } from '#bursar/core/database.js';
import { Keyring, tenantKeyContext } from '#bursar/tiering/keyring.js';

/**
 * Rows as the database gives them; a sealed key here is its context's name and the byte to fill.
 */
function makeKeyring(rows: { tenant: string; epoch: number }[]) {
  const opened: string[] = [];
  const read: Reader = {
    get: async <R>(_sql: string, tenant: unknown, epoch?: unknown) => {
      const found = rows
        .filter((row) => row.tenant === tenant && (epoch === undefined || row.epoch === epoch))
        .sort((a, b) => b.epoch - a.epoch)[0];
      return found && ({ epoch: found.epoch, sealed_key: Buffer.from([found.epoch]) } as R);
    },
    all: async () => [],
  };
  const keyring = new Keyring({
    read,
    open: (sealed, context) => {
      opened.push(context);
      return Buffer.alloc(32, sealed[0]);
    },
  });
  return { keyring, opened, rows };
}

it('new extents get the key of the highest epoch', async () => {
  const { keyring } = makeKeyring([1, 3, 2].map((epoch) => ({ tenant: 'cms', epoch })));
  expect(await keyring.current('cms')).toEqual({ epoch: 3, key: Buffer.alloc(32, 3) });
  expect((await keyring.at('cms', 1)).key).toEqual(Buffer.alloc(32, 1));
});

it('a key is unsealed once, under its tenant and epoch, also when many ask at once', async () => {
  const { keyring, opened } = makeKeyring([{ tenant: 'cms', epoch: 1 }]);
  await Promise.all([keyring.at('cms', 1), keyring.at('cms', 1), keyring.at('cms', 1)]);
  await keyring.at('cms', 1);
  expect(opened).toEqual([tenantKeyContext('cms', 1)]);
});

it('a cached key comes without a promise', async () => {
  const { keyring } = makeKeyring([{ tenant: 'cms', epoch: 1 }]);
  await keyring.current('cms');
  expect(keyring.current('cms')).not.toBeInstanceOf(Promise);
});

it('a missing key is an error, and is found once it is there', async () => {
  const { keyring, rows } = makeKeyring([]);
  await expect(keyring.current('cms')).rejects.toThrow('no data key');
  await expect(keyring.at('cms', 2)).rejects.toThrow('no data key');
  rows.push({ tenant: 'cms', epoch: 2 });
  expect((await keyring.current('cms')).epoch).toBe(2);
  expect((await keyring.at('cms', 2)).epoch).toBe(2);
});

it('after forget a new epoch is seen, also by who was asking meanwhile', async () => {
  const { keyring, rows } = makeKeyring([{ tenant: 'cms', epoch: 1 }]);
  const before = keyring.current('cms');
  rows.push({ tenant: 'cms', epoch: 2 });
  keyring.forget();
  await before;
  expect((await keyring.current('cms')).epoch).toBe(2);
});
