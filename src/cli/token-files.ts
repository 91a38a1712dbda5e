// Files of tokens and of the public keys of those that may use them.
import { type PublicKey, readPublicKey } from '../authz/tokens/keys.ts';
import { isObject } from '../authz/tokens/strict-json.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { Refusal } from '../core/errors.ts';
import { parseJson } from '../core/json.ts';
import { readText, stdin } from './key-files.ts';
import type { RestrictionFlags } from './token-restrictions.ts';

/** A refusal of the library is a fault of the arguments and not of this program. */
export function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof Refusal) throw new CommandFailure('failed', error.message, error);
    throw error;
  }
}

export function readToken(file: string | undefined): string {
  return readText(file ?? stdin).trim();
}

/** undefined: a bearer token was asked for. */
export function loadHolder({ to, bearer }: RestrictionFlags): PublicKey | undefined {
  if ((to === undefined) === !bearer) {
    throw new CommandFailure('usage', "say who may use it: --to FILE (its user's key) or --bearer");
  }
  if (to === undefined) return undefined;
  const [key] = loadPublicKeys(to);
  return key;
}

/** The keys of a JWK set or of a file with one public JWK. A set's other kinds are passed over. */
export function loadPublicKeys(file: string): PublicKey[] {
  const value = parseJson(readText(file));
  const isSet = isObject(value) && Array.isArray(value.keys);
  const keys = (isSet ? (value.keys as unknown[]) : [value]).map((one) =>
    readPublicKey(isSet ? keyMembers(one) : one),
  );
  const found = keys.filter((key) => key !== undefined);
  if (found.length > 0) return found;
  throw new CommandFailure('failed', `${file} has no public key of Ed25519 or P-256, as JWK`);
}

/** The entries of a JWK set also have `kid`, `use` and `alg`. */
function keyMembers(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { kid: _kid, use: _use, alg: _alg, ...members } = value;
  return members;
}
