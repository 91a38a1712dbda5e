// The file of root keys, from which all keys of the gateway are derived (core/keyring.ts):
//   {"version":1,"keys":[{"epoch":1,"createdAt":"2026-…Z","key":"base64 of 32 bytes"}]}
// Invariants: only its owner can read it; epochs ascend and are never removed; and a crash at any
// point leaves the file as it was before a rotation or after it, whole.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { isoTime } from './clock.ts';
import { makeFolderDurably, writeFileDurably } from './durable-file.ts';
import { epochMax, type RootKey, rootKeyBytes } from './keyring.ts';

interface Entry {
  epoch: number;
  createdAt: string;
  key: string;
}

/** Reads the file, or makes it with a random key of epoch 1 when there is none. */
export function openRootKeys(path: string): RootKey[] {
  if (!existsSync(path)) {
    makeFolderDurably(dirname(path));
    write(path, [newEntry(1)], 'keep');
  }
  return readEntries(path).map(({ epoch, key }) => ({ epoch, key: Buffer.from(key, 'base64') }));
}

function newEntry(epoch: number): Entry {
  const key = randomBytes(rootKeyBytes).toString('base64');
  return { epoch, createdAt: isoTime(Date.now()), key };
}

function write(path: string, keys: Entry[], ifExists: 'keep' | 'replace'): void {
  const text = `${JSON.stringify({ version: 1, keys }, null, 2)}\n`;
  writeFileDurably(path, text, { mode: 0o600, ifExists });
}

function readEntries(path: string): Entry[] {
  const mode = statSync(path).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    const shown = mode.toString(8).padStart(3, '0');
    throw new Error(`key file ${path} is open to others (mode ${shown}): chmod 600 it`);
  }
  const file = JSON.parse(readFileSync(path, 'utf8')) as { version: number; keys: Entry[] };
  if (file.version !== 1) throw new Error(`key file ${path} is of version ${file.version}`);
  let before = 0;
  for (const { epoch, key } of file.keys) {
    if (!Number.isInteger(epoch) || epoch <= before || epoch > epochMax) {
      throw new Error(`key file ${path} has a key of epoch ${epoch} after ${before}`);
    }
    if (Buffer.from(key, 'base64').length !== rootKeyBytes) {
      throw new Error(`key ${epoch} of key file ${path} is not ${rootKeyBytes} bytes long`);
    }
    before = epoch;
  }
  if (before === 0) throw new Error(`key file ${path} has no key`);
  return file.keys;
}
