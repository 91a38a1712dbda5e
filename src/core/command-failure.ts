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

/**
 * The message of whatever was thrown, on one line. It may be a server's, for people at a terminal.
 */
export function messageOfFailure(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return printable(text.trim().replaceAll(/\s*\n\s*/g, ': '));
}
