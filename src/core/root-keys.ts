// The file of root keys, from which all keys of the gateway are derived (core/keyring.ts), one for
// each epoch, docs/admin/keys.md. Invariants: only its owner can read it; epochs ascend, and none
// is ever removed; a crash at any point leaves the file as it was before a change or after it,
// whole; and a key is used only once it is durable here.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { isoTime, nowMs } from './clock.ts';
import { makeFolderDurably, writeFileDurably } from './durable-file.ts';
import { Refusal } from './errors.ts';
import { epochMax, type RootKey, rootKeyBytes } from './keyring.ts';

/** A root key as a service gives it to be kept. */
export interface WrappedKey {
  /** The name of the KMS key by which it is wrapped. */
  keyId: string;
  region: string;
  wrapped: Buffer;
}

/** A service whose key protects root keys at rest. Both reject with what the service says. */
export interface KeyWrapping {
  wrap(key: Uint8Array, epoch: number): Promise<WrappedKey>;
  unwrap(key: WrappedKey, epoch: number): Promise<Buffer>;
}

/** The part of a root key that may be shown. */
export interface RootKeyInfo {
  epoch: number;
  /** RFC 3339. */
  createdAt: string;
  /** ARN of the KMS key that it is wrapped by; null: it is in the file as it is. */
  wrappedBy: string | null;
}

type Entry = { epoch: number; createdAt: string } & (
  | { key: string }
  | { kms: { keyId: string; region: string }; wrapped: string }
);

/** A key that KMS wrapped is not quite 200 bytes. */
const wrappedBytesMax = 6144;

export class RootKeyFile {
  readonly #path: string;
  readonly #wrapping: KeyWrapping | null;
  #entries: Entry[];
  #keys: RootKey[] = [];
  /** The rotation that was asked for last. */
  #rotation: Promise<unknown> = Promise.resolve();
  #onAdded: (key: RootKey) => void = () => {};

  private constructor(path: string, wrapping: KeyWrapping | null, entries: Entry[]) {
    this.#path = path;
    this.#wrapping = wrapping;
    this.#entries = entries;
  }

  /**
   * Reads the file, or makes it with a random key of epoch 1 when there is none. Throws when it is
   * damaged, when others than its owner may use it, or when a key cannot be unwrapped.
   */
  static async open(path: string, wrapping: KeyWrapping | null): Promise<RootKeyFile> {
    if (!existsSync(path)) {
      makeFolderDurably(dirname(path));
      const { entry } = await makeKey(1, wrapping);
      writeEntries(path, [entry], 'keep');
    }
    const file = new RootKeyFile(path, wrapping, readEntries(path));
    for (const entry of file.#entries) file.#keys.push(await openKey(entry, wrapping, path));
    return file;
  }

  /** The keys in the order of their epochs. */
  get keys(): readonly RootKey[] {
    return this.#keys;
  }

  /** Told of each key that is added, before anybody uses it. */
  onAdded(told: (key: RootKey) => void): void {
    this.#onAdded = told;
  }

  /** The same, without the keys themselves. */
  describe(): RootKeyInfo[] {
    return this.#entries.map((entry) => ({
      epoch: entry.epoch,
      createdAt: entry.createdAt,
      wrappedBy: 'kms' in entry ? entry.kms.keyId : null,
    }));
  }

  /**
   * Adds a random key of the next epoch, durable once this resolves. Rotations queue up. Refusal
   * ServiceUnavailable when it cannot be wrapped so that it can be unwrapped again.
   */
  rotate(): Promise<RootKey> {
    const rotation = this.#rotation.then(() => this.#rotate());
    this.#rotation = rotation.catch(() => null);
    return rotation;
  }

  async #rotate(): Promise<RootKey> {
    const epoch = (this.#entries.at(-1) as Entry).epoch + 1;
    if (epoch > epochMax) throw new Error(`there can be no epoch ${epoch}`);
    const { key, entry } = await makeKey(epoch, this.#wrapping);
    const entries = [...this.#entries, entry];
    writeEntries(this.#path, entries, 'replace');
    this.#entries = entries;
    this.#keys = [...this.#keys, key];
    this.#onAdded(key);
    return key;
  }
}

async function makeKey(
  epoch: number,
  wrapping: KeyWrapping | null,
): Promise<{ key: RootKey; entry: Entry }> {
  const key = randomBytes(rootKeyBytes);
  const made = { epoch, createdAt: isoTime(nowMs()) };
  if (!wrapping) {
    const entry = { ...made, key: key.toString('base64') };
    return { key: { epoch, key, wrappedBy: null }, entry };
  }
  const { keyId, region, wrapped } = await wrapUsably(wrapping, key, epoch).catch(refuseWrapping);
  const entry = { ...made, kms: { keyId, region }, wrapped: wrapped.toString('base64') };
  // The next start would refuse the file.
  if (!isEntry(entry)) refuseWrapping(new Error('what it gave is no wrapped key'));
  return { key: { epoch, key, wrappedBy: keyId }, entry };
}

/**
 * Wraps a key and has it unwrapped: nothing must be made under one that does not come back, for
 * want of a right to do so or because the service gave something else.
 */
async function wrapUsably(
  wrapping: KeyWrapping,
  key: Uint8Array,
  epoch: number,
): Promise<WrappedKey> {
  const made = await wrapping.wrap(key, epoch);
  const opened = await wrapping.unwrap(made, epoch);
  if (opened.equals(key)) return made;
  throw new Error('it does not give back what it was given');
}

function refuseWrapping(cause: Error): never {
  const message = `KMS does not wrap a new root key: ${cause.message}`;
  throw new Refusal('ServiceUnavailable', { message, cause });
}

async function openKey(entry: Entry, wrapping: KeyWrapping | null, path: string): Promise<RootKey> {
  const { epoch } = entry;
  const named = `the root key of epoch ${epoch} in ${path}`;
  let key: Buffer;
  if ('key' in entry) key = Buffer.from(entry.key, 'base64');
  else if (!wrapping) throw new Error(`${named} is wrapped by KMS, and no KMS key is configured`);
  else {
    const { kms, wrapped } = entry;
    try {
      key = await wrapping.unwrap({ ...kms, wrapped: Buffer.from(wrapped, 'base64') }, epoch);
    } catch (cause) {
      throw new Error(`${named} cannot be unwrapped: ${(cause as Error).message}`, { cause });
    }
  }
  const wrappedBy = 'kms' in entry ? entry.kms.keyId : null;
  if (key.length === rootKeyBytes) return { epoch, key, wrappedBy };
  throw new Error(`${named} has ${key.length} bytes instead of ${rootKeyBytes}`);
}

function writeEntries(path: string, keys: Entry[], ifExists: 'keep' | 'replace'): void {
  const text = `${JSON.stringify({ version: 1, keys }, null, 2)}\n`;
  writeFileDurably(path, text, { mode: 0o600, ifExists });
}

function readEntries(path: string): Entry[] {
  const mode = statSync(path).mode & 0o777;
  if ((mode & 0o077) !== 0) {
    const shown = mode.toString(8).padStart(3, '0');
    throw new Error(`key file ${path} is open to others (mode ${shown}): chmod 600 it`);
  }
  const { version, keys } = readKeyFile(path);
  if (version !== 1) throw new Error(`key file ${path} is of version ${String(version)}`);
  if (!Array.isArray(keys) || keys.length === 0) throw new Error(`key file ${path} has no key`);
  let before = 0;
  let isWrapped = false;
  for (const entry of keys) {
    if (!isEntry(entry)) throw new Error(`key file ${path} is damaged behind epoch ${before}`);
    if (entry.epoch <= before) throw new Error(`key file ${path} has its epochs out of order`);
    before = entry.epoch;
    // Somebody who can write the file but cannot use KMS must not choose the key of what is written
    // next.
    if (isWrapped && 'key' in entry) {
      throw new Error(`key file ${path} has a key of epoch ${before} that KMS did not wrap`);
    }
    isWrapped = 'kms' in entry;
  }
  return keys;
}

/** The JSON object of a file with keys. Throws `Error`, which quotes nothing of it. */
export function readKeyFile(path: string): { version?: unknown; keys?: unknown } {
  try {
    const parsed: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof parsed === 'object' && parsed !== null) return parsed;
  } catch (cause) {
    // The parser's own message would quote the file.
    throw new Error(`key file ${path} is not JSON`, { cause });
  }
  throw new Error(`key file ${path} is not a JSON object`);
}

function isEntry(value: unknown): value is Entry {
  if (typeof value !== 'object' || value === null) return false;
  const { epoch, createdAt, key, kms, wrapped } = value as Record<string, unknown>;
  if (!Number.isInteger(epoch) || (epoch as number) > epochMax) return false;
  if (typeof createdAt !== 'string' || Number.isNaN(Date.parse(createdAt))) return false;
  if (key !== undefined) return isBase64(key) && kms === undefined && wrapped === undefined;
  if (!isBase64(wrapped) || typeof kms !== 'object' || kms === null) return false;
  const { keyId, region } = kms as Record<string, unknown>;
  return typeof keyId === 'string' && typeof region === 'string';
}

/** Exactly as we write it: nothing that a decoder would pass over. */
function isBase64(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > wrappedBytesMax * 2) return false;
  return Buffer.from(value, 'base64').toString('base64') === value;
}
