// What the steps of a rebuild share.
import type { Keyring, RootKey } from '../../core/keyring.ts';
import type { Sealer } from '../../core/sealing.ts';
import type { PriceBook } from '../../quota/prices/price-book.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import type { StoreTallies } from '../../tiering/stores/store-tally.ts';
import type { FoundJournal, WrittenObject } from './replay.ts';
import type { JournalReport, RebuildReport } from './report.ts';
import type { MustBeTold } from './staged-entries.ts';
import type { StagedExtent, Staging } from './staging.ts';

export interface RebuildOptions {
  /** All stores of the gateway; the numbers that they have here do not matter. */
  stores: readonly RemoteStore[];
  /** What they are asked for it, by those numbers. */
  tallies: StoreTallies;
  rootKeys: readonly RootKey[];
  sealer: Sealer;
  /** There must be none. */
  databaseFile: string;
  /** The journal to go by, where a store has it; otherwise its newest. */
  generation?: string | undefined;
  /** Gives extents that nothing names to the sweeper even when something could not be restored. */
  discard: boolean;
  /** Restores access keys and webhooks with their secrets, where the journals tell them. */
  withKeys: boolean;
  /** By which what is restored is billed. */
  prices: RestoredPrices;
  onProgress: (step: string, done: number) => void;
}

/** The prices of stores, as whoever serves has them. */
export interface RestoredPrices {
  books: Iterable<PriceBook>;
  enter(stores: readonly { number: number; name: string }[]): void;
  bookOf(store: number): PriceBook;
}

/** What the steps share. */
export interface Work extends RebuildOptions {
  keyring: Keyring;
  staging: Staging;
  report: RebuildReport;
  /** What is known otherwise of an extent that nothing names; absent: nothing is. */
  mustBeTold?: (extent: StagedExtent) => Promise<MustBeTold>;
}

/** A store with the number that manifests have for it. */
export interface RebuiltStore {
  store: RemoteStore;
  journal: JournalReport;
  /** The marker by which that journal counts. */
  begin: FoundJournal['begin'];
  /** When the snapshot was begun that the journal starts from, milliseconds. */
  snapshotMs: number | null;
  /** Its BEGIN, where it was read whole; else 0. */
  snapshotSeq: number;
  /** All changes up to here are told, once the journal was read. */
  toldSeq: number;
  /** What the database has written of that journal into which this is restored; absent: nothing. */
  written?: readonly WrittenObject[];
  /** Of the journal that the new database writes. */
  newGeneration: string;
}
