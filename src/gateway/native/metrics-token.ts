// The token with which machines that watch the gateway are told numbers and names.
// Specification: RFC 6750.
import { createHash, timingSafeEqual } from 'node:crypto';
import { Refusal } from '../../core/errors.ts';

/**
 * `authorization`: the header, if there was one; `token`: what the gateway was given, if it was.
 * False: there are no credentials. Throws `Refusal` InvalidBearerToken for credentials that are not
 * the token.
 */
export function isMetricsToken(
  authorization: string | undefined,
  token: string | undefined,
): boolean {
  if (authorization === undefined) return false;
  const [, given] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
  const isRight =
    given !== undefined && token !== undefined && timingSafeEqual(digest(given), digest(token));
  if (!isRight) throw new Refusal('InvalidBearerToken');
  return true;
}

/** Equal lengths, for texts that need not have them. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
