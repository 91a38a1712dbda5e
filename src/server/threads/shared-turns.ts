// Turns that all HTTP threads take with each other (core/turns.ts): the main thread gives them, and
// the others ask for each and say when it is over.
import type { Turns } from '../../core/turns.ts';
import { Questions } from './questions.ts';

/** What another thread tells of a turn, by a number that it has chosen. */
export type TurnMessage = { turn: number; of: string } | { turn: number; of: null };

/** The end of a thread that asks. */
export class AskedTurns implements Pick<Turns, 'take'> {
  readonly #tell: (message: TurnMessage) => void;
  readonly #questions = new Questions<void>();

  constructor(tell: (message: TurnMessage) => void) {
    this.#tell = tell;
  }

  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    let turn = 0;
    await this.#questions.ask((question) => {
      turn = question;
      this.#tell({ turn, of: name });
    });
    try {
      return await work();
    } finally {
      this.#tell({ turn, of: null });
    }
  }

  /** It has come. */
  answer(turn: number): void {
    this.#questions.answer(turn);
  }
}

/** The main thread's end, for one other. */
export class TurnDesk {
  readonly #turns: Turns;
  readonly #answer: (turn: number) => void;
  readonly #ends = new Map<number, () => void>();

  constructor(turns: Turns, answer: (turn: number) => void) {
    this.#turns = turns;
    this.#answer = answer;
  }

  hear({ turn, of }: TurnMessage): void {
    if (of === null) {
      this.#ends.get(turn)?.();
      this.#ends.delete(turn);
      return;
    }
    void this.#turns.take(of, () => {
      this.#answer(turn);
      return new Promise<void>((end) => this.#ends.set(turn, end));
    });
  }
}
