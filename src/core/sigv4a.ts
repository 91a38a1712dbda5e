// AWS Signature Version 4A: signatures by a P-256 key that the access key's secret derives. Who
// verifies needs the public half only, so nobody but the secret's owner can have signed.
// Invariant: verifying never derives anything; deriving is for the owner's side.
// Specification: "AWS Signature Version 4A" of the IAM user guide; the derivation is the KDF in
// counter mode of NIST SP 800-108 with FIPS 186-4 B.4.2, as AWS's clients do it.
import { Buffer } from 'node:buffer';
import { createECDH, createHmac, createPrivateKey, type KeyObject, verify } from 'node:crypto';

export const asymmetricAlgorithm = 'AWS4-ECDSA-P256-SHA256';

const regionSet = /^[A-Za-z0-9*-]{1,64}(?:,[A-Za-z0-9*-]{1,64}){0,63}$/;

/** Whether a text can be a value of x-amz-region-set: `us-east-1,eu-*`, or `*`. */
export function isRegionSet(text: string): boolean {
  return regionSet.test(text);
}

/** DER of two numbers below 2^256, in hexadecimal. */
const signatureForm = /^(?:[0-9a-f]{2}){8,72}$/;

/**
 * Returns whether the key's owner signed the text. A signature in any other form than DER in
 * hexadecimal is refused.
 */
export function verifyText(publicKey: KeyObject, text: string, signature: string): boolean {
  if (!signatureForm.test(signature)) return false;
  return verify('sha256', Buffer.from(text, 'utf8'), publicKey, Buffer.from(signature, 'hex'));
}

/** The order of P-256's group. */
const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

/** The P-256 private key that AWS's clients derive of these credentials. */
export function derivePrivateKey(accessKeyId: string, secret: string): KeyObject {
  for (let counter = 1; counter < 255; counter++) {
    const candidate = createHmac('sha256', `AWS4A${secret}`)
      .update(Buffer.of(0, 0, 0, 1))
      .update(`${asymmetricAlgorithm}\0${accessKeyId}`)
      .update(Buffer.of(counter, 0, 0, 1, 0))
      .digest('hex');
    const scalar = BigInt(`0x${candidate}`) + 1n;
    if (scalar < order) return privateKeyOf(Buffer.from(hexOf(scalar), 'hex'));
  }
  // One of 2^32 candidates is too large.
  throw new Error('no key can be derived of these credentials');
}

function hexOf(scalar: bigint): string {
  return scalar.toString(16).padStart(64, '0');
}

function privateKeyOf(scalar: Buffer): KeyObject {
  const curve = createECDH('prime256v1');
  curve.setPrivateKey(scalar);
  const point = curve.getPublicKey();
  const jwk = {
    kty: 'EC',
    crv: 'P-256',
    d: scalar.toString('base64url'),
    x: point.subarray(1, 33).toString('base64url'),
    y: point.subarray(33).toString('base64url'),
  };
  return createPrivateKey({ key: jwk, format: 'jwk' });
}
