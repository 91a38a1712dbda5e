// HMAC-SHA256 (RFC 2104) of short messages. Several are computed for each request, so each of its
// two hashes is one call over a buffer of the thread, since nothing here waits: half the time of
// node's Hmac, which makes an object each time; hence also the digests as texts, which need no
// Buffer.
import { hash } from 'node:crypto';

/** The length of the padded key in front of a message. */
export const padBytes = 64;
export const macBytes = 32;

/** A key of 32 bytes, which is used again and again, with RFC 2104's two paddings. */
export interface Pads {
  inner: Uint8Array;
  outer: Uint8Array;
}

/** Keys in use stay the same objects, so their pads are made once. */
const keptPads = new WeakMap<Uint8Array, Pads>();

/** Throws where the key has not 32 bytes. */
export function padsOf(key: Uint8Array): Pads {
  let pads = keptPads.get(key);
  if (!pads) {
    if (key.length !== macBytes) throw new Error(`a MAC key of ${key.length} bytes`);
    const padded = Buffer.alloc(padBytes);
    padded.set(key);
    pads = { inner: padded.map((byte) => byte ^ 0x36), outer: padded.map((byte) => byte ^ 0x5c) };
    keptPads.set(key, pads);
  }
  return pads;
}

const outerMessage = Buffer.allocUnsafeSlow(padBytes + macBytes);

/** The MAC of what lies behind the first `padBytes` of `message`, which are written over. */
export function macBehindPad(
  { inner, outer }: Pads,
  message: Uint8Array,
  encoding: 'hex' | 'binary',
): string {
  message.set(inner);
  outerMessage.set(outer);
  outerMessage.write(hash('sha256', message, 'binary'), padBytes, 'latin1');
  return hash('sha256', outerMessage, encoding);
}

/** Texts of at most so many UTF-16 units share a buffer, which has room for their UTF-8. */
const keptLengthMax = 1024;
const keptText = Buffer.allocUnsafeSlow(padBytes + 3 * keptLengthMax);

/** The MAC of a text in UTF-8: 64 lower-case hexadecimal digits. */
export function macOfText(key: Uint8Array, text: string): string {
  const { length } = text;
  const message = length <= keptLengthMax ? keptText : Buffer.alloc(padBytes + 3 * length);
  const end = padBytes + message.write(text, padBytes);
  return macBehindPad(padsOf(key), message.subarray(0, end), 'hex');
}

const shortMessageBytesMax = 64;
const shortMessage = Buffer.allocUnsafeSlow(padBytes + shortMessageBytesMax);

/**
 * Writes the MAC by a key that is used once or a few times, 32 bytes, into `into`, which may be the
 * key. Throws where the key, or the message, is longer than 64 bytes.
 */
export function writeMac(key: Uint8Array, message: Uint8Array, into: Buffer): void {
  if (key.length > padBytes) throw new Error(`a MAC key of ${key.length} bytes`);
  shortMessage.fill(0x36, 0, padBytes);
  outerMessage.fill(0x5c, 0, padBytes);
  for (let i = 0; i < key.length; i++) {
    shortMessage[i] = 0x36 ^ (key[i] as number);
    outerMessage[i] = 0x5c ^ (key[i] as number);
  }
  shortMessage.set(message, padBytes);
  const inner = hash('sha256', shortMessage.subarray(0, padBytes + message.length), 'binary');
  outerMessage.write(inner, padBytes, 'latin1');
  into.write(hash('sha256', outerMessage, 'binary'), 'latin1');
}
