// Whether a signed checkpoint is to be believed (C2SP tlog-checkpoint, tlog-cosignature): its log
// is one whose key the verifier was given, the key was not revoked, and as many witnesses as the
// verifier demands have seen it. Pure; a refusal is a value that says why.
import { type Checkpoint, parseCheckpoint } from '../log/checkpoint.ts';
import {
  cosignature,
  ed25519,
  type Note,
  type NoteKey,
  parseNote,
  type VerifiedBy,
  verifyNote,
} from '../log/note.ts';

/** The keys that a verifier trusts. */
export interface Trust {
  /** Keys of logs; their name is the origin of the log that they sign for. */
  keys: readonly NoteKey[];
  /** Keys that are not believed any more, whoever else names them. */
  revoked?: readonly NoteKey[];
  witnesses?: readonly NoteKey[];
  /** How many of the witnesses must have signed it; none if absent. */
  witnessesMin?: number;
}

export interface Refused {
  ok: false;
  /** One sentence without its full stop. */
  why: string;
}

export interface SignedCheckpoint extends Checkpoint {
  ok: true;
  /** The checkpoint as it was given. */
  note: string;
  /** Ids of the log's keys that signed it. */
  keyIds: string[];
  /** Those of `Trust.witnesses` that signed it, and when. */
  witnesses: { name: string; time: string }[];
}

export function refuse(why: string): Refused {
  return { ok: false, why };
}

export function verifyCheckpoint(
  given: string | Uint8Array,
  trust: Trust,
): SignedCheckpoint | Refused {
  const note = parseNote(given);
  const checkpoint = note && parseCheckpoint(note.text);
  if (!note || !checkpoint) return refuse('its checkpoint is not a signed checkpoint of a log');
  const { keys, revoked = [], witnesses = [], witnessesMin = 0 } = trust;
  const believed = keys.filter((key) => !revoked.some((other) => isSame(key, other)));
  const signedBy = verifyNote(note, [...believed, ...witnesses]);
  if (!signedBy) return refuse('a signature of its checkpoint is forged or damaged');
  const { origin } = checkpoint;
  const ours = signedBy.filter(({ key }) => key.type === ed25519 && key.name === origin);
  if (ours.length === 0) return refuse(explainNoSignature(note, origin, trust, signedBy));
  const seenBy = signedBy.filter(({ key }) => key.type === cosignature);
  // A witness whose key was given under two names counts once.
  const distinct = new Set(seenBy.map(({ key }) => key.publicKey.toString('hex')));
  if (distinct.size < witnessesMin) {
    return refuse(`${distinct.size} of your witnesses signed its checkpoint, not ${witnessesMin}`);
  }
  return {
    ok: true,
    ...checkpoint,
    note: typeof given === 'string' ? given : Buffer.from(given).toString(),
    keyIds: ours.map(({ key }) => key.id),
    witnesses: seenBy.map(({ key, timeS }) => ({ name: key.name, time: timeOf(timeS as number) })),
  };
}

function explainNoSignature(
  note: Note,
  origin: string,
  { keys, revoked = [] }: Trust,
  signedBy: readonly VerifiedBy[],
): string {
  const other = signedBy.find(({ key }) => key.type === ed25519);
  if (other)
    return `its checkpoint is of the log ${origin}, which ${other.key.name} cannot sign for`;
  const gone = revoked.find(({ name, id }) =>
    note.signatures.some((one) => one.name === name && one.keyId === id),
  );
  if (gone) return `its checkpoint is signed with the key ${gone.id}, which was revoked`;
  if (!keys.some(({ name }) => name === origin)) {
    return `its checkpoint is of the log ${origin}, of which you gave no key`;
  }
  const ids = note.signatures.filter(({ name }) => name === origin).map(({ keyId }) => keyId);
  const by = ids.length === 0 ? '' : `; it bears the key id ${ids.join(', ')}`;
  return `its checkpoint is not signed with any key that you gave for ${origin}${by}`;
}

function isSame(one: NoteKey, other: NoteKey): boolean {
  return one.name === other.name && one.publicKey.equals(other.publicKey);
}

/** Of seconds since 1970; years that a Date has not are shown as the number. */
function timeOf(timeS: number): string {
  const time = new Date(timeS * 1000);
  return Number.isNaN(time.getTime()) ? `${timeS}` : time.toISOString();
}
