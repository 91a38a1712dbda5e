// Reads objects back (DESIGN sections 4 and 7). Invariant: a byte is given out only after the tag
// of its whole chunk was found right.
import { IntegrityError } from '../core/errors.ts';
import type { DataKey, Keyring } from '../core/keyring.ts';
import type { ExtentRun } from '../core/manifest.ts';
import type { BufferPool } from './buffer-pool.ts';
import { sealedBytes, verifyChunk } from './chunk-format.ts';
import { ChunkStream } from './chunk-stream.ts';
import type { DigestPool } from './digest-pool.ts';
import { isInlineRun, openSeal } from './extent-run.ts';
import type { LocalStore } from './stores/local-store.ts';

export interface ReadOptions {
  tenant: string;
  /** Sliced to the asked range (core/manifest `sliceRuns`). */
  runs: readonly ExtentRun[];
  /** The sealed bytes of an inline extent. */
  inlineBody: (id: Buffer) => Promise<Uint8Array>;
  /** Called when others wait for a buffer that the caller has kept for long: end the read. */
  recall?: () => void;
}

export interface ObjectReaderOptions {
  keyring: Keyring;
  store: LocalStore;
  digests: DigestPool;
  buffers: BufferPool;
}

export class ObjectReader {
  readonly #options: ObjectReaderOptions;

  constructor(options: ObjectReaderOptions) {
    this.#options = options;
  }

  /**
   * Verified plaintext in order, a chunk or less at a time; the next ones are read ahead meanwhile.
   * A buffer is the caller's until the next call of `next`. Throws IntegrityError, before any byte
   * of the chunk, when something stored is not what was written. `return` gives all buffers and
   * files back.
   */
  async *read(options: ReadOptions): AsyncGenerator<Buffer, void, void> {
    const stream = new ChunkStream({
      ...options,
      ...this.#options,
      openInline: async (run) =>
        this.openInline(options.tenant, run, await options.inlineBody(run.id)),
    });
    try {
      for (let data = await stream.next(); data; data = await stream.next()) yield data;
    } finally {
      await stream.close();
    }
  }

  /**
   * The run's part of one small inline extent: a verified view of `body`. Throws IntegrityError.
   */
  openInline(tenant: string, run: ExtentRun, body: Uint8Array): Buffer {
    return verifyInline(this.#options.keyring.tenantKey(tenant, run.epoch), run, body);
  }
}

function verifyInline(dataKey: DataKey, run: ExtentRun, body: Uint8Array): Buffer {
  const seal = openSeal(run, dataKey);
  if (!isInlineRun(run) || body.length !== sealedBytes(run.extentBytes)) {
    throw new IntegrityError(`inline extent ${run.id.toString('hex')} of ${body.length} bytes`);
  }
  const sealed = Buffer.from(body.buffer, body.byteOffset, body.length);
  return verifyChunk(seal, 0, sealed).subarray(run.offset, run.offset + run.length);
}
