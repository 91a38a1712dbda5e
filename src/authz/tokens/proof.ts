// The proof that who sends a request holds the key that its token is bound to: an HTTP Message
// Signature, or the weaker DPoP. Invariant: a proof is good for one token, one request and a few
// minutes; that it is not used twice is the nonce store's to say.
import { randomBytes } from 'node:crypto';
import { nonceLengthMax, nonceLengthMin, proofBytesMax, proofWindowMs } from './bounds.ts';
import { hashToken } from './chain.ts';
import { proofRefusal } from './faults.ts';
import { isSignedByAside, readJws, signJws } from './jws.ts';
import { type PrivateKey, type PublicKey, thumbprintOfJwk } from './keys.ts';
import { type MessageSignature, signMessage, verifyMessageSignature } from './message-signature.ts';
import { fieldValue, type RequestDescription, targetUri } from './request-description.ts';

export interface Proof extends MessageSignature {
  kind: 'message-signature' | 'dpop';
  /**
   * What it proves, in the words of audit records. `body-signed`: all of the request; the body must
   * have the SHA-256 below, or there must be none. `headers-signed`: a part of the headers only.
   */
  evidence: 'body-signed' | 'headers-signed';
}

interface ProofExpectation {
  /** The chain's `boundKey`. */
  key: PublicKey;
  /** The chain's `hash`. */
  tokenHash: string;
  nowMs: number;
  windowMs?: number;
}

/** Verifies the request's proof. Throws Refusal InvalidProof; `Missing` where there is none. */
export async function verifyProof(
  request: RequestDescription,
  expected: ProofExpectation,
): Promise<Proof> {
  const proof = await readProof(request, expected);
  const windowMs = expected.windowMs ?? proofWindowMs;
  if (Math.abs(expected.nowMs - proof.createdMs) > windowMs) {
    throw proofRefusal('Time', `must be made within ${windowMs / 1000} seconds of its use`);
  }
  const { length } = proof.nonce;
  if (length < nonceLengthMin || length > nonceLengthMax) {
    const bounds = `${nonceLengthMin} to ${nonceLengthMax}`;
    throw proofRefusal('Claims', `must have a nonce ("nonce" or "jti") of ${bounds} characters`);
  }
  return proof;
}

async function readProof(
  request: RequestDescription,
  { key, tokenHash }: ProofExpectation,
): Promise<Proof> {
  const isSigned = fieldValue(request, 'signature-input') !== undefined;
  const hasDpop = fieldValue(request, 'dpop') !== undefined;
  if (isSigned && hasDpop) {
    throw proofRefusal('Malformed', 'must be one: either Signature-Input or DPoP');
  }
  if (isSigned) {
    const signed = await verifyMessageSignature(request, key);
    return { kind: 'message-signature', evidence: 'body-signed', ...signed };
  }
  if (!hasDpop) throw proofRefusal('Missing', 'is missing: the token is bound to a key');
  const dpop = await verifyDpop(request, { key, tokenHash });
  return { kind: 'dpop', evidence: 'headers-signed', contentSha256: undefined, ...dpop };
}

export interface ProofRequest {
  key: PrivateKey;
  token: string;
  /** undefined: message-signature. */
  kind?: Proof['kind'];
  /** SHA-256 of the body; undefined: there is none. DPoP does not cover it. */
  contentSha256?: Uint8Array;
  nowMs: number;
}

/**
 * The headers that a request with a bound token needs: `authorization` and the proof. All
 * `x-amz-*` and `x-bursar-*` headers must be in `request.headers` already. Throws Refusal
 * InvalidProof when the URL is not absolute.
 */
export function createProof(
  request: Omit<RequestDescription, 'hasBody'>,
  { key, token, kind, contentSha256, nowMs }: ProofRequest,
): Record<string, string> {
  const nonce = randomBytes(16).toString('base64url');
  const isDpop = kind === 'dpop';
  const authorization = `${isDpop ? 'DPoP' : 'Bearer'} ${token}`;
  const headers = { ...request.headers, authorization };
  const described = { ...request, headers, hasBody: contentSha256 !== undefined };
  if (isDpop) {
    const tokenHash = hashToken(token);
    return {
      authorization,
      dpop: signDpop(described, { key, tokenHash, createdMs: nowMs, nonce }),
    };
  }
  const signed = signMessage(described, { key, contentSha256, createdMs: nowMs, nonce });
  return { authorization, ...signed };
}

// DPoP proofs: a JWS beside the request that names its method and its URL without the query. They
// cover neither query, headers nor body, so they are the weaker of the two proofs; they are here
// because OAuth clients have them.
// Specification: RFC 9449 sections 4.2, 4.3 and 7.

const proofType = 'dpop+jwt';

type DpopProof = Omit<MessageSignature, 'contentSha256'>;

/**
 * Verifies the request's `DPoP` header with the key that the token is bound to; `tokenHash` is the
 * token's. Throws Refusal InvalidProof. Time and nonce are yet to be checked.
 */
async function verifyDpop(
  request: RequestDescription,
  { key, tokenHash }: { key: PublicKey; tokenHash: string },
): Promise<DpopProof> {
  const text = fieldValue(request, 'dpop') ?? '';
  if (text.length > proofBytesMax) {
    throw proofRefusal('TooLarge', `is longer than ${proofBytesMax} bytes`);
  }
  const jws = readJws(text, { type: proofType, members: ['jwk'] }, proofRefusal);
  if (thumbprintOfJwk(jws.header.jwk) !== key.thumbprint) {
    throw proofRefusal('Key', 'has as "jwk" another key than the one the token is bound to');
  }
  if (!(await isSignedByAside(jws, key)))
    throw proofRefusal('Signature', 'is not signed by its key');
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
function signDpop(
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
