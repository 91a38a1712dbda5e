// The copies of extents, as readers know them. Most extents have none besides the one that a
// manifest names, and nothing is asked here before that one has failed.
import { extentFailures, IntegrityError, Refusal } from '../core/errors.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { localStore } from '../core/manifest.ts';

export interface ExtentCopies {
  /**
   * The numbers of all stores that may have a copy, those of archives last, the better ones first;
   * mostly none.
   */
  list(id: Buffer): Promise<readonly number[]>;
  /**
   * The numbers of the stores whose copies are good, as far as is known, without those of archives;
   * mostly none.
   */
  good(id: Buffer): Promise<readonly number[]>;
  /** What a store has of an extent is not what was written, or is missing there. */
  suspect(id: Buffer, store: number, error: IntegrityError): void;
}

/** Those of a gateway without copies. */
export const noCopies: ExtentCopies = {
  ...{ list: async () => [], good: async () => [], suspect: () => {} },
};

/**
 * Whether other stores may have what a run is in. Of the data folder only an extent that says of
 * itself what it is was written for several.
 */
export function mayHaveCopies({ store, trailerBytes }: ExtentRun): boolean {
  return store > localStore || (store === localStore && trailerBytes > 0);
}

/** Says of what failed where it is. */
export function noteExtent(error: IntegrityError, { id, store }: ExtentRun): void {
  error.store = store;
  if (extentFailures.has(error.kind)) error.extentId = id;
}

/** Whether another copy may have what could not be read. */
export function mayBeElsewhere(error: unknown, run: ExtentRun): boolean {
  if (!mayHaveCopies(run)) return false;
  if (error instanceof IntegrityError) return extentFailures.has(error.kind);
  return (
    error instanceof Refusal && (error.code === 'ServiceUnavailable' || error.code === 'SlowDown')
  );
}

/**
 * What could not be read in a run's own store, read in another, in one after the other. Where there
 * is none that has it, throws what its own store said; but where one of them cannot be asked now,
 * what that one said: nobody knows then whether it is lost.
 */
export async function readElsewhere<T>(
  copies: ExtentCopies,
  run: ExtentRun,
  error: unknown,
  read: (run: ExtentRun) => Promise<T>,
): Promise<T> {
  if (!mayBeElsewhere(error, run)) throw error;
  const stores = await copies.list(run.id);
  if (stores.length === 0) throw error;
  let away: unknown = null;
  let refused: unknown = null;
  const note = (failure: unknown, store: number) => {
    if (!(failure instanceof IntegrityError)) away ??= failure;
    else {
      copies.suspect(run.id, store, failure);
      if (failure.isRefused) refused ??= failure;
    }
  };
  note(error, run.store);
  for (const store of stores) {
    if (store === run.store) continue;
    try {
      return await read({ ...run, store });
    } catch (failure) {
      if (!mayBeElsewhere(failure, run)) throw failure;
      note(failure, store);
    }
  }
  // What one store may have after all is not gone, whatever the others say.
  throw away ?? refused ?? error;
}
