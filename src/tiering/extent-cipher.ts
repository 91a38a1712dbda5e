// AES-256-GCM (NIST SP 800-38D) of the chunks of an extent, under a key of the extent's own; the
// nonce is the index of the chunk. Invariant: no key and nonce are used twice, since an extent's id
// is given once, its key is derived from it, and each of its chunks is sealed once. Node makes a
// cipher of a key object in a fifth of the time that it takes of a key's bytes, and such an object
// takes longer than the cipher: hence they are what keys are kept as.
import {
  type CipherGCM,
  createCipheriv,
  createDecipheriv,
  type DecipherGCM,
  type KeyObject,
} from 'node:crypto';

const cipherName = 'aes-256-gcm';
const nonceBytes = 12;
export const gcmTagBytes = 16;
const options = { authTagLength: gcmTagBytes };

/** Serves a whole thread: a cipher copies it when it is made. */
const nonce = Buffer.alloc(nonceBytes);

function nonceOf(index: number): Buffer {
  nonce.writeUInt32BE(index, nonceBytes - 4);
  return nonce;
}

/** Encrypts a chunk in place; gives GCM's tag. */
export function encryptChunk(key: KeyObject, index: number, data: Buffer): Buffer {
  const cipher = createCipheriv(cipherName, key, nonceOf(index), options);
  applyInPlace(cipher, data);
  cipher.final();
  return cipher.getAuthTag();
}

/** Decrypts a chunk in place. False: it is not what was encrypted, and `data` means nothing. */
export function decryptChunk(key: KeyObject, index: number, data: Buffer, tag: Buffer): boolean {
  const decipher = createDecipheriv(cipherName, key, nonceOf(index), options);
  decipher.setAuthTag(tag);
  applyInPlace(decipher, data);
  try {
    decipher.final();
    return true;
  } catch {
    return false;
  }
}

/**
 * A third of a chunk, in blocks of AES. Larger ones are mapped and unmapped by the C library each
 * time, which costs as much again. And Node copies each result to memory right behind it: where
 * that is a little more than a multiple of 4 KiB away, the processor takes its loads for what was
 * just stored, and the copy takes as long as the cipher. So this is not near such a multiple.
 */
const pieceBytes = 87_392;

/**
 * Also in memory that threads share. Node's ciphers give new memory each time: what they give is
 * let go of at once, so that the next piece gets the same, which is in the processor's cache. To
 * wait for the collector costs more than the cipher.
 */
function applyInPlace(cipher: CipherGCM | DecipherGCM, data: Buffer): void {
  for (let at = 0; at < data.length; at += pieceBytes) {
    const end = Math.min(at + pieceBytes, data.length);
    const piece = cipher.update(data.subarray(at, end));
    // As of `copyIntoShared`: `fill` is memcpy here, and `set` is not.
    data.fill(piece, at, end);
    piece.buffer.transfer(0);
  }
}
