// What an answer of 401 asks for, in its header WWW-Authenticate.
// Specification: RFC 6750 section 3, RFC 9449 section 7.1, RFC 9110 section 11.6.1.

import { algorithms } from '../../authz/tokens/keys.ts';
import type { Refusal } from '../../core/errors.ts';

const bearer = 'Bearer realm="bursar", error="invalid_token"';
const proof = `DPoP error="invalid_dpop_proof", algs="${algorithms.join(' ')}"`;

/** undefined: the refusal is not one of a token. */
export function challengeOf({ code, status }: Refusal): string | undefined {
  if (status !== 401) return undefined;
  return code === 'InvalidProof' ? `${bearer}, ${proof}` : bearer;
}
