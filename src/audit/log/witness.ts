// What a log asks of a witness, and what the answer means: C2SP tlog-witness, `add-checkpoint`.
// Pure. Invariant: a cosignature counts only when it is by the witness's own key, over exactly the
// checkpoint that was sent; of everything else in an answer only the size it has seen is taken.
import { hashBytes } from './merkle.ts';
import { cosignature, type NoteKey, parseNote, parseVerifier, verifyNote } from './note.ts';

/** A witness that is asked for its signature. */
export interface Witness {
  key: NoteKey;
  /** Its submission prefix, without a slash at its end. */
  url: string;
}

/** The most hashes that a request may have. */
const proofHashesMax = 63;
/** Room for dozens of cosignatures. */
export const answerBytesMax = 64 * 1024;
const sizeType = 'text/x.tlog.size';

/**
 * `VERIFIER URL`, as witness policies write it. Throws an Error that says what would have fitted.
 */
export function parseWitness(text: string): Witness {
  const [line = '', address = '', ...more] = text.trim().split(/\s+/);
  const key = parseVerifier(line);
  if (!key || key.type !== cosignature || more.length > 0) {
    throw new Error('must be "VERIFIER URL": the verifier key of a witness, and where it is asked');
  }
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.href !== url.origin + url.pathname) {
    throw new Error('must end in the http or https URL of the witness, without a user or a query');
  }
  return { key, url: url.href.replace(/\/+$/, '') };
}

/** The body of `add-checkpoint`. `proof`: that the tree of the note has that of `oldSize` in it. */
export function renderAddCheckpoint(given: {
  oldSize: number;
  proof: readonly Uint8Array[];
  note: string;
}): string {
  const { oldSize, proof, note } = given;
  if (proof.length > proofHashesMax) throw new RangeError(`a proof of ${proof.length} hashes`);
  const hashes = proof.map((hash) => {
    if (hash.length !== hashBytes) throw new RangeError(`a hash of ${hash.length} bytes`);
    return `${Buffer.from(hash).toString('base64')}\n`;
  });
  return `old ${oldSize}\n${hashes.join('')}\n${note}`;
}

export type WitnessAnswer =
  /** `line`: its cosignature, with its newline. */
  | { kind: 'cosigned'; line: string; timeS: number }
  /** The newest tree that it cosigned has so many leaves. */
  | { kind: 'seen'; size: number }
  /** The tree that the witness saw is not part of the tree that it was sent. */
  | { kind: 'inconsistent' }
  | { kind: 'refused'; reason: string };

/** Interprets the answer to `add-checkpoint` with this note. */
export function readAnswer(
  { key }: Pick<Witness, 'key'>,
  note: string,
  answer: { status: number; contentType: string; body: string },
): WitnessAnswer {
  const { status, contentType, body } = answer;
  if (status === 200) return readCosignature(key, note, body);
  if (status === 409) {
    const digits = /^(0|[1-9][0-9]{0,15})\n$/.exec(body)?.[1];
    const size = Number(digits);
    if (contentType !== sizeType || digits === undefined || !Number.isSafeInteger(size)) {
      return { kind: 'refused', reason: 'it answered 409 without the size that it has seen' };
    }
    return { kind: 'seen', size };
  }
  if (status === 422) return { kind: 'inconsistent' };
  const meanings: Record<number, string> = {
    400: 'it answered 400: it does not understand the request',
    403: "it answered 403: it does not know the log's key",
    404: "it answered 404: it does not know the log's origin",
  };
  return { kind: 'refused', reason: meanings[status] ?? `it answered ${status}` };
}

function readCosignature(key: NoteKey, note: string, body: string): WitnessAnswer {
  const text = parseNote(note)?.text;
  const parsed = text === undefined ? undefined : parseNote(`${text}\n${body}`);
  // What it says must be signatures alone: another blank line would move the end of the text.
  if (!parsed || parsed.text !== text) {
    return { kind: 'refused', reason: 'it answered something else than cosignatures' };
  }
  const [own] = verifyNote(parsed, [key]) ?? [];
  if (!own || own.timeS === null || own.timeS === 0) {
    return { kind: 'refused', reason: 'its cosignature is not by the key that it is known by' };
  }
  const isOwn = ({ name, keyId }: { name: string; keyId: string }): boolean =>
    name === key.name && keyId === key.id;
  // The first is the one that was verified.
  const line = parsed.signatures.find(isOwn)?.line;
  return { kind: 'cosigned', line: `${line}\n`, timeS: own.timeS };
}

/** The note with the cosignatures too, each of which it has once, the newest of a witness. */
export function addCosignatures(note: string, lines: readonly string[]): string {
  const parsed = parseNote(note);
  if (!parsed) throw new Error('cosignatures are added to a signed note');
  const keyOf = (line: string): string => {
    const [, name = '', base64 = ''] = line.trimEnd().split(' ');
    return `${name} ${Buffer.from(base64, 'base64').toString('hex', 0, 4)}`;
  };
  const merged = new Map<string, string>();
  for (const { line } of parsed.signatures) merged.set(keyOf(line), `${line}\n`);
  for (const line of lines) merged.set(keyOf(line), line);
  return `${parsed.text}\n${[...merged.values()].join('')}`;
}
