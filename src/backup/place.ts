// Where backups are: a folder, or a prefix of an S3 bucket. Invariants: a name leads to a whole
// file or to none; who creates and who prunes hold the lock of the place, and find out before what
// they did counts when they have lost it.

import type { FileHandle } from 'node:fs/promises';

export interface PlacedFile {
  name: string;
  sizeBytes: number;
  /** Whether it is a hard link to a file that is elsewhere, too. */
  isLinked?: boolean;
}

export interface TakenFile {
  mayLink: boolean;
  bytes: Buffer;
  /** The open file that has these bytes. */
  file: FileHandle;
}

export interface PlaceLock {
  /** Throws `WorkFailure` when somebody else may have it by now. */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

export interface BackupPlace {
  /** A name of the place for messages. */
  readonly name: string;
  /**
   * A folder on this machine for unfinished files, for the holder of the lock; null: the place has
   * none.
   */
  readonly workFolder: string | null;
  /** Undefined: there is none. */
  read(name: string): Promise<Buffer | undefined>;
  /**
   * Writes a file under its name in one step, in the place of what had it; it is durable after
   * `settle`.
   */
  write(name: string, bytes: Buffer): Promise<void>;
  /**
   * The same of a file of this machine that is never written to again: by a hard link, where
   * `mayLink`, and `path` is still the file that was opened.
   */
  take(name: string, path: string, taken: TakenFile): Promise<void>;
  /** Names below a prefix that ends with a slash. */
  list(prefix: string): AsyncIterable<PlacedFile>;
  /** Removes a file. It may be absent. */
  remove(name: string): Promise<void>;
  /** All that was written and removed is durable when this resolves. */
  settle(): Promise<void>;
  /** Throws `WorkFailure` when another process has it. */
  lock(): Promise<PlaceLock>;
  close(): Promise<void>;
}

/** A folder or prefix with this marker is a place of backups. */
export const markerName = 'bursar-backup';
export const markerText = '{"bursar":"backups","version":1}\n';
