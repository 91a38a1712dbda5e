// Secrets at rest: AES-256-GCM (NIST SP 800-38D) under a key of the keyring's current epoch. A
// sealed value is `version 1 | epoch 2 | nonce 12 | tag 16 | ciphertext`; version, epoch and its
// context (whose secret it is) are authenticated with it. Invariant: a sealed value that was
// altered, or moved to another row, does not open. Nonces are random: 2^32 values under one key are
// safe, far more than we ever store; what is sealed oftener takes a key of its own for each
// context.
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import type { Keyring } from './keyring.ts';

const version = 1;
const nonceBytes = 12;
const tagBytes = 16;
const prefixBytes = 3;
const headBytes = prefixBytes + nonceBytes + tagBytes;
const cipherName = 'aes-256-gcm';

/** The key of 32 bytes for a value of this epoch and context. */
export type SealingKey = (epoch: number, context: string) => Uint8Array;

export class Sealer {
  readonly #keyring: Keyring;
  readonly #keyOf: (epoch: number, context: string) => KeyObject;

  constructor(keyring: Keyring, keyOf: SealingKey = (epoch) => keyring.secretsKey(epoch)) {
    this.#keyring = keyring;
    this.#keyOf = (epoch, context) => createSecretKey(keyOf(epoch, context));
  }

  /** Seals `plain`; only `open` with the same context gives it back. */
  seal(plain: Uint8Array, context: string): Buffer {
    const epoch = this.#keyring.currentEpoch;
    const prefix = Buffer.of(version, epoch >> 8, epoch & 0xff);
    const nonce = randomBytes(nonceBytes);
    const options = { authTagLength: tagBytes };
    const cipher = createCipheriv(cipherName, this.#keyOf(epoch, context), nonce, options);
    cipher.setAAD(associatedData(prefix, context));
    const body = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([prefix, nonce, cipher.getAuthTag(), body]);
  }

  /** Throws when `sealed` was altered, or was sealed under another key or for another context. */
  open(sealed: Uint8Array, context: string): Buffer {
    if (sealed.length < headBytes || sealed[0] !== version) {
      throw new Error(`a sealed value is damaged (${context})`);
    }
    const prefix = sealed.subarray(0, prefixBytes);
    const nonce = sealed.subarray(prefixBytes, prefixBytes + nonceBytes);
    const epoch = ((prefix[1] as number) << 8) | (prefix[2] as number);
    try {
      const options = { authTagLength: tagBytes };
      const decipher = createDecipheriv(cipherName, this.#keyOf(epoch, context), nonce, options);
      decipher.setAAD(associatedData(prefix, context));
      decipher.setAuthTag(sealed.subarray(prefixBytes + nonceBytes, headBytes));
      return Buffer.concat([decipher.update(sealed.subarray(headBytes)), decipher.final()]);
    } catch (cause) {
      throw new Error(`a sealed value does not open (${context})`, { cause });
    }
  }
}

/** Version and epoch are authenticated too: no later version can be read as this one. */
function associatedData(prefix: Uint8Array, context: string): Buffer {
  return Buffer.concat([prefix, Buffer.from(context, 'utf8')]);
}
