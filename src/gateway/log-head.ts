// The newest checkpoint that the ledger has signed, as the main thread knows it. Invariant: it only
// ever grows; whatever is served of the log lies below its size. A record is committed a moment
// before the checkpoint that covers it is signed, so who asks for its receipt may have to wait.
// Specification: C2SP tlog-checkpoint.
import { type Checkpoint, parseCheckpoint } from '../audit/log/checkpoint.ts';
import { parseNote } from '../audit/log/note.ts';
import { Refusal } from '../core/errors.ts';

interface Waiting {
  size: number;
  resolve: () => void;
  timer: NodeJS.Timeout;
}

/** Signing takes well under a millisecond: what takes longer does not come. */
const waitMsMax = 5000;

export class LogHead {
  #note: string | null = null;
  #checkpoint: Checkpoint | null = null;
  #waiting: Waiting[] = [];

  /** The signed note; null: none was signed since the start. */
  get note(): string | null {
    return this.#note;
  }

  /** What the note says. */
  get checkpoint(): Checkpoint | null {
    return this.#checkpoint;
  }

  /** Leaves under the checkpoint. */
  get size(): number {
    return this.#checkpoint?.size ?? 0;
  }

  /** Takes a note that is signed anew. A shorter log than before is a bug. */
  receive(note: string): void {
    const checkpoint = parseCheckpoint(parseNote(note)?.text ?? '');
    if (!checkpoint) throw new Error('the ledger signed something that is no checkpoint');
    if (checkpoint.size < this.size) throw new Error('the log became shorter');
    this.#note = note;
    this.#checkpoint = checkpoint;
    const isCovered = ({ size }: Waiting): boolean => size <= checkpoint.size;
    const covered = this.#waiting.filter(isCovered);
    this.#waiting = this.#waiting.filter((one) => !isCovered(one));
    for (const { resolve, timer } of covered) {
      clearTimeout(timer);
      resolve();
    }
  }

  /** Resolves once so many leaves are signed for. Rejects with `Refusal` ServiceUnavailable. */
  async waitFor(size: number): Promise<void> {
    if (size <= this.size) return;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one.timer !== timer);
        const message = 'The log is not signed that far.';
        reject(new Refusal('ServiceUnavailable', { message }));
      }, waitMsMax);
      this.#waiting.push({ size, resolve, timer });
    });
  }
}
