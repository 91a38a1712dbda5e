// The bytes of a copy whose source is in another store than its bucket, or another tenant's: read
// and verified, and written there. Invariant: memory is bounded, for one copy and for all together;
// and no copy holds chunk buffers of its reader while its writer waits for some, so copies cannot
// lock each other up: a stretch is read into memory of the copy's own while the stretch before it
// is written.
import { type ExtentRun, localStore, sliceRuns } from '../../../core/manifest.ts';
import type { ChecksumAlgorithm, ObjectSink } from '../../../tiering/object-writer.ts';
import type { ReadVersion } from '../../losses.ts';
import { ClientGone } from '../body.ts';
import { streamRuns } from '../operations/get-object.ts';
import type { Reserved } from '../stages.ts';
import { openSink, type Upload, type UploadPlace } from './object-upload.ts';

const stretchBytesMax = 2 * 1024 * 1024;

export interface Move extends UploadPlace {
  /** What has the bytes. */
  of: ReadVersion;
  runs: readonly ExtentRun[];
  /** What `runs` hold. */
  sizeBytes: number;
  checksums: readonly ChecksumAlgorithm[];
}

/**
 * Writes what `runs` hold into a sink of the request's own. Throws `Refusal` SlowDown when there is
 * no memory for it beside the other copies, or what reserving room for a body throws; `ClientGone`
 * when nobody waits for the answer any more.
 */
export async function moveData(
  context: Reserved<'object'>,
  { of, runs, ...given }: Move,
): Promise<Pick<Upload, 'sink' | 'digests'>> {
  const { services, tenant, requester, bucket } = context;
  const { sizeBytes } = given;
  const stretchBytes = Math.min(sizeBytes, stretchBytesMax);
  const who = { tenant, principal: requester };
  const memory = await services.copyMemory.hold({ ...who, bytes: 2 * stretchBytes });
  const release = services.leases.hold(runs);
  const diskBytes = bucket.store === localStore ? sizeBytes : 0;
  try {
    context.room = await services.diskRoom.open({ ...who, bytes: diskBytes });
    const sink = openSink(context, given);
    await fill(context, { of, runs, sizeBytes }, stretchBytes, sink);
    return { sink, digests: await sink.digest() };
  } finally {
    release();
    memory.close();
  }
}

/** Reads one stretch ahead of the one that is written. */
async function fill(
  context: Reserved<'object'>,
  { of, runs, sizeBytes }: Pick<Move, 'of' | 'runs' | 'sizeBytes'>,
  stretchBytes: number,
  sink: ObjectSink,
): Promise<void> {
  const { socket } = context.request.raw;
  const [even, odd] = [0, 1].map(() => Buffer.allocUnsafeSlow(stretchBytes)) as [Buffer, Buffer];
  const read = (index: number): Promise<Buffer> => {
    const from = index * stretchBytes;
    const stretch = sliceRuns(runs, from, Math.min(from + stretchBytes, sizeBytes));
    const bytes = streamRuns(context, stretch, of);
    return readStretch(bytes, index % 2 === 0 ? even : odd);
  };
  const count = Math.ceil(sizeBytes / stretchBytes);
  let stretch = await read(0);
  for (let index = 1; index <= count; index++) {
    await context.room?.arrive(stretch.length);
    // Both settle before anything else happens: neither may use its memory after a failure.
    const [ahead, written] = await Promise.allSettled([
      index < count ? read(index) : stretch,
      sink.write(stretch),
    ]);
    if (written.status === 'rejected') throw written.reason;
    if (ahead.status === 'rejected') throw ahead.reason;
    if (socket.destroyed) throw new ClientGone('the client closed the connection');
    stretch = ahead.value;
  }
}

async function readStretch(bytes: AsyncIterable<Buffer>, into: Buffer): Promise<Buffer> {
  let filled = 0;
  for await (const chunk of bytes) filled += chunk.copy(into, filled);
  return into.subarray(0, filled);
}
