// DPoP proofs: a JWS beside the request that names its method and its URL without the query. They
// cover neither query, headers nor body, so they are the weaker of the two proofs; they are here
// because OAuth clients have them.
// Specification: RFC 9449 sections 4.2, 4.3 and 7.
import { proofBytesMax } from './bounds.ts';
import { proofRefusal } from './faults.ts';
import { isSignedBy, readJws, signJws } from './jws.ts';
import { type PrivateKey, type PublicKey, thumbprintOfJwk } from './keys.ts';
import { fieldValue, type RequestDescription, targetUri } from './request-description.ts';

const proofType = 'dpop+jwt';

export interface DpopProof {
  createdMs: number;
  nonce: string;
  /** The signing input, and its signature. */
  signed: string;
  signature: Buffer;
}

/**
 * Verifies the request's `DPoP` header with the key that the token is bound to; `tokenHash` is the
 * token's. Throws Refusal InvalidProof. Time and nonce are yet to be checked.
 */
export function verifyDpop(
  request: RequestDescription,
  { key, tokenHash }: { key: PublicKey; tokenHash: string },
): DpopProof {
  const text = fieldValue(request, 'dpop') ?? '';
  if (text.length > proofBytesMax) {
    throw proofRefusal('TooLarge', `is longer than ${proofBytesMax} bytes`);
  }
  const jws = readJws(text, { type: proofType, members: ['jwk'] }, proofRefusal);
  if (thumbprintOfJwk(jws.header.jwk) !== key.thumbprint) {
    throw proofRefusal('Key', 'has as "jwk" another key than the one the token is bound to');
  }
  if (!isSignedBy(jws, key)) throw proofRefusal('Signature', 'is not signed by its key');
  const { htm, htu, ath, iat, jti } = jws.claims;
  if (htm !== request.method) throw proofRefusal('Request', 'is for another method');
  const target = withoutQuery(targetUri(request.url));
  if (target === undefined || typeof htu !== 'string' || targetUri(htu) !== target) {
    throw proofRefusal('Request', 'is for another URL');
  }
  if (ath !== tokenHash) throw proofRefusal('Token', 'is for another token');
  if (!Number.isSafeInteger(iat) || typeof jti !== 'string') {
    throw proofRefusal('Claims', 'must have "iat" in whole seconds and "jti"');
  }
  const { signingInput: signed, signature } = jws;
  return { createdMs: (iat as number) * 1000, nonce: jti, signed, signature };
}

function withoutQuery(target: string | undefined): string | undefined {
  return target?.split('?', 1)[0];
}

/** The `DPoP` header's value for a request with this token. */
export function signDpop(
  request: RequestDescription,
  given: { key: PrivateKey; tokenHash: string; createdMs: number; nonce: string },
): string {
  return signJws(given.key, {
    type: proofType,
    members: { jwk: given.key.publicKey.jwk },
    claims: {
      jti: given.nonce,
      htm: request.method,
      htu: withoutQuery(targetUri(request.url)),
      iat: Math.floor(given.createdMs / 1000),
      ath: given.tokenHash,
    },
  });
}
