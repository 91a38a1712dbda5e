// How a command ends when it cannot do its work: one line on stderr and an exit code. Anything else
// that is thrown is a bug and shows its stack.

import { printable } from './printable.ts';

/** `usage`: what was asked for makes no sense (exit 2). `failed`: it could not be done (exit 1). */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly exitCode: 1 | 2;

  constructor(reason: 'usage' | 'failed', message: string, cause?: unknown) {
    super(message, { cause });
    this.exitCode = reason === 'usage' ? 2 : 1;
  }
}

/** Several things are wrong with what was asked for, each told on a line of its own. */
export class Mistakes extends CommandFailure {
  readonly all: readonly string[];

  constructor(all: readonly string[]) {
    super('usage', all.join('\n'));
    this.all = all;
  }
}

/** Of work that commands ask for: it could not be done, and the message says why. */
export class WorkFailure extends CommandFailure {
  constructor(message: string, options?: ErrorOptions) {
    super('failed', message, options?.cause);
  }
}

/** What `work` gives. When it throws, so does this: a failure of the command, told after `what`. */
export function orFail<T>(reason: 'usage' | 'failed', what: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new CommandFailure(reason, `${what}${messageOfFailure(error)}`, error);
  }
}

/**
 * The message of whatever was thrown, on one line. It may be a server's, for people at a terminal.
 */
export function messageOfFailure(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return printable(text.trim().replaceAll(/\s*\n\s*/g, ': '));
}
