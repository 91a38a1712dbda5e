// Asking before something goes for good.
import { createInterface } from 'node:readline/promises';
import { CommandFailure } from '../core/command-failure.ts';

/**
 * Shows what will go, and asks. Throws `CommandFailure` unless somebody says yes: with --json, or
 * where stdin has ended, nobody can.
 */
export async function confirm(
  lines: readonly string[],
  question: string,
  { json }: { json?: boolean },
): Promise<void> {
  process.stderr.write(`${lines.join('\n')}\n`);
  const answer = json ? '' : await readAnswer(`${question} [y/N] `);
  if (/^y(?:es)?$/i.test(answer.trim())) return;
  throw new CommandFailure('failed', 'nothing was deleted: say yes, or give --yes');
}

/** A line of stdin; empty at its end. */
async function readAnswer(question: string): Promise<string> {
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new Promise<string>((end) => reader.once('close', () => end('')));
  try {
    return await Promise.race([reader.question(question), ended]);
  } finally {
    reader.close();
  }
}
