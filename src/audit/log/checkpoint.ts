// The text of a checkpoint: whose log, how many leaves, and the root above them (C2SP
// tlog-checkpoint). It holds no time, so the same log always has the same checkpoint.
import { hashBytes } from './merkle.ts';
import { ed25519, type NoteKey, parseNote, type VerifiedBy, verifyNote } from './note.ts';

export interface Checkpoint {
  origin: string;
  size: number;
  root: Buffer;
}

/** What is signed; with its last newline. */
export function renderCheckpoint({ origin, size, root }: Checkpoint): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/** undefined: it is none. Extension lines are allowed, and say nothing to us. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const lines = text.split('\n');
  if (lines.length < 4 || lines.pop() !== '' || lines.includes('')) return undefined;
  const [origin = '', digits = '', base64 = ''] = lines;
  const size = Number(digits);
  const root = Buffer.from(base64, 'base64');
  if (!/^(0|[1-9][0-9]{0,15})$/.test(digits) || !Number.isSafeInteger(size)) return undefined;
  if (root.length !== hashBytes || root.toString('base64') !== base64) return undefined;
  return { origin, size, root };
}

export interface OpenedCheckpoint {
  checkpoint: Checkpoint;
  /** Who of the known keys signed it: the log, and maybe witnesses. */
  signedBy: VerifiedBy[];
}

/**
 * A checkpoint that the log itself has signed: by a known key of the name that is its origin. Throws
 * `Error` that says what is wrong with it.
 */
export function openCheckpoint(text: string, keys: readonly NoteKey[]): OpenedCheckpoint {
  const note = parseNote(text);
  const checkpoint = note && parseCheckpoint(note.text);
  if (!note || !checkpoint) throw new Error('this is no signed checkpoint');
  const signedBy = verifyNote(note, keys);
  if (!signedBy) throw new Error('a signature of a known key is wrong');
  const { origin } = checkpoint;
  if (!signedBy.some(({ key }) => key.type === ed25519 && key.name === origin)) {
    throw new Error(`the checkpoint of ${origin} is signed by no known key of that log`);
  }
  return { checkpoint, signedBy };
}
