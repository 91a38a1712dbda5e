// The keys that a verifier was given, as text: verifier lines (C2SP signed-note), which is what
// `/_/log/key` serves, or the JSON of all keys that a log ever had, `/_/v1/log/keys`, which says of
// each whether it was revoked. Pure.
import { ed25519, type NoteKey, parseVerifier } from '../log/note.ts';

/** One verifier a line, of this type; undefined: a line is none, or there is none at all. */
export function parseVerifiers(text: string, type: NoteKey['type']): NoteKey[] | undefined {
  const lines = text.split(/\r?\n/).filter((line) => line !== '');
  const keys = lines.map((line) => parseVerifier(line));
  const sound = keys.filter((key) => key?.type === type) as NoteKey[];
  return sound.length === lines.length && sound.length > 0 ? sound : undefined;
}

export interface PublishedKeys {
  keys: NoteKey[];
  revoked: NoteKey[];
}

/** `{"keys": [{"verifier", "state"}, …]}`; undefined: it is something else. */
export function parsePublishedKeys(text: string): PublishedKeys | undefined {
  const published: PublishedKeys = { keys: [], revoked: [] };
  for (const one of listOf(text) ?? []) {
    const { verifier, state } = one as { verifier?: unknown; state?: unknown };
    const key = typeof verifier === 'string' ? parseVerifier(verifier) : undefined;
    if (key?.type !== ed25519 || typeof state !== 'string') return undefined;
    (state === 'revoked' ? published.revoked : published.keys).push(key);
  }
  return published.keys.length + published.revoked.length > 0 ? published : undefined;
}

function listOf(text: string): object[] | undefined {
  try {
    const { keys } = JSON.parse(text) as { keys?: unknown };
    const isList = Array.isArray(keys) && keys.every((one) => typeof one === 'object' && one);
    return isList ? (keys as object[]) : undefined;
  } catch {
    return undefined;
  }
}
