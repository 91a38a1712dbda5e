// Which keys are believed when a log is verified. Invariant: keys come from the command line and
// from files that it names, never from what is being verified, nor over the network.
import { existsSync, readFileSync } from 'node:fs';
import { cosignature, ed25519, type NoteKey } from '../../audit/log/note.ts';
import type { Trust } from '../../audit/verify/signed-checkpoint.ts';
import { parsePublishedKeys, parseVerifiers } from '../../audit/verify/trusted-keys.ts';
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';

export interface GivenTrust {
  key?: string[];
  keys?: string;
  witness?: string[];
  witnessesMin?: number;
}

/** Throws `CommandFailure` for a text that is no key, and where no key is given at all. */
export function readTrust({ key = [], keys, witness = [], witnessesMin }: GivenTrust): Trust {
  const published = keys === undefined ? { keys: [], revoked: [] } : readPublished(keys);
  const trusted = [...key.flatMap((one) => readVerifiers(one, ed25519)), ...published.keys];
  if (trusted.length === 0 && keys === undefined) {
    const how = "Give the log's key with --key (bursar log key > log.key)";
    throw new CommandFailure('usage', `whose signature counts? ${how}`);
  }
  const witnesses = witness.flatMap((one) => readVerifiers(one, cosignature));
  const min = witnessesMin ?? witnesses.length;
  if (min > witnesses.length) {
    const given = `the ${witnesses.length} of --witness`;
    const message = `--witnesses-min ${min} asks for more than ${given}`;
    throw new CommandFailure('usage', message);
  }
  return { keys: trusted, revoked: published.revoked, witnesses, witnessesMin: min };
}

/** Throws `CommandFailure`. */
export function readGivenFile(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new CommandFailure('usage', `cannot read ${file}: ${messageOfFailure(error)}`, error);
  }
}

function readVerifiers(given: string, type: NoteKey['type']): NoteKey[] {
  const inline = parseVerifiers(given, type);
  if (inline) return inline;
  const found = existsSync(given) && parseVerifiers(readGivenFile(given).toString(), type);
  if (found) return found;
  const kind = type === ed25519 ? 'a log (Ed25519)' : 'a witness (cosignature/v1)';
  const message = `${given} is not the verifier line of ${kind}, nor a file of such lines`;
  throw new CommandFailure('usage', message);
}

function readPublished(file: string): { keys: NoteKey[]; revoked: NoteKey[] } {
  const found = parsePublishedKeys(readGivenFile(file).toString());
  if (found) return found;
  throw new CommandFailure('usage', `${file} is not what GET /_/v1/log/keys answers`);
}
