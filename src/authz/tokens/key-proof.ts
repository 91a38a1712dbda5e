// Proof of possession, for enrolling a public key: who enrols it holds the private half, means to
// enrol it here, and for this principal. Invariant: a proof says for whom, so nobody can enrol
// another's key as their own with a proof that they saw.
import { clockSkewMs, proofBytesMax } from './bounds.ts';
import { proofRefusal } from './faults.ts';
import { isSignedBy, readJws, signJws } from './jws.ts';
import { type PrivateKey, type PublicKey, readPublicKey } from './keys.ts';
import { otherMember } from './strict-json.ts';

const proofType = 'bursar-key-proof+jwt';
const claimNames = ['aud', 'sub', 'iat', 'nonce', 'accessKeyId', 'thumbprint'];
/** People copy it from one machine to another. */
const lifeMs = 60 * 60_000;

export interface KeyProofSubject {
  /** The gateway's URL. */
  audience: string;
  /** The principal whose key it will be, `tenant/name`. */
  principal: string;
  /** What the gateway gave out for this enrolment, if it did. */
  nonce?: string;
  /** For a key that verifies SigV4A: the access key whose signatures it verifies. */
  accessKeyId?: string;
  nowMs: number;
}

/** A compact JWS that proves the possession of `key`. */
export function createKeyProof(key: PrivateKey, subject: KeyProofSubject): string {
  return signJws(key, {
    type: proofType,
    claims: {
      aud: subject.audience,
      sub: subject.principal,
      iat: Math.floor(subject.nowMs / 1000),
      ...(subject.nonce !== undefined && { nonce: subject.nonce }),
      ...(subject.accessKeyId !== undefined && { accessKeyId: subject.accessKeyId }),
      thumbprint: key.publicKey.thumbprint,
    },
  });
}

/**
 * The key of `jwk`, if `proof` proves its possession; for an hour after it was made. Throws Refusal
 * InvalidProof.
 */
export function verifyKeyProof(proof: string, jwk: unknown, expected: KeyProofSubject): PublicKey {
  const key = readPublicKey(jwk);
  if (key === undefined) {
    throw proofRefusal('Key', 'is about a JWK that is not a public key of Ed25519 or P-256');
  }
  if (proof.length > proofBytesMax) {
    throw proofRefusal('TooLarge', `is longer than ${proofBytesMax} bytes`);
  }
  const jws = readJws(proof, { type: proofType, members: [] }, proofRefusal);
  if (!isSignedBy(jws, key)) throw proofRefusal('Signature', 'is not signed by the key');
  const { aud, sub, iat, nonce, accessKeyId, thumbprint } = jws.claims;
  if (otherMember(jws.claims, claimNames) !== undefined) {
    throw proofRefusal('Claims', 'has a claim that is not known');
  }
  if (aud !== expected.audience) throw proofRefusal('Claims', 'is for another gateway');
  if (sub !== expected.principal) throw proofRefusal('Claims', 'is for another principal');
  if (nonce !== expected.nonce) throw proofRefusal('Claims', 'has another nonce');
  if (accessKeyId !== expected.accessKeyId) {
    throw proofRefusal('Claims', 'is for another access key');
  }
  if (thumbprint !== key.thumbprint) throw proofRefusal('Claims', 'has another thumbprint');
  const ageMs = Number.isSafeInteger(iat) ? expected.nowMs - (iat as number) * 1000 : Number.NaN;
  if (!(ageMs >= -clockSkewMs && ageMs <= lifeMs)) {
    throw proofRefusal('Time', 'is older than an hour, or in the future');
  }
  return key;
}
