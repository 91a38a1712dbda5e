// Whom the verifying commands believe, by their flags. Invariant: keys come from the command line and
// from files that it names, never from what is being verified, nor over the network.
import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError } from 'commander';
import { cosignature, ed25519, type NoteKey } from '../audit/log/note.ts';
import type { Trust } from '../audit/verify/signed-checkpoint.ts';
import { parsePublishedKeys, parseVerifiers } from '../audit/verify/trusted-keys.ts';
import { collect } from './command-arguments.ts';
import { CommandFailure, messageOfFailure } from './failure.ts';

export interface TrustFlags {
  key?: string[];
  keys?: string;
  witness?: string[];
  witnessesMin?: number;
}

export function addTrustFlags(command: Command): Command {
  return command
    .option(
      '--key <key>',
      "the log's verifier line, or a file with such lines; repeatable",
      collect,
    )
    .option('--keys <file>', 'all keys of the log, as GET /_/v1/log/keys answers')
    .option('--witness <key>', "a witness's verifier line, or a file with such lines", collect)
    .option(
      '--witnesses-min <number>',
      'how many of the witnesses must have signed (default: all)',
      parseCount,
    );
}

/** Throws `CommandFailure` for what is none, and where no key is given at all. */
export function readTrust({ key = [], keys, witness = [], witnessesMin }: TrustFlags): Trust {
  const published = keys === undefined ? { keys: [], revoked: [] } : readPublished(keys);
  const trusted = [...key.flatMap((one) => readVerifiers(one, ed25519)), ...published.keys];
  if (trusted.length === 0 && keys === undefined) {
    throw new CommandFailure('usage', "whose signature counts? Give the log's key with --key");
  }
  const witnesses = witness.flatMap((one) => readVerifiers(one, cosignature));
  const min = witnessesMin ?? witnesses.length;
  if (min > witnesses.length) {
    const message = `--witnesses-min ${min} asks for more than the ${witnesses.length} of --witness`;
    throw new CommandFailure('usage', message);
  }
  return { keys: trusted, revoked: published.revoked, witnesses, witnessesMin: min };
}

/** Throws `CommandFailure`. */
export function readGivenFile(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new CommandFailure('usage', messageOfFailure(error), error);
  }
}

function readVerifiers(given: string, type: NoteKey['type']): NoteKey[] {
  const inline = parseVerifiers(given, type);
  if (inline) return inline;
  const found = parseVerifiers(readGivenFile(given).toString(), type);
  if (found) return found;
  const kind = type === ed25519 ? 'a log (Ed25519)' : 'a witness (cosignature/v1)';
  throw new CommandFailure(
    'usage',
    `${given} is not the verifier line of ${kind}, nor of such lines`,
  );
}

function readPublished(file: string): { keys: NoteKey[]; revoked: NoteKey[] } {
  const found = parsePublishedKeys(readGivenFile(file).toString());
  if (found) return found;
  throw new CommandFailure('usage', `${file} is not what GET /_/v1/log/keys answers`);
}

function parseCount(text: string): number {
  if (/^[0-9]{1,3}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Must be a number.');
}
