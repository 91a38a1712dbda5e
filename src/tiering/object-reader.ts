// Reads objects back. Invariant: a byte is given out only after the tag of its whole chunk was
// found right.
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { chunkBytes, inlineBytesMax } from '../core/limits.ts';
import { type ExtentRun, inlineStore, localStore } from '../core/manifest.ts';
import type { BufferPool, Party } from './buffer-pool.ts';
import { openChunk, sealedBytes } from './chunk-format.ts';
import { ChunkStream } from './chunk-stream.ts';
import { CopySpeeds } from './copy-speeds.ts';
import type { DigestPool } from './digest-pool.ts';
import {
  type ExtentCopies,
  mayHaveCopies,
  noCopies,
  noteExtent,
  readElsewhere,
} from './extent-copies.ts';
import { openSeal } from './extent-run.ts';
import { openFastest } from './fastest-reading.ts';
import type { ArchiveCalls, ArchivedExtent } from './stores/store.ts';
import { noteDamage } from './stores/store-meter.ts';
import type { StoreTally, TallySource } from './stores/store-tally.ts';
import type { Stores } from './stores/stores.ts';

export interface ReadOptions {
  tenant: string;
  /** The runs of the requested range (core/manifest `readManifest`). */
  runs: readonly ExtentRun[];
  /** The sealed bytes of an inline extent. */
  inlineBody: (id: Buffer) => Promise<Uint8Array>;
  /** The party whose share of the memory it takes; by default the gateway's own. */
  party?: Party;
  /** Called when others wait for a buffer that the caller has kept for long: end the read. */
  recall?: () => void;
  /** Ends a read that waits for a remote store, which then throws the signal's reason. */
  signal?: AbortSignal;
  /** Count what is asked of stores over a network. */
  tallies?: TallySource;
  /** Only the stores that the runs name are asked. */
  isAlone?: true;
  /** Any copy may answer: the store that has answered soonest of late is asked first. */
  isAnyCopy?: boolean;
}

export interface ObjectReaderOptions {
  keyring: Keyring;
  stores: Stores;
  digests: DigestPool;
  buffers: BufferPool;
  /** Where else extents are; absent: nowhere. */
  copies?: ExtentCopies;
}

/** Where an extent of an archive is to be had, and how it is there. */
export interface ArchivedCopy {
  /** null: that store is none, and what is in it can be read. */
  archive: ArchiveCalls | null;
  state: ArchivedExtent['state'];
}

export class ObjectReader {
  readonly #options: ObjectReaderOptions;
  readonly #speeds = new CopySpeeds();

  constructor(options: ObjectReaderOptions) {
    this.#options = options;
  }

  /** What an archive is asked where extents have to be restored; undefined: the store is none. */
  archiveOf({ store }: Pick<ExtentRun, 'store'>): ArchiveCalls | undefined {
    if (store === inlineStore || store === localStore) return undefined;
    return this.#options.stores.remote(store).archive;
  }

  /**
   * Looks at an extent in such a store without reading it: whether it can be read. Throws
   * IntegrityError where the store has none of that length.
   */
  async lookAt(archive: ArchiveCalls, run: ExtentRun): Promise<ArchivedExtent['state']> {
    const { id, store, extentBytes, trailerBytes } = run;
    const found = await archive.look(id);
    const sizeBytes = sealedBytes(extentBytes) + trailerBytes;
    if (found?.sizeBytes === sizeBytes) return found.state;
    const what = `extent ${id.toString('hex')} ${found ? 'has another length' : 'is missing'}`;
    const error = new IntegrityError(what, { kind: found ? 'length' : 'missing', store });
    noteExtent(error, run);
    throw error;
  }

  /**
   * The copy of an extent in archives from which it is to be had: one that can be read, or else is
   * on its way, or else the first that is there. Throws what `lookAt` throws of the first, or why a
   * store that may have it cannot be asked.
   */
  async findArchived(run: ExtentRun): Promise<ArchivedCopy> {
    const { copies = noCopies, stores } = this.#options;
    let best: ArchivedCopy | null = null;
    let failure: unknown = null;
    const all = mayHaveCopies(run) ? await copies.list(run.id) : [];
    for (const store of all.length === 0 ? [run.store] : all) {
      try {
        const leg = stores.leg(store);
        leg.checkOpen?.();
        const { archive = null } = leg;
        const state = archive ? await this.lookAt(archive, { ...run, store }) : 'there';
        if (state === 'there') return { archive, state };
        if (!best || (state === 'coming' && best.state !== state)) best = { archive, state };
      } catch (error) {
        if (error instanceof IntegrityError) copies.suspect(run.id, store, error);
        if (failure === null || !(error instanceof IntegrityError)) failure = error;
      }
    }
    if (!best) throw failure;
    return best;
  }

  /**
   * Verified plaintext in order, a chunk or less at a time; the next ones are read ahead meanwhile.
   * A buffer is the caller's until the next call of `next`. Throws IntegrityError, before any byte
   * of the chunk, when something stored is not what was written, and Refusal ServiceUnavailable or
   * SlowDown when a store cannot. `return` gives all buffers and files back.
   */
  async *read(options: ReadOptions): AsyncGenerator<Buffer, void, void> {
    const stream = new ChunkStream({
      ...options,
      ...this.#options,
      speeds: this.#speeds,
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
   * The run's part of one small inline extent, verified: a view of `body`, which is decrypted in
   * place and so means nothing any more. Throws IntegrityError.
   */
  openInline(tenant: string, run: ExtentRun, body: Uint8Array): Buffer {
    if (run.store !== inlineStore || run.extentBytes > chunkBytes) {
      throw new IntegrityError(`extent ${run.id.toString('hex')} is not inline`);
    }
    return this.#verifyWhole(tenant, run, Buffer.from(body.buffer, body.byteOffset, body.length));
  }

  /** Whether the run may be read by `openRemote`, which needs memory outside the pool. */
  isSmallRemote(run: ExtentRun): boolean {
    return mayHaveCopies(run) && run.extentBytes <= inlineBytesMax;
  }

  /**
   * The run's part of one small extent in a remote store, verified. `isAnyCopy`: as in a read.
   * Throws as `read` does.
   */
  async openRemote(
    tenant: string,
    run: ExtentRun,
    { tallies, isAnyCopy }: { tallies?: TallySource; isAnyCopy?: boolean } = {},
  ): Promise<Buffer> {
    const open = (from: ExtentRun, signal?: AbortSignal) => {
      const asked = { tally: tallies?.tallyOf(from.store), signal };
      return this.#openRemote(tenant, from, asked);
    };
    const { copies = noCopies } = this.#options;
    if (isAnyCopy) return openFastest({ copies, speeds: this.#speeds, run, open });
    return open(run).catch((error: unknown) => readElsewhere(copies, run, error, open));
  }

  async #openRemote(
    tenant: string,
    run: ExtentRun,
    { tally, signal }: { tally: StoreTally | undefined; signal: AbortSignal | undefined },
  ): Promise<Buffer> {
    const { id, store, extentBytes, trailerBytes } = run;
    const sealed = sealedBytes(extentBytes);
    try {
      // The trailer is read as well: some servers do much less for a whole object than for most of
      // one.
      const stored = Buffer.allocUnsafeSlow(sealed + trailerBytes);
      const from = this.#options.stores.leg(store);
      const read = { id, sizeBytes: stored.length, position: 0, into: [stored], tally, signal };
      await from.read(read);
      try {
        return this.#verifyWhole(tenant, run, stored.subarray(0, sealed));
      } catch (error) {
        if (!(error instanceof IntegrityError)) throw error;
        noteDamage(from.meter);
        await from.read(read);
        return this.#verifyWhole(tenant, run, stored.subarray(0, sealed));
      }
    } catch (error) {
      if (error instanceof IntegrityError) noteExtent(error, run);
      throw error;
    }
  }

  /** The run's part of an extent of one chunk. */
  #verifyWhole(tenant: string, run: ExtentRun, sealed: Buffer): Buffer {
    const seal = openSeal(run, this.#options.keyring, tenant);
    return openChunk(seal, 0, sealed).subarray(run.offset, run.offset + run.length);
  }
}
