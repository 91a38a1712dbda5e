// Sealed secrets, and durable files.
import {
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
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { makeFolderDurably, writeFileDurably } from '#bursar/core/durable-file.js';
import { Keyring } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-sealing-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const rootKey = (epoch: number, fill = epoch) => ({ epoch, key: Buffer.alloc(32, fill) });
const makeSealer = () => new Sealer(new Keyring([rootKey(1)]));

const secret = Buffer.from('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY');

describe('a sealed value', () => {
  test('opens under its own key and context', () => {
    const sealed = makeSealer().seal(secret, 'access-key:cms/alice/A');
    expect(sealed.includes(secret)).toBe(false);
    expect(makeSealer().open(sealed, 'access-key:cms/alice/A')).toEqual(secret);
  });

  test('may be empty', () => {
    const sealer = makeSealer();
    expect(sealer.open(sealer.seal(Buffer.alloc(0), 'c'), 'c')).toHaveLength(0);
  });

  test('does not open in another context or under another key', () => {
    const sealer = makeSealer();
    const sealed = sealer.seal(secret, 'access-key:cms/alice/A');
    expect(() => sealer.open(sealed, 'access-key:cms/eve/A')).toThrow('does not open');
    const other = new Sealer(new Keyring([rootKey(1, 9)]));
    expect(() => other.open(sealed, 'access-key:cms/alice/A')).toThrow('does not open');
  });

  test('does not open once any of its bytes was altered, or one is missing', () => {
    const sealer = makeSealer();
    const sealed = sealer.seal(secret, 'c');
    for (let i = 0; i < sealed.length; i++) {
      const altered = Buffer.from(sealed);
      altered[i] = (altered[i] as number) ^ 1;
      expect(() => sealer.open(altered, 'c')).toThrow();
      expect(() => sealer.open(sealed.subarray(0, i), 'c')).toThrow();
    }
  });

  test('is of the newest epoch, opens after later ones, and not under another of them', () => {
    const keyring = new Keyring([rootKey(1)]);
    const sealer = new Sealer(keyring);
    const first = sealer.seal(secret, 'c');
    keyring.learn(rootKey(2));
    keyring.begin(2);
    const second = sealer.seal(secret, 'c');
    expect([first[2], second[2]]).toEqual([1, 2]);
    expect(sealer.open(first, 'c')).toEqual(secret);
    expect(sealer.open(second, 'c')).toEqual(secret);
    expect(() => makeSealer().open(second, 'c')).toThrow('does not open');
  });

  test('differs each time', () => {
    const sealer = makeSealer();
    expect(sealer.seal(secret, 'c')).not.toEqual(sealer.seal(secret, 'c'));
  });
});

describe('a durable file', () => {
  const path = () => join(folder, 'file');

  test('replaces an old one and its mode, and leaves nothing else behind', () => {
    writeFileSync(path(), 'old', { mode: 0o644 });
    writeFileDurably(path(), 'new', { mode: 0o600, ifExists: 'replace' });
    expect(readFileSync(path(), 'utf8')).toBe('new');
    expect(statSync(path()).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(['file']);
  });

  test('keeps the first one when asked to', () => {
    writeFileDurably(path(), 'first', { mode: 0o600, ifExists: 'keep' });
    writeFileDurably(path(), 'second', { mode: 0o600, ifExists: 'keep' });
    expect(readFileSync(path(), 'utf8')).toBe('first');
    expect(readdirSync(folder)).toEqual(['file']);
  });

  test('that cannot take its name leaves nothing behind', () => {
    mkdirSync(path());
    expect(() => writeFileDurably(path(), 'x', { mode: 0o600, ifExists: 'replace' })).toThrow();
    expect(readdirSync(folder)).toEqual(['file']);
  });

  test('has its folders made for its owner alone', () => {
    const deep = join(folder, 'a', 'b', 'c');
    makeFolderDurably(deep);
    makeFolderDurably(deep);
    expect(statSync(deep).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, 'a')).mode & 0o777).toBe(0o700);
  });
});
