// The bytes of a copy whose source is in another store than its bucket, or another tenant's: read
// and verified, and written there. Invariant: memory is bounded, for one copy and for all together.
import { type Transform, transformed } from '../../../core/customer-key.ts';
import { type ExtentRun, localStore } from '../../../core/manifest.ts';
import { loadChecksums } from '../../../tiering/checksums.ts';
import type { ChecksumAlgorithm } from '../../../tiering/object-writer.ts';
import { stretchBytesMax, transferRuns } from '../../../tiering/run-transfer.ts';
import type { ReadVersion } from '../../losses.ts';
import { ClientGone } from '../body.ts';
import { streamRuns } from '../operations/get-object.ts';
import type { Reserved } from '../stages.ts';
import { openSink, type Upload, type UploadPlace } from './object-upload.ts';

export interface Move extends UploadPlace {
  /** What has the bytes. */
  of: ReadVersion;
  runs: readonly ExtentRun[];
  /** What `runs` hold. */
  sizeBytes: number;
  checksums: readonly ChecksumAlgorithm[];
  /** Decrypts what a customer's key has encrypted, in order. */
  decrypt?: Transform;
}

/**
 * Writes what `runs` hold into a sink of the request's own. Throws `Refusal` SlowDown when there is
 * no memory for it beside the other copies, or what reserving room for a body throws; `ClientGone`
 * when nobody waits for the answer any more.
 */
export async function moveData(
  context: Reserved<'object'>,
  { of, runs, decrypt, ...given }: Move,
): Promise<Pick<Upload, 'sink' | 'digests'>> {
  const { services, tenant, requester, bucket } = context;
  const { sizeBytes } = given;
  const stretchBytes = Math.min(sizeBytes, stretchBytesMax);
  const who = { tenant, principal: requester };
  const memory = await services.copyMemory.hold({ ...who, bytes: 2 * stretchBytes });
  const release = services.leases.hold(runs);
  const diskBytes = bucket.store === localStore ? sizeBytes : 0;
  const { socket } = context.request.raw;
  try {
    context.room = await services.diskRoom.open({ ...who, bytes: diskBytes });
    if (given.customer) await loadChecksums(given.checksums);
    const sink = openSink(context, given);
    await transferRuns({
      ...{ runs, sizeBytes, sink },
      read: (stretch) => {
        const bytes = streamRuns(context, stretch, of);
        return decrypt ? transformed(bytes, decrypt) : bytes;
      },
      before: async (bytes) => {
        if (socket.destroyed) throw new ClientGone('the client closed the connection');
        await context.room?.arrive(bytes);
      },
    });
    return { sink, digests: await sink.digest() };
  } finally {
    release();
    memory.close();
  }
}
