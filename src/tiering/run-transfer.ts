// The bytes of runs on their way into a sink of another store. Invariant: no transfer holds chunk
// buffers of its reader while its writer waits for some, so transfers cannot lock each other up: a
// stretch is read into memory of the transfer's own while the stretch before it is written.
import { type ExtentRun, sliceRuns } from '../core/manifest.ts';
import type { ObjectSink } from './object-sink.ts';

export const stretchBytesMax = 2 * 1024 * 1024;

export interface RunTransfer {
  runs: readonly ExtentRun[];
  /** What `runs` hold. */
  sizeBytes: number;
  sink: Pick<ObjectSink, 'write'>;
  /** Verified bytes of some of the runs. */
  read(runs: readonly ExtentRun[]): AsyncIterable<Buffer>;
  /** Called before each stretch is written, and throws where nobody wants it any more. */
  before?(sizeBytes: number): Promise<unknown> | undefined;
}

/** Reads one stretch ahead of the one that is written. */
export async function transferRuns(transfer: RunTransfer): Promise<void> {
  const { runs, sizeBytes, sink, before } = transfer;
  const stretchBytes = Math.min(sizeBytes, stretchBytesMax);
  const [even, odd] = [0, 1].map(() => Buffer.allocUnsafeSlow(stretchBytes)) as [Buffer, Buffer];
  const read = (index: number): Promise<Buffer> => {
    const from = index * stretchBytes;
    const stretch = sliceRuns(runs, from, Math.min(from + stretchBytes, sizeBytes));
    return readStretch(transfer.read(stretch), index % 2 === 0 ? even : odd);
  };
  const count = Math.ceil(sizeBytes / stretchBytes);
  let stretch = await read(0);
  for (let index = 1; index <= count; index++) {
    await before?.(stretch.length);
    // Both settle before anything else happens: neither may use its memory after a failure.
    const [ahead, written] = await Promise.allSettled([
      index < count ? read(index) : stretch,
      sink.write(stretch),
    ]);
    if (written.status === 'rejected') throw written.reason;
    if (ahead.status === 'rejected') throw ahead.reason;
    stretch = ahead.value;
  }
}

async function readStretch(bytes: AsyncIterable<Buffer>, into: Buffer): Promise<Buffer> {
  let filled = 0;
  for await (const chunk of bytes) filled += chunk.copy(into, filled);
  return into.subarray(0, filled);
}
