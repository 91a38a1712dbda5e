// A manifest: the ordered extents that make an object's bytes, 36 bytes each, big-endian:
//   id 16 | store 1 | algorithm 1 | epoch 2 | extent length 4 | offset 4 | length 4 | trailer 4
// `extent length` is the plaintext length of the whole extent (the chunk tags depend on it);
// `offset` and `length` name the run of it that this object uses; `trailer` counts the bytes that
// the store has behind the sealed chunks. Joining manifests moves no data.

/** One run of one extent's plaintext. Lengths and offsets in bytes. */
export interface ExtentRun {
  id: Buffer;
  store: number;
  algorithm: number;
  epoch: number;
  extentBytes: number;
  offset: number;
  length: number;
  /** Behind the sealed chunks: what the extent says of itself, in a remote store. */
  trailerBytes: number;
}

/** `algorithm`: of 1 and 2 the digest that chunks are authenticated by; 3 also encrypts them. */
export const sha256Algorithm = 1;
export const blake3Algorithm = 2;
export const aesGcmAlgorithm = 3;

/** `store` of an extent whose sealed bytes are in the database row itself. */
export const inlineStore = 0;
/** `store` of an extent that is a file of the data folder. */
export const localStore = 1;
export const localStoreName = 'local';

const runBytes = 36;
const algorithmAt = 17;
const lengthAt = 28;

export function encodeManifest(runs: readonly ExtentRun[]): Buffer {
  const out = Buffer.alloc(runs.length * runBytes);
  runs.forEach((run, i) => {
    const at = i * runBytes;
    run.id.copy(out, at);
    out[at + 16] = run.store;
    out[at + 17] = run.algorithm;
    out.writeUInt16BE(run.epoch, at + 18);
    out.writeUInt32BE(run.extentBytes, at + 20);
    out.writeUInt32BE(run.offset, at + 24);
    out.writeUInt32BE(run.length, at + 28);
    out.writeUInt32BE(run.trailerBytes, at + 32);
  });
  return out;
}

/** Returns whether a column has what may be a manifest. */
export function isManifest(bytes: unknown): bytes is Uint8Array {
  return bytes instanceof Uint8Array && bytes.length % runBytes === 0;
}

/** Throws on a manifest of impossible length: the row is damaged. */
export function decodeManifest(bytes: Uint8Array): ExtentRun[] {
  const view = viewOf(bytes);
  const runs: ExtentRun[] = [];
  for (let at = 0; at < view.length; at += runBytes) runs.push(runAt(view, at));
  return runs;
}

/**
 * The runs that hold bytes `[start, end)` of the object, and how many bytes it has. Of a large
 * object the others are only counted. Throws as `decodeManifest`.
 */
export function readManifest(
  bytes: Uint8Array,
  start: number,
  end: number,
): { runs: ExtentRun[]; sizeBytes: number } {
  const view = viewOf(bytes);
  const runs: ExtentRun[] = [];
  let sizeBytes = 0;
  for (let at = 0; at < view.length; at += runBytes) {
    const length = view.readUInt32BE(at + lengthAt);
    const from = Math.max(start - sizeBytes, 0);
    const to = Math.min(end - sizeBytes, length);
    if (from < to) {
      const run = runAt(view, at);
      run.offset += from;
      run.length = to - from;
      runs.push(run);
    }
    sizeBytes += length;
  }
  return { runs, sizeBytes };
}

function viewOf(bytes: Uint8Array): Buffer {
  if (bytes.length % runBytes !== 0) throw new Error(`manifest of ${bytes.length} bytes`);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

function runAt(view: Buffer, at: number): ExtentRun {
  return {
    id: view.subarray(at, at + 16),
    store: view[at + 16] as number,
    algorithm: view[at + 17] as number,
    epoch: view.readUInt16BE(at + 18),
    extentBytes: view.readUInt32BE(at + 20),
    offset: view.readUInt32BE(at + 24),
    length: view.readUInt32BE(at + lengthAt),
    trailerBytes: view.readUInt32BE(at + 32),
  };
}

/** Whether all bytes of an object lie encrypted. Of one without bytes they do. */
export function isEncryptedManifest(manifest: Uint8Array): boolean {
  for (let at = algorithmAt; at < manifest.length; at += runBytes) {
    if (manifest[at] !== aesGcmAlgorithm) return false;
  }
  return true;
}

/** Whether any bytes of an object lie encrypted. */
export function holdsEncrypted(manifest: Uint8Array): boolean {
  for (let at = algorithmAt; at < manifest.length; at += runBytes) {
    if (manifest[at] === aesGcmAlgorithm) return true;
  }
  return false;
}

/** The runs that hold bytes `[start, end)` of the object that `runs` make. */
export function sliceRuns(runs: readonly ExtentRun[], start: number, end: number): ExtentRun[] {
  const out: ExtentRun[] = [];
  let at = 0;
  for (const run of runs) {
    const from = Math.max(start - at, 0);
    const to = Math.min(end - at, run.length);
    if (from < to) out.push({ ...run, offset: run.offset + from, length: to - from });
    at += run.length;
    if (at >= end) break;
  }
  return out;
}

/** How many runs an encoded manifest has. */
export function countRuns(manifest: Uint8Array): number {
  return manifest.length / runBytes;
}

/** Bytes that the runs hold together. */
export function countBytes(runs: readonly ExtentRun[]): number {
  let bytes = 0;
  for (const run of runs) bytes += run.length;
  return bytes;
}

/** The same bytes in fewer runs, where one goes on in its extent where the one before it ended. */
export function joinRuns(runs: readonly ExtentRun[]): ExtentRun[] {
  const joined: ExtentRun[] = [];
  for (const run of runs) {
    const last = joined.at(-1);
    if (last?.id.equals(run.id) && last.offset + last.length === run.offset) {
      last.length += run.length;
    } else joined.push({ ...run });
  }
  return joined;
}
