// The newest checkpoint that the ledger has signed, as the main thread knows it. Invariant: it only
// ever grows; whatever is served of the log lies below its size. A record is committed a moment
// before the checkpoint that covers it is signed, so who asks for its receipt may have to wait. A
// log that others have seen to be longer, or another, has no checkpoint, and nothing is written to
// it.
// Specification: C2SP tlog-checkpoint.
import { type Checkpoint, checkpointOf } from '../../audit/log/checkpoint.ts';
import { parseNote } from '../../audit/log/note.ts';
import { Refusal } from '../../core/errors.ts';

interface Waiting {
  size: number;
  resolve: () => void;
  reject: (refusal: Refusal) => void;
  timer: NodeJS.Timeout;
}

/** Signing takes well under a millisecond: what takes longer does not come. */
const waitMsMax = 5000;

export class LogHead {
  /** What was signed last; it stays where the log is signed no more. */
  signed: string | null = null;
  /** What the note says, once somebody has asked. */
  #checkpoint: Checkpoint | null = null;
  /** Leaves under the checkpoint. */
  size = 0;
  #cosigned: { note: string; checkpoint: Checkpoint } | null = null;
  #refusal: string | null = null;
  #waiting: Waiting[] = [];
  readonly #onRefusal: ((reason: string) => void)[];

  /** `onRefusal` is told once why the log is signed no more. */
  constructor(...onRefusal: ((reason: string) => void)[]) {
    this.#onRefusal = onRefusal;
  }

  /** Has somebody else told, too, from now on. */
  onRefusal(told: (reason: string) => void): void {
    this.#onRefusal.push(told);
  }

  /** The signed note; null: none was signed since the start. */
  get note(): string | null {
    return this.#refusal === null ? this.signed : null;
  }

  /** What the note says. */
  get checkpoint(): Checkpoint | null {
    const { note } = this;
    this.#checkpoint ??= note === null ? null : ourCheckpoint(note);
    return this.#checkpoint;
  }

  /** Why the log is signed no more, for the operator to read; null: it is. */
  get refusal(): string | null {
    return this.#refusal;
  }

  /**
   * What a receipt for this record is to carry: the newest checkpoint that witnesses have cosigned,
   * if it covers the record, else the newest. Null: there is none. Never one that is signed with
   * none of the present keys: those of before may have been revoked.
   */
  noteFor(index: number): { note: string; checkpoint: Checkpoint } | null {
    const { note, checkpoint } = this;
    if (note === null || checkpoint === null) return null;
    const cosigned = this.#cosigned;
    if (cosigned && index < cosigned.checkpoint.size && shareKey(cosigned.note, note)) {
      return cosigned;
    }
    return { note, checkpoint };
  }

  /** Takes a signed note with cosignatures that were verified. */
  receiveCosigned(note: string): void {
    const checkpoint = ourCheckpoint(note);
    if (checkpoint.size > this.size) throw new Error('what is cosigned was never signed');
    this.#cosigned = { note, checkpoint };
  }

  /**
   * From now on there is no checkpoint, whatever is received: what is here is not what was signed
   * before. The first reason stays.
   */
  refuse(reason: string): void {
    if (this.#refusal !== null) return;
    this.#refusal = reason;
    this.#checkpoint = null;
    this.#cosigned = null;
    this.size = 0;
    for (const { timer, reject } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      reject(this.refused());
    }
    for (const told of this.#onRefusal) told(reason);
  }

  /** Throws `Refusal` ServiceUnavailable where nothing may be written any more. */
  checkWritable(): void {
    if (this.#refusal !== null) throw this.refused();
  }

  /**
   * Takes a note that is signed anew, by this process. Of most nobody asks more than their size. A
   * shorter log than before is a bug.
   */
  readonly receive = (note: string): void => {
    if (this.#refusal !== null) return;
    const size = Number(note.split('\n', 2)[1]);
    if (!(size >= this.size)) throw new Error('the log became shorter');
    this.signed = note;
    this.size = size;
    this.#checkpoint = null;
    if (this.#waiting.length > 0) this.#endWaiting();
  };

  #endWaiting(): void {
    const isCovered = ({ size }: Waiting): boolean => size <= this.size;
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
    this.checkWritable();
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one.timer !== timer);
        const message = 'The log is not signed that far.';
        reject(new Refusal('ServiceUnavailable', { message }));
      }, waitMsMax);
      this.#waiting.push({ size, resolve, reject, timer });
    });
  }

  private refused(): Refusal {
    return new Refusal('ServiceUnavailable', {
      message: `The log is not signed, so nothing is written: ${this.#refusal}.`,
    });
  }
}

/** Did a key sign both? */
function shareKey(one: string, other: string): boolean {
  const signatures = parseNote(other)?.signatures ?? [];
  const isThere = (signed: { name: string; keyId: string }): boolean =>
    signatures.some(({ name, keyId }) => name === signed.name && keyId === signed.keyId);
  return parseNote(one)?.signatures.some(isThere) ?? false;
}

function ourCheckpoint(note: string): Checkpoint {
  const checkpoint = checkpointOf(note);
  if (!checkpoint) throw new Error('a signed note that is no checkpoint');
  return checkpoint;
}
