// Whole extents as stores keep them: the sealed chunks, and behind them what the extent says of
// itself. For whoever copies, mends or makes one again; readers of objects go by chunks
// (remote-reading.ts). Invariant: what `readVerified` and `joinCopies` give was verified, all of
// it.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { chunkBytes, extentBytesMax, tagBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import {
  chunkCount,
  chunkLength,
  chunkPosition,
  type ExtentSeal,
  openChunk,
  sealChunk,
  sealedBytes,
} from './chunk-format.ts';
import {
  countTrailerBytes,
  openExtentMetadata,
  sealExtentMetadata,
  type WritePlace,
} from './extent-metadata.ts';
import { openSeal } from './extent-run.ts';
import type { LegStore } from './stores/store.ts';

/** All of an extent with its tags and what it says of itself. */
export const storedBytesMax = sealedBytes(extentBytesMax) + 1024 * 1024;

/** All that a store has of an extent, as it is. Throws IntegrityError where that is nothing. */
export async function readStored(store: LegStore, id: Buffer): Promise<Buffer> {
  const found = await store.readEnd(id, storedBytesMax);
  if (!found) {
    throw new IntegrityError(`extent ${id.toString('hex')} is missing`, { kind: 'missing' });
  }
  if (found.bytes.length !== found.sizeBytes) throw ofLength(id, found.sizeBytes);
  return found.bytes;
}

/** The same, verified. Throws IntegrityError. */
export async function readVerified(store: LegStore, keyring: Keyring, id: Buffer): Promise<Buffer> {
  const stored = await readStored(store, id);
  await verifyStored(keyring, id, stored);
  return stored;
}

/** Verifies what an extent says of itself, and each chunk. Throws IntegrityError. */
export async function verifyStored(keyring: Keyring, id: Buffer, stored: Buffer): Promise<void> {
  const { seal, trailer } = openEnd(keyring, id, stored);
  if (stored.length !== sealedBytes(seal.extentBytes) + trailer.length) {
    throw ofLength(id, stored.length);
  }
  for (let index = 0; index < chunkCount(seal.extentBytes); index++) {
    const failure = chunkFailure(seal, index, stored);
    if (failure) throw failure;
    await nextTurn();
  }
}

/**
 * The whole extent of copies that are damaged in different places. Throws the IntegrityError of
 * what none of them has.
 */
export async function joinCopies(
  keyring: Keyring,
  id: Buffer,
  copies: readonly Buffer[],
): Promise<Buffer> {
  const { seal, trailer } = findEnd(keyring, id, copies);
  const sealed = sealedBytes(seal.extentBytes);
  const whole = Buffer.allocUnsafe(sealed + trailer.length);
  trailer.copy(whole, sealed);
  for (let index = 0; index < chunkCount(seal.extentBytes); index++) {
    let failure: IntegrityError | null = null;
    const from = copies.find((copy) => {
      failure = chunkFailure(seal, index, copy);
      return failure === null;
    });
    if (!from) throw failure ?? ofLength(id, 0);
    const at = chunkPosition(index);
    from.copy(whole, at, at, at + chunkLength(seal.extentBytes, index) + tagBytes);
    await nextTurn();
  }
  return whole;
}

/** Throws the IntegrityError of the last where none can be told by its end. */
function findEnd(keyring: Keyring, id: Buffer, copies: readonly Buffer[]) {
  let failure: unknown = new IntegrityError(`extent ${id.toString('hex')} is missing`, {
    kind: 'missing',
  });
  for (const copy of copies) {
    try {
      return openEnd(keyring, id, copy);
    } catch (error) {
      if (!(error instanceof IntegrityError)) throw error;
      failure = error;
    }
  }
  throw failure;
}

/** What the end of a stored extent says of it. Throws IntegrityError. */
function openEnd(keyring: Keyring, id: Buffer, stored: Buffer) {
  const trailer = stored.subarray(stored.length - countTrailerBytes(stored));
  const { tenant, extentBytes, algorithm, epoch } = openExtentMetadata(keyring, id, trailer);
  const trailerBytes = trailer.length;
  const run = { id, store: 0, algorithm, epoch, extentBytes, offset: 0, length: extentBytes };
  return { seal: openSeal({ ...run, trailerBytes }, keyring, tenant), trailer };
}

/** Why a chunk is not what was written; null: it is. */
function chunkFailure(seal: ExtentSeal, index: number, stored: Buffer): IntegrityError | null {
  const at = chunkPosition(index);
  const end = at + chunkLength(seal.extentBytes, index) + tagBytes;
  // It is opened in place.
  const chunk = Buffer.from(stored.subarray(at, end));
  try {
    openChunk(seal, index, chunk);
    return null;
  } catch (error) {
    if (error instanceof IntegrityError) return error;
    throw error;
  }
}

/**
 * The stored form of an extent that was stored before and is lost, of its own bytes. Under one key
 * and nonce nothing but the same bytes may be sealed: whoever calls it knows them by a digest of
 * the object that was signed when it was written.
 */
export async function sealAgain(
  { keyring, tenant }: { keyring: Keyring; tenant: string },
  { run, plain, place }: { run: ExtentRun; plain: Buffer; place: WritePlace },
): Promise<Buffer> {
  const { id, extentBytes, algorithm, epoch, trailerBytes } = run;
  if (plain.length !== extentBytes) throw new Error(`extent of ${plain.length} bytes`);
  const seal = openSeal(run, keyring, tenant);
  const sealed = sealedBytes(extentBytes);
  const stored = Buffer.allocUnsafe(sealed + trailerBytes);
  const count = chunkCount(extentBytes);
  for (let index = 0; index < count; index++) {
    const at = chunkPosition(index);
    const length = chunkLength(extentBytes, index);
    plain.copy(stored, at, index * chunkBytes, index * chunkBytes + length);
    const chunk = stored.subarray(at, at + length + tagBytes);
    sealChunk(seal, { index, last: index === count - 1 }, chunk);
    await nextTurn();
  }
  const about = { write: id.toString('hex'), index: 0, offset: 0, extentBytes, algorithm, epoch };
  const trailer = sealExtentMetadata(keyring, id, { ...place, ...about }, trailerBytes);
  trailer.copy(stored, sealed);
  return stored;
}

function ofLength(id: Buffer, bytes: number): IntegrityError {
  return new IntegrityError(`extent ${id.toString('hex')} has ${bytes} bytes`, { kind: 'length' });
}
