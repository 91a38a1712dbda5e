// The file of root keys: how it is made, what it refuses, and rotation.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { type KeyWrapping, RootKeyFile } from '#bursar/core/root-keys.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-root-keys-'));
  path = join(folder, 'keys', 'root-keys.json');
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const open = (wrapping: KeyWrapping | null = null) => RootKeyFile.open(path, wrapping);

/** Flips all bits and prepends the epoch: enough to tell who was asked for what. */
const flipping: KeyWrapping = {
  wrap: async (key, epoch) => ({
    keyId: 'arn:flip',
    region: 'nowhere',
    wrapped: Buffer.from([epoch, ...Buffer.from(key).map((byte) => ~byte)]),
  }),
  unwrap: async ({ wrapped }, epoch) => {
    if (wrapped[0] !== epoch) throw new Error('wrong context');
    return Buffer.from(wrapped.subarray(1).map((byte) => ~byte));
  },
};

describe('a new file', () => {
  it('has one random key that only its owner reads, in a folder that only they enter', async () => {
    const { keys } = await open();
    expect(keys).toMatchObject([{ epoch: 1 }]);
    expect(keys[0]?.key).toHaveLength(32);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'keys')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(folder, 'keys'))).toEqual(['root-keys.json']);
  });

  it('gives the same key when it is opened again', async () => {
    const { keys } = await open();
    expect((await open()).keys).toEqual(keys);
  });
});

describe('a rotation', () => {
  it('adds a random key of the next epoch, and old ones stay', async () => {
    const file = await open();
    const [first] = file.keys;
    const second = await file.rotate();
    const third = await file.rotate();
    expect(file.keys).toEqual([first, second, third]);
    expect(file.keys.map(({ epoch }) => epoch)).toEqual([1, 2, 3]);
    expect(new Set(file.keys.map(({ key }) => Buffer.from(key).toString('hex'))).size).toBe(3);
    expect((await open()).keys).toEqual(file.keys);
    expect(readdirSync(join(folder, 'keys'))).toEqual(['root-keys.json']);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('that is asked for several times at once gives each its own epoch', async () => {
    const file = await open(flipping);
    const made = await Promise.all([file.rotate(), file.rotate(), file.rotate()]);
    expect(made.map(({ epoch }) => epoch)).toEqual([2, 3, 4]);
    expect((await open(flipping)).keys).toEqual(file.keys);
  });

  it('that fails changes nothing, and the next one goes on', async () => {
    const file = await open();
    const before = readFileSync(path);
    rmSync(path);
    mkdirSync(path);
    await expect(file.rotate()).rejects.toThrow();
    expect(file.keys).toHaveLength(1);
    rmSync(path, { recursive: true });
    writeFileSync(path, before, { mode: 0o600 });
    expect((await file.rotate()).epoch).toBe(2);
    expect((await open()).keys).toEqual(file.keys);
  });

  it('shows what keys there are, and nothing of the keys', async () => {
    const file = await open();
    await file.rotate();
    const shown = JSON.stringify(file.describe());
    for (const { key } of file.keys) {
      expect(shown).not.toContain(Buffer.from(key).toString('base64'));
    }
    expect(file.describe()).toMatchObject([
      { epoch: 1, wrappedBy: null },
      { epoch: 2, wrappedBy: null },
    ]);
  });
});

describe('wrapped keys', () => {
  it('are in the file only as they were wrapped, and open again', async () => {
    const file = await open(flipping);
    await file.rotate();
    const text = readFileSync(path, 'utf8');
    for (const { key } of file.keys) {
      expect(text).not.toContain(Buffer.from(key).toString('base64'));
    }
    expect((await open(flipping)).keys).toEqual(file.keys);
    expect(file.describe()).toMatchObject([{ wrappedBy: 'arn:flip' }, { wrappedBy: 'arn:flip' }]);
  });

  it('follow plain ones when wrapping begins, and do not open without it', async () => {
    const plain = await open();
    const file = await open(flipping);
    expect(file.keys).toEqual(plain.keys);
    await file.rotate();
    expect((await open(flipping)).keys).toEqual(file.keys);
    await expect(open()).rejects.toThrow('epoch 2 in');
  });

  it('are not followed by a plain one, which others may have put there', async () => {
    await open(flipping);
    const { version, keys } = JSON.parse(readFileSync(path, 'utf8'));
    const createdAt = new Date().toISOString();
    const planted = { epoch: 2, createdAt, key: Buffer.alloc(32, 1).toString('base64') };
    writeFileSync(path, JSON.stringify({ version, keys: [...keys, planted] }), { mode: 0o600 });
    await expect(open(flipping)).rejects.toThrow('epoch 2 that KMS did not wrap');
  });

  it('say which one could not be unwrapped, and why', async () => {
    await open(flipping);
    const failing = { ...flipping, unwrap: () => Promise.reject(new Error('no such key')) };
    await expect(open(failing)).rejects.toThrow(/epoch 1 .* cannot be unwrapped: no such key/);
  });

  it('are not made when wrapping fails, and the next rotation goes on', async () => {
    let fails = false;
    const failing: KeyWrapping = {
      ...flipping,
      wrap: (key, epoch) => (fails ? Promise.reject(new Error('down')) : flipping.wrap(key, epoch)),
    };
    const file = await open(failing);
    fails = true;
    await expect(file.rotate()).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    fails = false;
    expect((await file.rotate()).epoch).toBe(2);
    expect((await open(flipping)).keys).toEqual(file.keys);
  });

  it.each<[string, Partial<KeyWrapping>]>([
    ['is not given back', { unwrap: () => Promise.reject(new Error('AccessDenied')) }],
    ['comes back as another', { unwrap: async () => Buffer.alloc(32, 1) }],
    [
      'is longer than the file may have it',
      {
        wrap: async () => ({ keyId: 'arn:flip', region: 'nowhere', wrapped: Buffer.alloc(20_000) }),
        unwrap: async () => given,
      },
    ],
  ])('are not made when one %s', async (_, faults) => {
    const file = await open(flipping);
    const before = readFileSync(path, 'utf8');
    const { wrap } = { ...flipping, ...faults };
    const service: KeyWrapping = {
      ...flipping,
      ...faults,
      wrap: (key, epoch) => {
        given = Buffer.from(key);
        return wrap(key, epoch);
      },
    };
    const failing = await open({
      ...service,
      unwrap: (key, epoch) => (epoch === 1 ? flipping : service).unwrap(key, epoch),
    });
    await expect(failing.rotate()).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(readFileSync(path, 'utf8')).toBe(before);
    rmSync(path);
    await expect(open(service)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    expect(existsSync(path)).toBe(false);
    expect(file.keys).toHaveLength(1);
  });
  let given: Buffer;

  it('are refused when what was unwrapped is no root key', async () => {
    await open(flipping);
    await expect(open({ ...flipping, unwrap: async () => Buffer.alloc(31) })).rejects.toThrow(
      '31 bytes',
    );
  });
});

describe('a file is refused', () => {
  test.each([0o640, 0o604, 0o660])('when others may use it (mode %o)', async (mode) => {
    await open();
    chmodSync(path, mode);
    await expect(open()).rejects.toThrow(`mode ${mode.toString(8)}`);
  });

  const createdAt = '2026-11-20T22:51:16.000Z';
  const key = Buffer.alloc(32, 1).toString('base64');
  const entry = { epoch: 1, createdAt, key };
  const kms = { keyId: 'arn:flip', region: 'nowhere' };

  test.each<[string, unknown]>([
    ['that is empty', ''],
    ['that is cut short', JSON.stringify({ version: 1, keys: [entry] }).slice(0, -3)],
    ['that is another JSON value', 'null'],
    ['of another version', { version: 2, keys: [entry] }],
    ['without keys', { version: 1, keys: [] }],
    ['whose keys are no list', { version: 1, keys: entry }],
    ['with an epoch twice', { version: 1, keys: [entry, entry] }],
    ['with epochs out of order', { version: 1, keys: [{ ...entry, epoch: 2 }, entry] }],
    ['with epoch 0', { version: 1, keys: [{ ...entry, epoch: 0 }] }],
    ['with epoch 65,536', { version: 1, keys: [{ ...entry, epoch: 65_536 }] }],
    ['with half an epoch', { version: 1, keys: [{ ...entry, epoch: 1.5 }] }],
    ['without a time', { version: 1, keys: [{ epoch: 1, key }] }],
    ['with a short key', { version: 1, keys: [{ ...entry, key: key.slice(0, 40) }] }],
    ['with a key that is no Base64', { version: 1, keys: [{ ...entry, key: `${key}!` }] }],
    ['with a key that is no text', { version: 1, keys: [{ ...entry, key: 7 }] }],
    ['with a key and a wrapped one', { version: 1, keys: [{ ...entry, kms, wrapped: key }] }],
    ['with a wrapped key of nobody', { version: 1, keys: [{ epoch: 1, createdAt, wrapped: key }] }],
    ['with something else', { version: 1, keys: ['key'] }],
  ])('%s', async (_, content) => {
    mkdirSync(join(folder, 'keys'));
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    writeFileSync(path, text, { mode: 0o600 });
    const error = await open(flipping).then(
      () => null,
      (reason: Error) => reason,
    );
    expect(error?.message).toContain(path);
    expect(error?.message).not.toContain(key);
    expect(readFileSync(path, 'utf8')).toBe(text);
  });
});
