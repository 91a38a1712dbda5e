// What can be wrong with a token or a proof. Each is a Refusal that says which link and why, in
// words taken from the token alone: it tells an honest client what to change, and nobody what
// exists behind the gateway. That a key is unknown and that a signature is wrong read the same.
import { Refusal } from '../../core/errors.ts';

export type TokenFault =
  | 'TooLarge'
  | 'Malformed'
  | 'Header'
  | 'Claims'
  | 'Scope'
  | 'Signature'
  | 'Audience'
  | 'Expired'
  | 'NotYetValid'
  | 'Depth'
  | 'Parent'
  | 'Widened';

/** A refusal of a token; `link` counts from 0, undefined when it is about the whole token. */
export function tokenRefusal(fault: TokenFault, message: string, link?: number): Refusal {
  const code = fault === 'Expired' ? 'ExpiredBearerToken' : 'InvalidBearerToken';
  const where = link === undefined ? 'The token' : `Link ${link} of the token`;
  const fields: Record<string, string> = { Reason: fault };
  if (link !== undefined) fields.Link = String(link);
  return new Refusal(code, { message: `${where} ${message}.`, fields });
}

export type ProofFault =
  | 'Missing'
  | 'TooLarge'
  | 'Malformed'
  | 'Header'
  | 'Claims'
  | 'Key'
  | 'Signature'
  | 'Time'
  | 'Token'
  | 'Request'
  | 'Uncovered'
  | 'Digest'
  | 'Replayed';

export function proofRefusal(fault: ProofFault, message: string): Refusal {
  return new Refusal('InvalidProof', {
    message: `The proof of the key ${message}.`,
    fields: { Reason: fault },
  });
}
