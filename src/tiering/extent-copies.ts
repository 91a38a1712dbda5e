// The copies of extents, as readers know them. Most extents have none besides the one that a
// manifest names, and nothing is asked here before that one has failed.
import { IntegrityError, type IntegrityKind, Refusal } from '../core/errors.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { localStore } from '../core/manifest.ts';

export interface ExtentCopies {
  /** The numbers of all stores that may have a copy, the better ones first; mostly none. */
  list(id: Buffer): Promise<readonly number[]>;
  /** What a store has of an extent is not what was written, or is missing there. */
  suspect(id: Buffer, store: number, error: IntegrityError): void;
}

/** Those of a gateway without copies. */
export const noCopies: ExtentCopies = { list: async () => [], suspect: () => {} };

/** What can be wrong of one copy, and right of another. */
const ofStored: ReadonlySet<IntegrityKind> = new Set(['missing', 'length', 'chunk']);

/** Whether another copy may have what could not be read. */
export function mayBeElsewhere(error: unknown, { store }: ExtentRun): boolean {
  if (store <= localStore) return false;
  if (error instanceof IntegrityError) return ofStored.has(error.kind);
  return (
    error instanceof Refusal && (error.code === 'ServiceUnavailable' || error.code === 'SlowDown')
  );
}

/**
 * What could not be read in a run's own store, read in another, in one after the other. Throws what
 * its own store said where there is none that has it.
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
  if (error instanceof IntegrityError) copies.suspect(run.id, run.store, error);
  for (const store of stores) {
    if (store === run.store) continue;
    try {
      return await read({ ...run, store });
    } catch (failure) {
      if (!mayBeElsewhere(failure, run)) throw failure;
      if (failure instanceof IntegrityError) copies.suspect(run.id, store, failure);
    }
  }
  throw error;
}
