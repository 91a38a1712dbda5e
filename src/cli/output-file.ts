// Files that commands make for people. Invariant: each is written whole and durably, or it is not
// there and what was there stands; but a pipe or a device is written as it is, and not replaced by
// a file.
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import {
  type DurableFileOptions,
  streamFileDurably,
  writeFileDurably,
} from '../core/durable-file.ts';

/** Throws CommandFailure. */
export function writeOutput(file: string, content: string, options: DurableFileOptions): void {
  try {
    if (options.ifExists !== 'refuse' && isSpecial(file)) writeFileSync(file, content);
    else writeFileDurably(file, content, options);
  } catch (error) {
    throw new CommandFailure('failed', `cannot write ${file}: ${messageOfFailure(error)}`, error);
  }
}

/**
 * Writes what `write` gives, piece by piece. Rejects with the system's error, or with what `write`
 * throws.
 */
export async function streamOutput(
  file: string,
  options: Pick<DurableFileOptions, 'mode'>,
  write: (append: (content: string) => Promise<void>) => Promise<void>,
): Promise<void> {
  if (!isSpecial(file)) return streamFileDurably(file, options, write);
  const opened = await open(file, 'w');
  try {
    await write((content) => opened.appendFile(content));
  } finally {
    await opened.close();
  }
}

function isSpecial(file: string): boolean {
  return existsSync(file) && !statSync(file).isFile();
}
