// Files of a principal's own keys, on its own machine: private keys as JWK or PEM, and credentials
// of which a SigV4A key is derived. Invariant: what is private leaves the machine only as a proof
// that it is held.
import { readFileSync } from 'node:fs';
import { createKeyProof } from '../authz/tokens/key-proof.ts';
import { type PrivateKey, type PublicJwk, readPrivateKey } from '../authz/tokens/keys.ts';
import { nowMs } from '../core/clock.ts';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { derivePrivateKey } from '../core/sigv4a.ts';
import { profileDefault, readCredentials } from '../server/folder/credentials-file.ts';

/** As a file's name: the standard input. */
export const stdin = '-';

/** The text of a file. Throws CommandFailure. */
export function readText(file: string): string {
  const from = file === stdin ? 0 : file;
  return orFail('failed', `cannot read ${file}: `, () => readFileSync(from, 'utf8'));
}

/** The private key that signs tokens and proofs. Throws CommandFailure. */
export function loadPrivateKey(file: string): PrivateKey {
  const key = readPrivateKey(readText(file));
  if (key) return key;
  const wanted = 'a private key of Ed25519 or P-256, as JWK or PKCS#8 PEM';
  throw new CommandFailure('failed', `${file} is not ${wanted}`);
}

/** The private key that signs S3 requests by SigV4A in the place of these credentials. */
export function deriveAsymmetricKey(accessKeyId: string, secret: string): PrivateKey {
  const jwk = derivePrivateKey(accessKeyId, secret).export({ format: 'jwk' });
  return readPrivateKey(JSON.stringify(jwk)) as PrivateKey;
}

/** What the gateway takes to enrol a public key. */
export interface Enrolment {
  jwk: PublicJwk;
  proof: string;
  purpose?: 'sigv4a';
  accessKeyId?: string;
}

/** The enrolment of the key in a file, proved for a principal. Throws CommandFailure. */
export function createEnrolment(
  file: string,
  subject: { audience: string; principal: string; nonce?: string },
): Enrolment {
  const profile = file === stdin ? undefined : readCredentials(file, profileDefault);
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secret } = profile ?? {};
  if (accessKeyId === undefined || secret === undefined) {
    const key = loadPrivateKey(file);
    return { jwk: key.publicKey.jwk, proof: createKeyProof(key, { ...subject, nowMs: nowMs() }) };
  }
  if (!accessKeyId.startsWith('AKIA')) {
    const message = `${file} has not what "bursar key new --sigv4a" makes, but the access key`;
    throw new CommandFailure('failed', `${message} ${accessKeyId}, whose secret the gateway knows`);
  }
  const key = deriveAsymmetricKey(accessKeyId, secret);
  const proof = createKeyProof(key, { ...subject, accessKeyId, nowMs: nowMs() });
  return { jwk: key.publicKey.jwk, proof, purpose: 'sigv4a', accessKeyId };
}
