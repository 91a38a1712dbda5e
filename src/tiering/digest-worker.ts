// A digest thread. On the way in it hashes chunks for the ETag (MD5), the record (SHA-256) and the
// asked checksum, seals them where they lie in the shared arena, and writes those of local extents
// to their file while they are warm, so that the main thread only copies bytes in. On the way out
// it reads, verifies and decrypts chunks, so that the main thread only hands them to the socket.
// Invariant: after an error a stream answers nothing but errors: no digest with a hole in it gets
// out.

import type { Hash } from 'node:crypto';
import { createHash, createSecretKey } from 'node:crypto';
import { readSync, writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { IntegrityError, systemCode } from '../core/errors.ts';
import { tagBytes } from '../core/limits.ts';
import { viewSlot } from './buffer-pool.ts';
import type { Checksum, ChecksumAlgorithm } from './checksums.ts';
import { createChecksum, loadChecksums } from './checksums.ts';
import type { ExtentKey } from './chunk-format.ts';
import { chunkLength, chunkPosition, openChunk, sealChunk } from './chunk-format.ts';
import type { DigestJob, DigestReply, KeyTerms } from './digest-jobs.ts';

interface Stream {
  md5: Hash;
  sha256: Hash;
  /** Those that are asked for; MD5 and SHA-256 are computed for the record anyway. */
  checksums: readonly (Checksum | 'md5' | 'sha256')[];
  error: unknown;
}

const arena = (workerData as { arena: SharedArrayBuffer }).arena;
const views: (Buffer | undefined)[] = [];
const streams = new Map<number, Stream>();

function openStream(job: Extract<DigestJob, { kind: 'open' }>): void {
  streams.set(job.stream, {
    md5: createHash('md5'),
    sha256: createHash('sha256'),
    checksums: job.checksums.map(openChecksum),
    error: undefined,
  });
}

function openChecksum(algorithm: ChecksumAlgorithm): Checksum | 'md5' | 'sha256' {
  if (algorithm === 'MD5') return 'md5';
  return algorithm === 'SHA256' ? 'sha256' : createChecksum(algorithm);
}

function openKey<T extends KeyTerms>(terms: T): Omit<T, keyof KeyTerms> & ExtentKey {
  const { id, key, cipher } = terms;
  return {
    ...terms,
    ...{ id: toBuffer(id), key: toBuffer(key) },
    cipher: cipher && createSecretKey(cipher),
  };
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function viewOf(slot: number): Buffer {
  const view = views[slot] ?? viewSlot(arena, slot);
  views[slot] = view;
  return view;
}

function digestChunk(stream: Stream, job: Extract<DigestJob, { kind: 'chunk' }>): void {
  const { slot, length, place, descriptor } = job;
  const view = viewOf(slot);
  const data = view.subarray(0, length);
  stream.md5.update(data);
  stream.sha256.update(data);
  for (const checksum of stream.checksums) {
    if (typeof checksum === 'object') checksum.update(data);
  }
  const sealed = view.subarray(0, length + tagBytes);
  sealChunk(openKey(job.extent), place, sealed);
  if (descriptor !== null) writeFully(descriptor, sealed, chunkPosition(place.index));
}

function writeFully(descriptor: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
  }
}

function finishStream(stream: Stream): DigestReply['digests'] {
  const own = { md5: stream.md5.digest(), sha256: stream.sha256.digest() };
  const checksums = stream.checksums.map((checksum) =>
    typeof checksum === 'object' ? checksum.digest() : own[checksum],
  );
  return { ...own, checksums };
}

function verify(request: Extract<DigestJob, { kind: 'verify' }>): DigestReply {
  const { job, slot, index, descriptor } = request;
  const extent = openKey(request.extent);
  try {
    let sealed = viewOf(slot).subarray(0, chunkLength(extent.extentBytes, index) + tagBytes);
    if (descriptor !== null) {
      sealed = sealed.subarray(0, readFully(descriptor, sealed, chunkPosition(index)));
    }
    openChunk(extent, index, sealed);
    return { job };
  } catch (error) {
    const isIntegrity = error instanceof IntegrityError;
    return { job, error, code: systemCode(error), isIntegrity };
  }
}

/** Fills `into`, and gives how many bytes there were. */
function readFully(descriptor: number, into: Buffer, position: number): number {
  let done = 0;
  while (done < into.length) {
    const count = readSync(descriptor, into, done, into.length - done, position + done);
    if (count === 0) break;
    done += count;
  }
  return done;
}

function answer(job: Extract<DigestJob, { stream: number; job: number }>): DigestReply {
  const stream = streams.get(job.stream);
  if (!stream) return { job: job.job, error: new Error(`no digest stream ${job.stream}`) };
  if (stream.error !== undefined) return { job: job.job, error: stream.error };
  try {
    if (job.kind === 'finish') return { job: job.job, digests: finishStream(stream) };
    digestChunk(stream, job);
    return { job: job.job };
  } catch (error) {
    stream.error = error;
    return { job: job.job, error, code: systemCode(error) };
  }
}

function perform(job: DigestJob): DigestReply | null {
  switch (job.kind) {
    case 'open':
      openStream(job);
      return null;
    case 'drop':
      streams.delete(job.stream);
      return null;
    case 'chunk':
    case 'finish':
      return answer(job);
    case 'verify':
      return verify(job);
  }
}

if (!parentPort) throw new Error('digest-worker runs as a worker thread');
const port = parentPort;
/** While the code of a checksum loads, what comes waits behind it, in its order. */
let loading: Promise<unknown> | null = null;

port.on('message', (jobs: DigestJob[]) => {
  const wanted = jobs.flatMap((job) => (job.kind === 'open' ? job.checksums : []));
  const missing = loadChecksums(wanted);
  if (!missing && !loading) {
    performAll(jobs);
    return;
  }
  const mine = Promise.all([loading, missing]).then(() => {
    if (loading === mine) loading = null;
    performAll(jobs);
  });
  loading = mine;
});

function performAll(jobs: readonly DigestJob[]): void {
  let replies: DigestReply[] = [];
  for (const job of jobs) {
    const reply = perform(job);
    if (reply) replies.push(reply);
    // At once, so that the main thread goes on while this one reads, hashes and writes; but what is
    // in memory already is verified faster than it takes to say so.
    const isQuick = job.kind === 'verify' && job.descriptor === null;
    if (isQuick || replies.length === 0) continue;
    port.postMessage(replies);
    replies = [];
  }
  if (replies.length > 0) port.postMessage(replies);
}
