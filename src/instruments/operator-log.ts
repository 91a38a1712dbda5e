// What an operator has to know or to do: a line of the log and, whatever the log's level is, the
// same in words on standard error, which is where who starts a gateway looks.
import { messageOfFailure } from '../core/command-failure.ts';
import type { Logger } from './logger.ts';

/**
 * The process's own output and end: messages to the operator go through here, and only this can end
 * the process.
 */
export interface Operator {
  /** Shows a line on standard error. */
  show(line: string): void;
  /** Ends the process, which could not go on. */
  end(): never;
}

export class OperatorLog {
  readonly #logger: Logger;
  readonly #operator: Operator;

  constructor(logger: Logger, operator: Operator) {
    this.#logger = logger;
    this.#operator = operator;
  }

  /** Something was done, or is well again. */
  note(text: string): void {
    this.#logger.info(text);
    this.#operator.show(text);
  }

  /** Something is not as it should be. `why`: what was thrown, or a text that tells. */
  warn(text: string, why?: unknown): void {
    if (why === undefined) {
      this.#logger.warn(text);
      this.#operator.show(text);
      return;
    }
    this.#logger.warn(why instanceof Error ? { err: why } : { reason: String(why) }, text);
    this.#operator.show(`${text}: ${messageOfFailure(why)}`);
  }

  /** Ends the process, since it cannot guarantee anything any more. */
  stop(text: string): never {
    this.#logger.fatal(text);
    this.#operator.show(text);
    return this.#operator.end();
  }
}
