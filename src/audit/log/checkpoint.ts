// The text of a checkpoint: whose log, how many leaves, and the root above them (C2SP
// tlog-checkpoint). It holds no time, so the same log always has the same checkpoint.
import { decodeBase64 } from '../../core/base64.ts';
import { hashBytes } from './merkle.ts';
import { parseNote } from './note.ts';

export interface Checkpoint {
  origin: string;
  size: number;
  root: Buffer;
}

/** The text that is signed, with its last newline. */
export function renderCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/** undefined: it is none. Extension lines are allowed, and say nothing to us. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const lines = text.split('\n');
  if (lines.length < 4 || lines.pop() !== '' || lines.includes('')) return undefined;
  const [origin = '', digits = '', base64 = ''] = lines;
  const size = Number(digits);
  const root = decodeBase64(base64);
  if (!/^(0|[1-9][0-9]{0,15})$/.test(digits) || !Number.isSafeInteger(size)) return undefined;
  if (root?.length !== hashBytes) return undefined;
  return { origin, size, root };
}

/**
 * Returns what a signed note says of a log. Undefined means that it is no checkpoint. No signature
 * is verified.
 */
export function checkpointOf(note: string | Uint8Array): Checkpoint | undefined {
  const parsed = parseNote(note);
  return parsed && parseCheckpoint(parsed.text);
}
