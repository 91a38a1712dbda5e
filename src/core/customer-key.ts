// Keys that customers bring with each request (SSE-C of S3), and what is kept to know one again:
// never the key, but a MAC by what derives from it, from a random salt and from a root key. Bytes
// are encrypted with AES-256-CTR (NIST SP 800-38A) before they are stored like any others, so what
// is stored is authenticated, moved and verified by who has no such key. Invariant: no key and
// counter are used twice, since each write has a random nonce of its own, of which its key derives.
// Format: docs/formats/extent.md.
import {
  type Cipher,
  createCipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import { IntegrityError } from './errors.ts';
import type { Keyring } from './keyring.ts';

export const customerKeyBytes = 32;
export const customerNonceBytes = 16;
const blockBytes = 16;

/** What is kept of an object, or of an upload, whose bytes a customer's key encrypts. */
export interface CustomerSeal {
  /** Of the root key of which its keys derive, too. */
  epoch: number;
  /** 16 bytes, base64. */
  salt: string;
  /** 32 bytes, base64. */
  verifier: string;
  /** The nonces of its parts in order, joined, base64; an upload that is open has none. */
  nonces?: string;
}

/** Turns bytes, in order, into as many others; those given stay as they are. */
export type Transform = (bytes: Buffer) => Buffer;

/** What a customer's key is for one object or upload. */
export class CustomerSecret {
  readonly #secret: KeyObject;

  private constructor(secret: Buffer) {
    this.#secret = createSecretKey(secret);
    secret.fill(0);
  }

  /** For what is to be written. `key`: 32 bytes. */
  static create(
    keyring: Keyring,
    tenant: string,
    key: Buffer,
  ): { secret: CustomerSecret; seal: CustomerSeal } {
    const epoch = keyring.currentEpoch;
    const salt = randomBytes(customerNonceBytes);
    const secret = new CustomerSecret(derive(keyring.customerKey(tenant, epoch), key, salt));
    const verifier = secret.#mac('verifier').toString('base64');
    return { secret, seal: { epoch, salt: salt.toString('base64'), verifier } };
  }

  /** null: it is another key. Throws IntegrityError when the epoch is unknown. */
  static open(
    keyring: Keyring,
    tenant: string,
    { seal, key }: { seal: CustomerSeal; key: Buffer },
  ): CustomerSecret | null {
    const salt = Buffer.from(seal.salt, 'base64');
    const secret = new CustomerSecret(derive(keyring.customerKey(tenant, seal.epoch), key, salt));
    const verifier = Buffer.from(seal.verifier, 'base64');
    const found = secret.#mac('verifier');
    return verifier.length === found.length && timingSafeEqual(verifier, found) ? secret : null;
  }

  /** Encrypts what one write stores, from its beginning on. */
  encrypt(nonce: Buffer): Transform {
    const cipher = this.#cipherAt(nonce, 0);
    return (bytes) => cipher.update(bytes);
  }

  /**
   * Decrypts what is stored from `start` on. `sizes`: of the object's parts, in order. Throws
   * IntegrityError where there is not a nonce for each.
   */
  decrypt(seal: CustomerSeal, sizes: readonly number[], start: number): Transform {
    const nonces = Buffer.from(seal.nonces ?? '', 'base64');
    if (nonces.length !== sizes.length * customerNonceBytes) {
      throw new IntegrityError(`an object of ${sizes.length} parts without a nonce for each`);
    }
    let part = 0;
    let at = start;
    while (part < sizes.length && at >= (sizes[part] as number)) at -= sizes[part++] as number;
    let cipher: Cipher | null = null;
    return (bytes) => {
      const pieces: Buffer[] = [];
      for (let from = 0; from < bytes.length; ) {
        const size = sizes[part];
        if (size === undefined) throw new IntegrityError('an object longer than its parts');
        if (at === size) {
          [part, at, cipher] = [part + 1, 0, null];
          continue;
        }
        cipher ??= this.#cipherAt(nonceOf(nonces, part), at);
        const piece = bytes.subarray(from, from + size - at);
        pieces.push(cipher.update(piece));
        from += piece.length;
        at += piece.length;
      }
      const [only] = pieces;
      return only && pieces.length === 1 ? only : Buffer.concat(pieces);
    };
  }

  #cipherAt(nonce: Buffer, position: number): Cipher {
    const counter = Buffer.alloc(blockBytes);
    counter.writeBigUInt64BE(BigInt(Math.floor(position / blockBytes)), blockBytes - 8);
    const key = this.#mac('cipher', nonce);
    const cipher = createCipheriv('aes-256-ctr', createSecretKey(key), counter);
    key.fill(0);
    cipher.update(Buffer.alloc(position % blockBytes));
    return cipher;
  }

  #mac(purpose: 'verifier' | 'cipher', nonce: Buffer = Buffer.alloc(0)): Buffer {
    const mac = createHmac('sha256', this.#secret);
    return mac.update(`bursar/customer-${purpose}/v1\0`).update(nonce).digest();
  }
}

function nonceOf(nonces: Buffer, part: number): Buffer {
  return nonces.subarray(part * customerNonceBytes, (part + 1) * customerNonceBytes);
}

function derive(tenantKey: Buffer, key: Buffer, salt: Buffer): Buffer {
  const both = Buffer.concat([tenantKey, key]);
  const secret = Buffer.from(hkdfSync('sha256', both, salt, 'bursar/customer/v1', 32));
  both.fill(0);
  return secret;
}

/** The same of bytes as they come. */
export async function* transformed(
  bytes: AsyncIterable<Buffer>,
  transform: Transform,
): AsyncGenerator<Buffer, void, void> {
  for await (const piece of bytes) yield transform(piece);
}
