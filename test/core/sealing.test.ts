// Sealed secrets, their key file, and durable files.
import {
  chmodSync,
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
import { Sealer } from '#bursar/core/sealing.js';

let folder: string;
let keyFile: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-sealing-'));
  keyFile = join(folder, 'keys', 'master.key');
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

const secret = Buffer.from('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY');

describe('a sealed value', () => {
  test('opens under its own key and context', () => {
    const sealed = Sealer.open(keyFile).seal(secret, 'access-key:cms/alice/A');
    expect(sealed.includes(secret)).toBe(false);
    expect(Sealer.open(keyFile).open(sealed, 'access-key:cms/alice/A')).toEqual(secret);
  });

  test('may be empty', () => {
    const sealer = Sealer.open(keyFile);
    expect(sealer.open(sealer.seal(Buffer.alloc(0), 'c'), 'c')).toHaveLength(0);
  });

  test('does not open in another context or under another key', () => {
    const sealer = Sealer.open(keyFile);
    const sealed = sealer.seal(secret, 'access-key:cms/alice/A');
    expect(() => sealer.open(sealed, 'access-key:cms/eve/A')).toThrow('does not open');
    const other = Sealer.open(join(folder, 'other', 'master.key'));
    expect(() => other.open(sealed, 'access-key:cms/alice/A')).toThrow('does not open');
  });

  test('does not open once any of its bytes was altered, or one is missing', () => {
    const sealer = Sealer.open(keyFile);
    const sealed = sealer.seal(secret, 'c');
    for (let i = 0; i < sealed.length; i++) {
      const altered = Buffer.from(sealed);
      altered[i] = (altered[i] as number) ^ 1;
      expect(() => sealer.open(altered, 'c')).toThrow();
      expect(() => sealer.open(sealed.subarray(0, i), 'c')).toThrow();
    }
  });

  test('differs each time', () => {
    const sealer = Sealer.open(keyFile);
    expect(sealer.seal(secret, 'c')).not.toEqual(sealer.seal(secret, 'c'));
  });
});

describe('the key file', () => {
  test('is 32 bytes that only its owner reads, in a folder that only its owner enters', () => {
    Sealer.open(keyFile);
    expect(readFileSync(keyFile)).toHaveLength(32);
    expect(statSync(keyFile).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder, 'keys')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(folder, 'keys'))).toEqual(['master.key']);
  });

  test.each([0o640, 0o604, 0o660])('is refused when others may use it (mode %o)', (mode) => {
    Sealer.open(keyFile);
    chmodSync(keyFile, mode);
    expect(() => Sealer.open(keyFile)).toThrow(`mode ${mode.toString(8)}`);
  });

  test('is refused when it has another length', () => {
    mkdirSync(join(folder, 'keys'));
    writeFileSync(keyFile, Buffer.alloc(31), { mode: 0o600 });
    expect(() => Sealer.open(keyFile)).toThrow('31 bytes');
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
