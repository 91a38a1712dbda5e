// The keys with which the gateway signs tokens: Ed25519, one for each epoch of the keyring, from
// which they are derived, so that a gateway that is restored from its root keys still knows its
// own tokens. Invariant: the newest epoch's key signs; those of all epochs verify.
// Specification: RFC 8032 section 5.1.5 (the seed), RFC 7517 and RFC 7638 (how others see them).

import type { Keyring } from '../core/keyring.ts';
import { getOrMake } from '../core/maps.ts';
import { type PrivateKey, type PublicKey, readPrivateKey } from './tokens/keys.ts';

/** What stands before the seed in the PKCS#8 form of an Ed25519 key (RFC 8410 section 7). */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

export class TokenKeys {
  readonly #keyring: Keyring;
  readonly #byEpoch = new Map<number, PrivateKey>();

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  /** What new tokens are signed with. */
  get current(): PrivateKey {
    return this.#at(this.#keyring.currentEpoch);
  }

  /** The key of this thumbprint, the `kid` of its tokens; undefined: it was never the gateway's. */
  find(thumbprint: string): PublicKey | undefined {
    return this.#all().find((key) => key.thumbprint === thumbprint);
  }

  /** The public halves as a JWK set. */
  get jwks(): { keys: object[] } {
    const keys = this.#all().map(({ jwk, thumbprint, algorithm }) => ({
      ...jwk,
      kid: thumbprint,
      alg: algorithm,
      use: 'sig',
    }));
    return { keys };
  }

  #all(): PublicKey[] {
    return this.#keyring.epochs.map((epoch) => this.#at(epoch).publicKey);
  }

  #at(epoch: number): PrivateKey {
    return getOrMake(this.#byEpoch, epoch, () => keyOfSeed(this.#keyring.tokensKey(epoch)));
  }
}

function keyOfSeed(seed: Buffer): PrivateKey {
  const body = Buffer.concat([pkcs8Prefix, seed]).toString('base64');
  const key = readPrivateKey(`-----BEGIN PRIVATE KEY-----\n${body}\n-----END PRIVATE KEY-----\n`);
  if (key === undefined) throw new Error('a seed of 32 bytes makes no Ed25519 key');
  return key;
}
