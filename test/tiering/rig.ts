// Real parts for the tests of this room: a store in a folder of its own, keys, buffers, threads.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { newExtentId } from '#bursar/core/ids.js';
import { Keyring } from '#bursar/core/keyring.js';
import { type ExtentRun, sliceRuns } from '#bursar/core/manifest.js';
import { BufferPool } from '#bursar/tiering/buffer-pool.js';
import { DigestPool } from '#bursar/tiering/digest-pool.js';
import { ObjectReader } from '#bursar/tiering/object-reader.js';
import {
  type ChecksumAlgorithm,
  type Digests,
  type ObjectDescription,
  type ObjectSink,
  ObjectWriter,
  type WrittenObject,
} from '#bursar/tiering/object-writer.js';
import { LocalStore } from '#bursar/tiering/stores/local-store.js';
import type { RemoteStore } from '#bursar/tiering/stores/store.js';
import { Stores } from '#bursar/tiering/stores/stores.js';

export const KiB = 1024;
export const MiB = 1024 * KiB;
/** Chunk and extent, bytes. */
export const C = 256 * KiB;
export const E = 16 * MiB;

export function makeFolder(): string {
  return mkdtempSync(path.join(tmpdir(), 'bursar-tiering-'));
}

/** Bytes that differ from chunk to chunk, the same in each run. */
export function makeBytes(sizeBytes: number, seed = 1): Buffer {
  const words = new Int32Array(Math.ceil(sizeBytes / 4));
  let state = seed >>> 0 || 1;
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return Buffer.from(words.buffer, 0, sizeBytes);
}

/** Numbers in [0, 1), the same in each run. */
export function makeRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Root keys of the epochs from 1: each number hashed. */
export function makeKeyring(epochs = 1): Keyring {
  const numbers = Array.from({ length: epochs }, (_, i) => i + 1);
  return new Keyring(
    numbers.map((epoch) => ({ epoch, key: createHash('sha256').update(`${epoch}`).digest() })),
  );
}

export interface RigOptions {
  bytesMax?: number;
  waitMsMax?: number;
  threads?: number;
  epochs?: number;
  loanMsMin?: number;
  remotes?: RemoteStore[];
}

export async function makeRig(options: RigOptions = {}) {
  const dir = makeFolder();
  const buffers = new BufferPool(options);
  const digests = new DigestPool({ buffers, threads: options.threads ?? 2 });
  const store = await LocalStore.open(dir);
  const keyring = makeKeyring(options.epochs);
  const stores = new Stores(store, options.remotes);
  const writer = new ObjectWriter({ keyring, stores, digests, buffers });
  const reader = new ObjectReader({ keyring, stores, digests, buffers });
  const parts = { dir, buffers, digests, store, keyring, writer, reader };
  return {
    ...parts,
    put: (body: Buffer, more: PutOptions = {}) => put(parts, body, more),
    get: (object: WrittenObject, more: GetOptions = {}) => get(parts, object, more),
    fileOf: (run: ExtentRun) => fileOf(dir, run.id),
    close: async () => {
      await digests.close();
      rmSync(dir, { recursive: true });
    },
  };
}

export type Rig = Awaited<ReturnType<typeof makeRig>>;

interface Parts {
  writer: ObjectWriter;
  reader: ObjectReader;
}

export interface PutOptions {
  checksums?: readonly ChecksumAlgorithm[];
  tenant?: string;
  /** Number; default 1, the local one. */
  store?: number;
  /** Size of the pushes, bytes; a function for uneven ones. */
  push?: number | (() => number);
}

async function put(parts: Parts, body: Buffer, options: PutOptions): Promise<WrittenObject> {
  const sink = parts.writer.begin({
    ...placeOf(options.tenant, options.store),
    sizeBytes: body.length,
    checksums: options.checksums ?? [],
  });
  await pushAll(sink, body, options.push ?? 64 * KiB);
  return finish(sink);
}

/** Where a test writes, and under which ids. */
export function placeOf(tenant = 'cms', store = 1) {
  return {
    store,
    place: { tenant, bucket: 'data', bucketId: 1, key: 'key' },
    takeId: (): Buffer | Promise<Buffer> => newExtentId(),
  };
}

export function describeObject({ md5 }: Digests): ObjectDescription {
  return { etag: md5.toString('hex'), class: 'STANDARD', owner: 'alice', attributes: '{}' };
}

/** Seals what was pushed as an object. */
export async function finish(sink: ObjectSink): Promise<WrittenObject> {
  const digests = await sink.digest();
  return sink.seal(digests, describeObject(digests));
}

export async function pushAll(
  sink: { write(bytes: Buffer): Promise<void> | null },
  body: Buffer,
  push: number | (() => number),
): Promise<void> {
  for (let at = 0; at < body.length; ) {
    const end = Math.min(body.length, at + (typeof push === 'number' ? push : push()));
    await sink.write(body.subarray(at, end));
    at = end;
  }
}

export interface GetOptions {
  tenant?: string;
  start?: number;
  end?: number;
  /** Gets each piece as it comes. */
  see?: (data: Buffer) => void;
}

/** Reads `[start, end)` of an object; the copy of all that came. */
async function get(parts: Parts, object: WrittenObject, options: GetOptions): Promise<Buffer> {
  const pieces: Buffer[] = [];
  const chunks = parts.reader.read({
    tenant: options.tenant ?? 'cms',
    runs: sliceRuns(object.runs, options.start ?? 0, options.end ?? object.sizeBytes),
    inlineBody: async () => object.inline?.body ?? Buffer.alloc(0),
  });
  for await (const data of chunks) {
    options.see?.(Buffer.from(data));
    pieces.push(Buffer.from(data));
  }
  return Buffer.concat(pieces);
}

export function fileOf(dir: string, id: Buffer): string {
  const name = id.toString('hex');
  return path.join(dir, name.slice(28, 30), name.slice(30), name);
}

/** All files in the folder, finished or not. */
export function listFiles(dir: string): string[] {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);
}

/** Files of the folder that this process has open; only Linux tells, so elsewhere none. */
export function listOpenFiles(dir: string): string[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const name = readlinkSync(`/proc/self/fd/${fd}`);
      return name.startsWith(dir) ? [name] : [];
    } catch {
      return [];
    }
  });
}
