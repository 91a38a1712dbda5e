// Makes the entries of a folder durable: fsync of the folder (fsync(2): "also an explicit fsync()
// on a file descriptor for the directory is needed"). Invariant: `sync` resolves only after an
// fsync that began after the call, so calls that come while one runs share the next one.
import { open } from 'node:fs/promises';

interface Round {
  running: Promise<void>;
  next: Promise<void> | null;
}

export class FolderSync {
  readonly #rounds = new Map<string, Round>();
  readonly #onFatal: (error: unknown) => never;

  /** `onFatal` gets the error of an fsync; it must end the process. */
  constructor(onFatal: (error: unknown) => never) {
    this.#onFatal = onFatal;
  }

  sync(folder: string): Promise<void> {
    const round = this.#rounds.get(folder);
    if (!round) return this.#begin(folder);
    const begin = (): Promise<void> => this.#begin(folder);
    round.next ??= round.running.then(begin, begin);
    return round.next;
  }

  #begin(folder: string): Promise<void> {
    const round: Round = { running: this.#syncNow(folder), next: null };
    this.#rounds.set(folder, round);
    const end = (): void => {
      if (this.#rounds.get(folder) === round && !round.next) this.#rounds.delete(folder);
    };
    round.running.then(end, end);
    return round.running;
  }

  async #syncNow(folder: string): Promise<void> {
    const opened = await open(folder, 'r');
    try {
      await opened.sync().catch(this.#onFatal);
    } finally {
      await opened.close();
    }
  }
}
