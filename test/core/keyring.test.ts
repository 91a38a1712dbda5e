// Keys derived from root keys: which is which, and that no two are the same.
import { hkdfSync } from 'node:crypto';
import { expect, it } from 'vitest';
import { IntegrityError } from '#bursar/core/errors.js';
import { Keyring, type RootKey } from '#bursar/core/keyring.js';

const rootKey = (epoch: number): RootKey => ({ epoch, key: Buffer.alloc(32, epoch) });

/** Every key of a keyring for some tenants and epochs, in hex. */
function allKeys(keyring: Keyring, epochs: number[], tenants: string[]): string[] {
  return epochs
    .flatMap((epoch) => [
      keyring.rowKey(epoch),
      keyring.extentMetadataKey(epoch),
      keyring.journalKey(epoch),
      keyring.secretsKey(epoch),
      keyring.sessionsKey(epoch),
      keyring.tokensKey(epoch),
      ...tenants.flatMap((tenant) => [
        keyring.tenantKey(tenant, epoch).key,
        keyring.manifestKey(tenant, epoch),
      ]),
    ])
    .map((key) => key.toString('hex'));
}

it('each key is HKDF of its epoch under the name of its purpose', () => {
  const keyring = new Keyring([rootKey(1), rootKey(2)]);
  const derive = (epoch: number, info: string) =>
    Buffer.from(hkdfSync('sha256', Buffer.alloc(32, epoch), Buffer.alloc(0), info, 32));
  expect(keyring.tenantKey('cms', 1).key).toEqual(derive(1, 'bursar/tenant/v1\0cms'));
  expect(keyring.manifestKey('cms', 2)).toEqual(derive(2, 'bursar/manifest/v1\0cms'));
  expect(keyring.rowKey(2)).toEqual(derive(2, 'bursar/row/v1'));
  expect(keyring.extentMetadataKey(1)).toEqual(derive(1, 'bursar/extent-metadata/v1'));
  expect(keyring.journalKey(1)).toEqual(derive(1, 'bursar/journal/v1'));
  expect(keyring.secretsKey(1)).toEqual(derive(1, 'bursar/secrets/v1'));
  expect(keyring.tokensKey(2)).toEqual(derive(2, 'bursar/tokens/v1'));
});

it('no two purposes, tenants or epochs share a key', () => {
  const keyring = new Keyring([rootKey(1), rootKey(2)]);
  const keys = allKeys(keyring, [1, 2], ['cms', 'cm', 's', '']);
  expect(new Set(keys).size).toBe(keys.length);
});

it('new data gets the key of the highest epoch that has begun, whatever the order', () => {
  const keyring = new Keyring([rootKey(3), rootKey(1)]);
  expect(keyring.tenantKey('cms').epoch).toBe(3);
  for (const epoch of [2, 5, 4]) keyring.learn(rootKey(epoch));
  for (const epoch of [2, 4, 1]) keyring.begin(epoch);
  expect(keyring.tenantKey('cms')).toEqual(keyring.tenantKey('cms', 4));
});

it('an epoch that has not begun is read, and nothing is made under it', () => {
  const keyring = new Keyring([rootKey(1)]);
  keyring.learn(rootKey(2));
  expect(keyring.currentEpoch).toBe(1);
  expect(keyring.rowKey(2)).toEqual(new Keyring([rootKey(2)]).rowKey(2));
  expect(() => keyring.begin(3)).toThrow(IntegrityError);
});

it('a key stays the same object, and old ones stay when an epoch is added', () => {
  const keyring = new Keyring([rootKey(1)]);
  const { key } = keyring.tenantKey('cms');
  keyring.learn(rootKey(2));
  keyring.begin(2);
  expect(keyring.tenantKey('cms', 1).key).toBe(key);
});

it('an epoch that never was is not authentic', () => {
  const keyring = new Keyring([rootKey(1)]);
  expect(() => keyring.tenantKey('cms', 2)).toThrow(IntegrityError);
  expect(() => keyring.rowKey(0)).toThrow(IntegrityError);
});

it('the same key again changes nothing', () => {
  const keyring = new Keyring([rootKey(1), rootKey(2)]);
  const key = keyring.rowKey(1);
  keyring.learn(rootKey(1));
  expect([keyring.rowKey(1), keyring.epochs]).toEqual([key, [1, 2]]);
});

it.each([
  ['another key of an epoch', { epoch: 1, key: Buffer.alloc(32, 9) }],
  ['epoch 0', rootKey(0)],
  ['epoch 65,536', rootKey(65_536)],
  ['half an epoch', rootKey(1.5)],
  ['a short key', { epoch: 2, key: Buffer.alloc(31) }],
])('refuses %s', (_, key) => {
  expect(() => new Keyring([rootKey(1)]).learn(key)).toThrow();
});
