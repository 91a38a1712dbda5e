// Secrets at rest: AES-256-GCM (NIST SP 800-38D) under a key file that is not in the database.
// A sealed value is `version 1 | nonce 12 | tag 16 | ciphertext`; its context (whose secret it is)
// is authenticated with it. Invariant: a sealed value that was altered, or moved to another row,
// does not open. Nonces are random: 2^32 values under one key are safe, far more than we ever seal.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolderDurably, writeFileDurably } from './durable-file.ts';

const version = 1;
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + nonceBytes + tagBytes;

export class Sealer {
  readonly #key: Buffer;

  private constructor(key: Buffer) {
    this.#key = key;
  }

  /**
   * Reads the key file, or makes it (random, mode 0600, durable) when there is none.
   * Throws when it is not 32 bytes long or when others than its owner may read it.
   */
  static open(keyFile: string): Sealer {
    if (!existsSync(keyFile)) {
      makeFolderDurably(dirname(keyFile));
      writeFileDurably(keyFile, randomBytes(keyBytes), { mode: 0o600, ifExists: 'keep' });
    }
    const mode = statSync(keyFile).mode & 0o777;
    if ((mode & 0o077) !== 0) {
      const shown = mode.toString(8).padStart(3, '0');
      throw new Error(`key file ${keyFile} is open to others (mode ${shown}): chmod 600 it`);
    }
    const key = readFileSync(keyFile);
    if (key.length !== keyBytes) {
      throw new Error(`key file ${keyFile} has ${key.length} bytes instead of ${keyBytes}`);
    }
    return new Sealer(key);
  }

  /** Seals `plain`; only `open` with the same context gives it back. */
  seal(plain: Uint8Array, context: string): Buffer {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes });
    cipher.setAAD(associatedData(context));
    const body = Buffer.concat([cipher.update(plain), cipher.final()]);
    return Buffer.concat([Buffer.of(version), nonce, cipher.getAuthTag(), body]);
  }

  /** Throws when `sealed` was altered, or was sealed under another key or for another context. */
  open(sealed: Uint8Array, context: string): Buffer {
    if (sealed.length < headBytes || sealed[0] !== version) {
      throw new Error(`a sealed value is damaged (${context})`);
    }
    const nonce = sealed.subarray(1, 1 + nonceBytes);
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes });
    decipher.setAAD(associatedData(context));
    decipher.setAuthTag(sealed.subarray(1 + nonceBytes, headBytes));
    try {
      return Buffer.concat([decipher.update(sealed.subarray(headBytes)), decipher.final()]);
    } catch (cause) {
      throw new Error(`a sealed value does not open (${context})`, { cause });
    }
  }
}

/** The version is authenticated too, so that no later version can be read as this one. */
function associatedData(context: string): Buffer {
  return Buffer.concat([Buffer.of(version), Buffer.from(context, 'utf8')]);
}
