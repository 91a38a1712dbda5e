// The file of the private keys that sign the log (docs/admin/keys.md). Invariants: only its owner
// can read it; a crash leaves it as it was before a change or after it, whole; a key signs only
// once it is durable here and the database names it, which alone says what each key may still do.

import { generateKeyPairSync } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { isSigning, listLogKeys } from '../audit/log/log-keys.ts';
import { ed25519, noteKey, rawPublicKey } from '../audit/log/note.ts';
import { readInstance } from '../catalog/stores.ts';
import { nowMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import { writeFileDurably } from '../core/durable-file.ts';
import { readKeyFile } from '../core/root-keys.ts';
import { type LogKey, signerOf } from './log-signing.ts';

interface Entry extends LogKey {
  /** As the log's signatures have it. */
  id: string;
}

export interface LogKeyFileOptions {
  path: string;
  read: Reader;
  /** Of a log that is begun; undefined: it is named after the gateway's instance. */
  origin?: string | undefined;
}

export class LogKeyFile {
  readonly #path: string;
  readonly #read: Reader;
  #entries: Entry[];

  private constructor({ path, read }: LogKeyFileOptions, entries: Entry[]) {
    this.#path = path;
    this.#read = read;
    this.#entries = entries;
  }

  /**
   * Reads the file, or makes it with a random key where no log was ever signed: keys that are left
   * of another log never sign this one. Throws when it is damaged, open to others, or not of this
   * log.
   */
  static async open(options: LogKeyFileOptions): Promise<LogKeyFile> {
    const { path, read, origin } = options;
    const rows = await listLogKeys(read);
    if (rows.length === 0) {
      const file = new LogKeyFile(options, []);
      file.#write([makeEntry(origin ?? `bursar/${await readInstance(read)}`)]);
      return file;
    }
    if (!existsSync(path)) {
      throw new Error(`${path} is missing, and without it the log cannot be signed`);
    }
    const entries = readEntries(path);
    // Those that are to retire do not count: with them alone the log would be signed no more one
    // day.
    const newest = rows.find((row) => row.retiredMs === null && row.revokedMs === null);
    if (!entries.some(({ id }) => id === newest?.key.id)) {
      throw new Error(`key file ${path} lacks key ${newest?.key.id}, which signs this log`);
    }
    const name = newest?.key.name;
    if (origin !== undefined && origin !== name) {
      throw new Error(`the log's origin is ${name}, which cannot become ${origin}`);
    }
    return new LogKeyFile(options, entries);
  }

  /** For a log that begins anew, whose keys are lost: the file is made by the first `add`. */
  static lost(options: LogKeyFileOptions): LogKeyFile {
    return new LogKeyFile(options, []);
  }

  get keys(): readonly LogKey[] {
    return this.#entries;
  }

  /**
   * Adds a random key, durable when this resolves; the ledger must be told to use it. Keys that
   * sign no more are removed.
   */
  async add(origin: string): Promise<LogKey> {
    const rows = await listLogKeys(this.#read);
    let entry = makeEntry(origin);
    while (rows.some(({ key }) => key.id === entry.id)) entry = makeEntry(origin);
    const ended = rows.filter((row) => !isSigning(row, nowMs())).map(({ key }) => key.id);
    this.#write([...this.#entries.filter(({ id }) => !ended.includes(id)), entry]);
    return entry;
  }

  /** Removes a key that the database has as revoked. */
  remove(id: string): void {
    this.#write(this.#entries.filter((entry) => entry.id !== id));
  }

  #write(entries: Entry[]): void {
    const keys = entries.map(({ id, name: origin, privateKey }) => ({ id, origin, privateKey }));
    const text = `${JSON.stringify({ version: 1, keys }, null, 2)}\n`;
    writeFileDurably(this.#path, text, { mode: 0o600, ifExists: 'replace' });
    this.#entries = entries;
  }
}

function makeEntry(name: string): Entry {
  const pair = generateKeyPairSync('ed25519');
  const { id } = noteKey(name, rawPublicKey(pair.publicKey), ed25519);
  const privateKey = pair.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  return { id, name, privateKey };
}

function readEntries(path: string): Entry[] {
  if ((statSync(path).mode & 0o077) !== 0) {
    throw new Error(`key file ${path} is open to others: chmod 600 it`);
  }
  const { version, keys } = readKeyFile(path);
  if (version !== 1) throw new Error(`key file ${path} is of version ${String(version)}`);
  if (!Array.isArray(keys)) throw new Error(`key file ${path} has no keys`);
  return keys.map((key) => readEntry(key, path));
}

/** The id is of the key and of its origin: neither can be another by mistake. */
function readEntry(value: unknown, path: string): Entry {
  const { id, origin: name, privateKey } = Object(value) as Record<string, unknown>;
  try {
    if (typeof name === 'string' && typeof privateKey === 'string') {
      if (signerOf({ name, privateKey }).key.id === id) return { id, name, privateKey };
    }
  } catch (cause) {
    throw new Error(`key file ${path} has a key that cannot be read`, { cause });
  }
  throw new Error(`key file ${path} has a key that is not what its id says`);
}
