// What the rest asks of a store of extents: the terms that all drivers keep.
// Invariant: an extent is written once, under a random id, and never changed; what a driver gives
// back is not trusted by those who call it, they verify every chunk.
import type { StoreMeter } from './store-meter.ts';
import type { StoreTally } from './store-tally.ts';

/** The calls that a store of extents must offer. Sizes are in bytes. */
export interface ExtentStore {
  /** Names the store in manifests. */
  readonly number: number;
  /** `local`, or as configured. */
  readonly name: string;
  /** Removes an extent; one that is absent is fine. */
  remove(id: Buffer, tally?: StoreTally): Promise<void>;
  /** All finished extents, in no order; the size is that of the stored form. */
  list(): AsyncIterable<{ id: Buffer; sizeBytes: number }>;
}

export interface RemoteRead {
  id: Buffer;
  /** The size that the whole stored extent must have, in bytes. */
  sizeBytes: number;
  /** The offset in the stored extent at which the first piece begins. */
  position: number;
  into: readonly Buffer[];
  /** Called when piece `index` is whole: each once, ascending. */
  filled?: (index: number) => void;
  signal?: AbortSignal;
  tally?: StoreTally;
}

/** What an archive tells of an extent, which is not read for that. */
export interface ArchivedExtent {
  sizeBytes: number;
  /** Whether it can be read; else whether it was asked for. */
  state: 'there' | 'coming' | 'archived';
}

export interface RecallTerms {
  /** How long it is to be there. */
  days: number;
  /** `Bulk`, `Standard` or `Expedited`. */
  tier: string;
}

/** What a store is asked whose extents are read only once they were asked for. */
export interface ArchiveCalls {
  /** undefined: there is none. Rejects with Refusal as reads do. */
  look(id: Buffer): Promise<ArchivedExtent | undefined>;
  /** Asks for an extent, for longer where it is there. Rejects with Refusal as writes do. */
  recall(id: Buffer, terms: RecallTerms): Promise<void>;
}

/**
 * A store that takes and gives whole runs of bytes over a network (S3). What it asks its server for
 * is counted in the tally it is given, and else in one of its own.
 */
export interface RemoteStore extends ExtentStore {
  readonly meter: StoreMeter;
  /** Absent: what is in it can be read at once. */
  readonly archive?: ArchiveCalls | undefined;
  /** Throws Refusal ServiceUnavailable where nothing can be asked of it; absent: it can be. */
  checkOpen?(): void;
  /** Plaintext bytes of an extent that is written here, at most 16 MiB. */
  readonly extentBytesMax: number;
  /**
   * Stores an extent; `pieces` (views, maybe of shared memory) stay unchanged until it settles.
   * Retried inside. Durable when it resolves. Rejects with Refusal ServiceUnavailable or SlowDown
   * when the store cannot.
   */
  put(id: Buffer, pieces: readonly Buffer[], tally?: StoreTally): Promise<void>;
  /**
   * The same in place of what is under that id, if anything is: readers find one or the other, and
   * a failure, or the end of the process, leaves one of the two, whole.
   */
  replace(id: Buffer, pieces: readonly Buffer[]): Promise<void>;
  /**
   * Removes what a write has stored that has failed, as far as it can. Nothing from a place that is
   * not ours any more: whoever took it may have found a whole object there, and keeps it.
   */
  discard(ids: readonly Buffer[], tally?: StoreTally): Promise<void>;
  /**
   * Reads the bytes from `position` on into the pieces, in order. Retries and hedges inside, going
   * on after the last whole byte. Throws IntegrityError when the extent is missing or not
   * `sizeBytes` long in all, Refusal ServiceUnavailable or SlowDown when the store cannot. `signal`
   * abandons it: it then rejects, and writes to no piece any more.
   */
  read(options: RemoteRead): Promise<void>;
  /** The last `maxBytes` of an extent, or all of it, for repair; undefined when there is none. */
  readEnd(id: Buffer, maxBytes: number): Promise<{ bytes: Buffer; sizeBytes: number } | undefined>;

  // Small named objects beside the extents (journal, owner marker); names relative to the prefix.
  getObject(name: string): Promise<Buffer | undefined>;
  putObject(
    name: string,
    bytes: Buffer,
    options?: { ifAbsent?: boolean },
  ): Promise<'stored' | 'exists'>;
  removeObject(name: string): Promise<void>;
  /** Lists the objects in the order of their names, after `after`. */
  listObjects(prefix: string, after?: string): AsyncIterable<{ name: string; sizeBytes: number }>;
}

/** What is asked of a store that is one of several with the same extents. */
export type LegStore = Pick<
  RemoteStore,
  | ('number' | 'meter' | 'archive' | 'checkOpen' | 'extentBytesMax')
  | ('put' | 'replace' | 'discard' | 'read' | 'readEnd')
>;
