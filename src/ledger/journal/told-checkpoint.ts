// The newest checkpoint of the audit log, told to a store beside its journal: so a data folder that
// was put back whole is found to be older than what was signed, although the store was told of no
// change since. Invariants: it counts only when it opens, which says that a gateway with these keys
// wrote it into this very journal, so nobody else can stop a gateway by one; one that is missing,
// or older than the newest, says less and nothing wrong; and nothing is written to a place that is
// not ours.
import { checkpointOf } from '../../audit/log/checkpoint.ts';
import { compareSigned } from '../../audit/log/log-comparison.ts';
import { listLogKeys } from '../../audit/log/log-keys.ts';
import { readLogSize, storedTiles } from '../../audit/log/stored-tiles.ts';
import type { Reader } from '../../core/database.ts';
import { checkpointName, objectName, sealObject } from './format.ts';
import { type GenerationFiles, readObject } from './generation.ts';
import type { GenerationPlace } from './inventory.ts';

/** Ours have some 500; what is listed with more is not read. */
const objectBytesMax = 64 * 1024;

/**
 * Why the database is older than what was signed, as the checkpoint in the store tells; null: it
 * does not tell that. `onFalse` is called where there is one that no gateway with these keys has
 * written.
 */
export async function compareWithTold(
  { store, keyring, generation }: GenerationPlace,
  { read, files, onFalse }: { read: Reader; files: GenerationFiles; onFalse: () => void },
): Promise<string | null> {
  const place = { generation, name: checkpointName };
  const isTooLong = (files.checkpointBytes ?? 0) > objectBytesMax;
  const found = isTooLong ? 'false' : await readObject(store, keyring, place, 'checkpoint');
  if (found === undefined) return null;
  const checkpoint = found === 'false' ? undefined : checkpointOf(found.head.note);
  if (!checkpoint) {
    onFalse();
    return null;
  }
  const { origin, size } = checkpoint;
  const known = (await listLogKeys(read)).map(({ key }) => key.name);
  // The log grows meanwhile, but it has all that this process has signed.
  const tree = { size: await readLogSize(read), tiles: storedTiles(read) };
  switch (await compareSigned(tree, checkpoint, { origin: known[0] ?? '', known })) {
    case 'extends':
    case 'ended':
      return null;
    case 'unknown':
      return `its checkpoint is of log ${origin}, which the database does not know`;
    case 'shorter':
      return `its checkpoint is of ${size} records, and ${tree.size} are here`;
    case 'differs':
      return `its checkpoint is of ${size} records, and the first ${size} here are others`;
  }
}

export interface CheckpointWriterOptions extends Omit<GenerationPlace, 'generation'> {
  /** Rejects unless the store's place is this database's at this moment. */
  confirmOwner: () => Promise<void>;
  /** The newest that was signed; null: there is none, or the log is signed no more. */
  newestNote: () => string | null;
  /** Called with the first of several failures. */
  onError: (error: unknown) => void;
}

/** Puts the newest checkpoint in the place of the one before it. */
export class CheckpointWriter {
  readonly #options: CheckpointWriterOptions;
  #written: string | null = null;
  #failed = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: CheckpointWriterOptions) {
    this.#options = options;
  }

  /** Resolves when the store has what was the newest at the call, or could not take it. */
  write(generation: string): Promise<void> {
    this.#running = this.#running.then(() => this.#write(generation));
    return this.#running;
  }

  async #write(generation: string): Promise<void> {
    const { store, keyring, confirmOwner, newestNote, onError } = this.#options;
    const note = newestNote();
    if (note === null || note === this.#written) return;
    const place = { generation, name: checkpointName };
    const head = { kind: 'checkpoint', note, timeMs: Date.now() };
    try {
      await confirmOwner();
      await store.putObject(objectName(place), sealObject(keyring, place, [JSON.stringify(head)]));
      this.#written = note;
      this.#failed = false;
    } catch (error) {
      // It is written with the next one; the old one is still true.
      if (!this.#failed) onError(error);
      this.#failed = true;
    }
  }
}
