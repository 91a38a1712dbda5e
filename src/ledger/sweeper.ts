// Garbage collection (docs/decisions/0009-sweeper.md). The catalog alone says what is live. The
// sweeper touches only extents that the ledger has condemned: intents whose upload died, and what
// no manifest names any more; it waits, spares what is being read, and any error ends the sweep of
// the store that it came from: the others are swept none the less. It lives here, above the rooms,
// because it needs the catalog's word and the stores' hands.

import { listCopyStores } from '../catalog/extent-copies.ts';
import { type Condemned, listCondemned, listStoresToSweep } from '../catalog/extents.ts';
import type { Reader } from '../core/database.ts';
import {
  completedUploadKeptMs,
  renameTokenKeptMs,
  sweptKeptMs,
  uploadMsMax,
} from '../core/limits.ts';
import { inlineStore, localStore } from '../core/manifest.ts';
import { steadyClock } from '../core/steady-clock.ts';
import type { ExtentStore } from '../tiering/stores/store.ts';
import type { Ledger } from './ledger.ts';
import { type MayLink, Untold } from './untold.ts';

export interface SweeperOptions {
  read: Reader;
  ledger: Ledger;
  stores: { get(number: number): Pick<ExtentStore, 'remove'> };
  /** Asked before each batch of removals; what may not go yet waits for a later sweep. */
  maySweep: (store: number) => boolean;
  /**
   * Rejects when the store's place is not ours. Asked before each batch, and after it: what is not
   * in another place was not removed.
   */
  confirmPlace?: (store: number) => Promise<void>;
  /** The stores whose journals are told of changes: those that are configured. */
  journaled: () => readonly number[];
  /** Whether a store's journal has lost nothing, as far as is known. */
  isWhole: (store: number) => boolean;
  mayLink: MayLink;
  /** Tells which extents are being read. */
  leases: { findHeld(ids: readonly Buffer[]): Promise<(id: Buffer) => boolean> };
  /** How long a condemned extent is kept before its bytes go, milliseconds. */
  graceMs: number;
}

export interface SweepResult {
  condemnedIntents: number;
  purgedVersions: number;
  removedExtents: number;
}

/** One transaction's worth, so that requests never wait long for the sweeper. */
const rowsPerBatch = 200;
/** Caps a run: what is left waits for the next. */
const batchesMax = 5000;
/** Inline bodies are in the database; only a read that is under way can still want one. */
const inlineGraceMsMax = 5000;
/** Removals under way in one store: a remote one takes its time for each. */
const removalsMax = 8;

/** What became of a batch. */
interface Removal {
  removed: Buffer[];
  kept: Buffer[];
  /** How many of these are kept for what other stores have of them. */
  elsewhere: number;
  /** Why the first of `kept` could not be removed; null: there is none. */
  error: unknown;
}

function allRemoved(ids: Buffer[]): Removal {
  return { removed: ids, kept: [], elsewhere: 0, error: null };
}

/** A copy in another store stays: that says nothing of the store that is swept. */
class CopyKept extends Error {}

export class Sweeper {
  readonly #options: SweeperOptions;
  /** Why copies stay in a store while another is swept; told at the end of a sweep. */
  #keptElsewhere: unknown = null;
  /** The newest record at the first sweep; null: there was none yet. */
  #startSeq: number | null = null;

  constructor(options: SweeperOptions) {
    this.#options = options;
  }

  /**
   * One sweep, which ends early when it is to stop. Rejects, when it is through, with what went
   * wrong in a store.
   */
  async sweep(stopping?: AbortSignal): Promise<SweepResult> {
    const { ledger } = this.#options;
    const repeat: Repeat = (work, fullBatch) => repeatWork(work, fullBatch, stopping);
    const max = rowsPerBatch;
    const condemnedIntents = await repeat(() =>
      ledger.maintain({
        kind: 'condemnIntents',
        expiredBeforeMs: steadyClock.nowMs() - uploadMsMax,
        max,
      }),
    );
    // Until there are none: of those that are large a batch has few.
    const purgedVersions = await repeat(() => ledger.maintain({ kind: 'purgeEnded', max }), 1);
    await repeat(() => ledger.maintain({ kind: 'dropLongManifest' }), 1);
    await repeat(() =>
      ledger.maintain({
        kind: 'forgetCompleted',
        beforeMs: steadyClock.nowMs() - completedUploadKeptMs,
        max,
      }),
    );
    await repeat(() =>
      ledger.maintain({
        kind: 'forgetTokens',
        beforeMs: steadyClock.nowMs() - renameTokenKeptMs,
        max,
      }),
    );
    await repeat(() => ledger.maintain({ kind: 'purgeTokens', max }));
    await repeat(() => ledger.maintain({ kind: 'purgeTokenAccounts', max }));
    await repeat(() =>
      ledger.maintain({ kind: 'forgetSwept', beforeMs: Date.now() - sweptKeptMs, max }),
    );
    const removedExtents = await this.#removeAllCondemned(repeat);
    return { condemnedIntents, purgedVersions, removedExtents };
  }

  async #removeAllCondemned(repeat: Repeat): Promise<number> {
    const errors: unknown[] = [];
    let removed = 0;
    const { read, mayLink } = this.#options;
    this.#startSeq ??= await readNewest(read);
    const untold = new Untold(read, { mayLink, startSeq: this.#startSeq });
    for (const store of await listStoresToSweep(read)) {
      try {
        removed += await this.#removeCondemned(store, untold, repeat);
      } catch (error) {
        errors.push(error);
      }
    }
    if (this.#keptElsewhere !== null) errors.push(this.#keptElsewhere);
    this.#keptElsewhere = null;
    if (errors.length > 1) throw new AggregateError(errors, 'several stores could not be swept');
    if (errors.length === 1) throw errors[0];
    return removed;
  }

  /** Goes on behind what stays, so that it does not keep what comes after it. */
  async #removeCondemned(store: number, untold: Untold, repeat: Repeat): Promise<number> {
    const { read, graceMs, maySweep } = this.#options;
    const ownGraceMs = store === inlineStore ? Math.min(graceMs, inlineGraceMsMax) : graceMs;
    const beforeMs = steadyClock.nowMs() - ownGraceMs;
    let after: Condemned | undefined;
    let removed = 0;
    await repeat(async () => {
      if (!maySweep(store)) return 0;
      const found = await listCondemned(read, { store, beforeMs, after, max: rowsPerBatch });
      after = found.at(-1);
      removed += await this.#removeSome(store, await this.#findFree(store, found, untold));
      return found.length;
    });
    return removed;
  }

  /** Those that nobody reads, and no journal may still call alive. */
  async #findFree(store: number, found: readonly Condemned[], untold: Untold): Promise<Buffer[]> {
    const { leases, journaled, isWhole } = this.#options;
    // In the data folder only its own buckets have bytes, and in the database.
    const journals = store <= localStore ? [] : journaled();
    // What a journal has lost may be the end of anything. A snapshot takes its place soon.
    if (!journals.every((one) => isWhole(one))) return [];
    const ids = (await untold.pass(store, found, journals)).map(({ id }) => id);
    const isHeld = await leases.findHeld(ids);
    return ids.filter((id) => !isHeld(id));
  }

  async #removeSome(store: number, ids: Buffer[]): Promise<number> {
    const { ledger } = this.#options;
    const { removed, kept, elsewhere, error } =
      store === inlineStore ? allRemoved(ids) : await this.#removeFromPlace(store, ids);
    if (removed.length > 0) await ledger.maintain({ kind: 'noteSwept', ids: removed });
    // One that the store does not let go of, as whoever writes to its bucket may lock an object,
    // must not keep the others: it comes behind them the next time.
    if (kept.length > 0) await ledger.maintain({ kind: 'deferExtents', ids: kept });
    if (error !== null && kept.length > elsewhere) throw error;
    this.#keptElsewhere ??= error;
    return removed.length;
  }

  async #removeFromPlace(store: number, ids: readonly Buffer[]): Promise<Removal> {
    const { confirmPlace } = this.#options;
    if (ids.length > 0) await confirmPlace?.(store);
    const removal = await this.#removeExtents(store, ids);
    if (removal.removed.length > 0) await confirmPlace?.(store);
    return removal;
  }

  /** Removes an extent, with the copies that other stores may have. */
  async #removeCopies(store: number, id: Buffer): Promise<void> {
    const { read, stores, confirmPlace, maySweep } = this.#options;
    for (const other of await listCopyStores(read, id)) {
      if (other === store) continue;
      try {
        if (!maySweep(other)) throw new Error('it cannot be swept');
        await confirmPlace?.(other);
        await stores.get(other).remove(id);
        await confirmPlace?.(other);
      } catch (cause) {
        throw new CopyKept(`copies in store ${other} are not removed`, { cause });
      }
    }
    await stores.get(store).remove(id);
  }

  /** Stops when nothing of what was tried until then could be removed: the store is down. */
  async #removeExtents(store: number, ids: readonly Buffer[]): Promise<Removal> {
    const waiting = ids.values();
    const done: Removal = { removed: [], kept: [], elsewhere: 0, error: null };
    const remove = async (): Promise<void> => {
      for (const id of waiting) {
        try {
          await this.#removeCopies(store, id);
          done.removed.push(id);
        } catch (error) {
          done.kept.push(id);
          if (error instanceof CopyKept) done.elsewhere++;
          // What is wrong of this store is told first.
          if (done.error === null || done.error instanceof CopyKept) done.error = error;
        }
        const refused = done.kept.length - done.elsewhere;
        if (done.removed.length === 0 && refused >= removalsMax) return;
      }
    };
    await Promise.all(Array.from({ length: removalsMax }, remove));
    return done;
  }
}

async function readNewest(read: Reader): Promise<number> {
  const row = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM records');
  return row?.idx ?? -1;
}

/** Runs `work` until it has less than a full batch to do, or the cap is reached. */
async function repeatWork(
  work: () => Promise<number>,
  fullBatch = rowsPerBatch,
  stopping?: AbortSignal,
): Promise<number> {
  let total = 0;
  for (let i = 0; i < batchesMax && !stopping?.aborted; i++) {
    const done = await work();
    total += done;
    if (done < fullBatch) break;
  }
  return total;
}

type Repeat = (work: () => Promise<number>, fullBatch?: number) => Promise<number>;
