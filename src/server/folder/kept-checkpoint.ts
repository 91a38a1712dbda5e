// The newest signed checkpoint, kept in the data folder but outside the database, so that a
// database that is put back from a backup is found to be older than what was signed. Invariants:
// the file is whole or as it was before; it never runs ahead of what was durable when it was
// signed.
import { existsSync, readFileSync } from 'node:fs';
import { checkpointOf } from '../../audit/log/checkpoint.ts';
import { compareSigned, type LogNames, type Tree } from '../../audit/log/log-comparison.ts';
import { renameDurably, replaceFileDurably } from '../../core/durable-file.ts';

const intervalMs = 1000;

/** The note of a file; null: there is none. Throws the system's error. */
export function readKeptCheckpoint(path: string): string | null {
  return existsSync(path) ? readFileSync(path, 'utf8') : null;
}

/**
 * Why a log with this tree must not be signed; null: it extends what was kept. A checkpoint of a
 * log that was ended is put aside.
 */
export async function compareWithKept(
  path: string,
  tree: Tree,
  names: LogNames,
): Promise<string | null> {
  const kept = readKeptCheckpoint(path);
  if (kept === null) return null;
  const checkpoint = checkpointOf(kept);
  if (!checkpoint) return 'the checkpoint that was kept beside the database is damaged';
  const { origin, size } = checkpoint;
  switch (await compareSigned(tree, checkpoint, names)) {
    case 'extends':
      return null;
    case 'ended':
      renameDurably(path, `${path}.ended`);
      return null;
    case 'unknown':
      return `the checkpoint that was kept is of log ${origin}, which the database does not know`;
    case 'shorter':
      return `${size} records were signed, and ${tree.size} are here: the database is older`;
    case 'differs':
      return `the first ${size} records are not those that were signed`;
  }
}

/** Looks each second whether there is a newer checkpoint, and writes it. */
export class CheckpointKeeper {
  readonly #path: string;
  readonly #newest: () => string | null;
  readonly #onError: (error: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  #kept: string | null = null;
  #writing: Promise<void> = Promise.resolve();

  /** `newest`: the newest note that was signed; null: there is none. */
  constructor(path: string, newest: () => string | null, onError: (error: unknown) => void) {
    this.#path = path;
    this.#newest = newest;
    this.#onError = onError;
    this.#timer = setInterval(() => this.#write(), intervalMs).unref();
  }

  /** Writes the newest one. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#write();
    await this.#writing;
  }

  #write(): void {
    this.#writing = this.#writing.then(async () => {
      const note = this.#newest();
      if (note === null || note === this.#kept) return;
      try {
        await replaceFileDurably(this.#path, note, { mode: 0o600 });
        this.#kept = note;
      } catch (error) {
        // It is tried again a second later; the old one is still true.
        this.#onError(error);
      }
    });
  }
}
