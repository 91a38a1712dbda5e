// A digest thread: hashes chunks for the ETag (MD5), the record (SHA-256) and the asked checksum,
// seals them where they lie in the shared arena, and writes them to their file while they are warm, so
// that the main thread only copies bytes in.
// Invariant: after an error a stream answers nothing but errors: no digest with a hole in it gets
// out.

import type { Hash } from 'node:crypto';
import { createHash } from 'node:crypto';
import { writeSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { tagBytes } from '../core/limits.ts';
import { viewSlot } from './buffer-pool.ts';
import type { Checksum } from './checksums.ts';
import { createChecksum } from './checksums.ts';
import type { ExtentSeal } from './chunk-format.ts';
import { chunkLength, chunkPosition, sealChunk } from './chunk-format.ts';
import type { DigestJob, DigestReply, ExtentTerms } from './digest-jobs.ts';

interface Stream {
  md5: Hash;
  sha256: Hash;
  /** `sha256`: asked for, but computed anyway. */
  checksum: Checksum | 'sha256' | null;
  extent: ExtentSeal | null;
  error: unknown;
}

const arena = (workerData as { arena: SharedArrayBuffer }).arena;
const views: (Buffer | undefined)[] = [];
const streams = new Map<number, Stream>();

function openStream(job: Extract<DigestJob, { kind: 'open' }>): void {
  const { checksum } = job;
  streams.set(job.stream, {
    md5: createHash('md5'),
    sha256: createHash('sha256'),
    checksum: checksum === 'SHA256' ? 'sha256' : checksum && createChecksum(checksum),
    extent: null,
    error: undefined,
  });
}

function openSeal(terms: ExtentTerms): ExtentSeal {
  return { ...terms, id: Buffer.from(terms.id), key: Buffer.from(terms.key) };
}

function digestChunk(stream: Stream, job: Extract<DigestJob, { kind: 'chunk' }>): void {
  const { slot, index, descriptor } = job;
  const { extent, checksum } = stream;
  if (!extent) throw new Error('a chunk before its extent');
  const view = views[slot] ?? viewSlot(arena, slot);
  views[slot] = view;
  const length = chunkLength(extent.extentBytes, index);
  const data = view.subarray(0, length);
  stream.md5.update(data);
  stream.sha256.update(data);
  if (checksum && checksum !== 'sha256') checksum.update(data);
  const sealed = view.subarray(0, length + tagBytes);
  sealChunk(extent, index, sealed);
  if (descriptor !== null) writeFully(descriptor, sealed, chunkPosition(index));
}

function writeFully(descriptor: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    done += writeSync(descriptor, bytes, done, bytes.length - done, position + done);
  }
}

function finishStream(stream: Stream): DigestReply['digests'] {
  const { checksum } = stream;
  const sha256 = stream.sha256.digest();
  return {
    md5: stream.md5.digest(),
    sha256,
    checksum: checksum === 'sha256' ? sha256 : (checksum?.digest() ?? null),
  };
}

function answer(job: Extract<DigestJob, { job: number }>): DigestReply {
  const stream = streams.get(job.stream);
  if (!stream) return { job: job.job, error: new Error(`no digest stream ${job.stream}`) };
  if (stream.error !== undefined) return { job: job.job, error: stream.error };
  try {
    if (job.kind === 'finish') return { job: job.job, digests: finishStream(stream) };
    digestChunk(stream, job);
    return { job: job.job };
  } catch (error) {
    stream.error = error;
    return { job: job.job, error, code: (error as NodeJS.ErrnoException).code };
  }
}

function perform(job: DigestJob): DigestReply | null {
  switch (job.kind) {
    case 'open':
      openStream(job);
      return null;
    case 'extent': {
      const stream = streams.get(job.stream);
      if (stream) stream.extent = openSeal(job.extent);
      return null;
    }
    case 'drop':
      streams.delete(job.stream);
      return null;
    case 'chunk':
    case 'finish':
      return answer(job);
  }
}

if (!parentPort) throw new Error('digest-worker runs as a worker thread');
const port = parentPort;
port.on('message', (jobs: DigestJob[]) => {
  for (const job of jobs) {
    const reply = perform(job);
    // One by one and at once: each lets a store write begin while the next chunk is hashed.
    if (reply) port.postMessage(reply);
  }
});
