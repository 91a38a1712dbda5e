// HMAC-SHA256 (RFC 2104) of a list of fields, docs/formats/catalog-macs.md: each field is its
// length in bytes (4, big-endian) and its bytes, so no two lists are the same message; a null is
// the length 2^32 - 1 and nothing. Invariant: what is not of the type that its field has is not
// authentic. The message is put together in one buffer of the thread, behind the key's pad
// (hmac.ts).
import { timingSafeEqual } from 'node:crypto';
import { IntegrityError } from './errors.ts';
import { macBehindPad, macBytes, type Pads, padBytes, padsOf } from './hmac.ts';

const nullLength = 0xffff_ffff;
/** A longer message takes a buffer that is let go again afterwards. */
const keptBytesMax = 64 * 1024;

export class KeyedMessage {
  #bytes = Buffer.allocUnsafeSlow(4096);
  #length = 0;
  #key: Pads | null = null;
  readonly #computed = Buffer.allocUnsafeSlow(macBytes);

  /** Begins a message for `purpose` under a key of 32 bytes; what was begun before is dropped. */
  begin(key: Uint8Array, purpose: string): this {
    if (this.#bytes.length > keptBytesMax) this.#bytes = Buffer.allocUnsafeSlow(4096);
    this.#key = padsOf(key);
    this.#length = padBytes;
    return this.text(purpose);
  }

  /** Adds a text, in UTF-8. */
  text(value: string | null): this {
    if (value === null) return this.#addNull();
    if (typeof value !== 'string') throw unfit(value);
    const mostBytes = 3 * value.length;
    if (this.#length + 4 + mostBytes > this.#bytes.length) this.#grow(mostBytes);
    this.#length = putText(this.#bytes, this.#length, value);
    return this;
  }

  /** Adds each as `text` does, and a number as its decimal digits. */
  texts(values: readonly unknown[]): this {
    for (const value of values) {
      if (value === null) {
        this.#addNull();
        continue;
      }
      const isNumber = typeof value === 'number' || typeof value === 'bigint';
      if (!isNumber && typeof value !== 'string') throw unfit(value);
      const text = isNumber ? String(value) : value;
      if (this.#length + 4 + text.length * 3 > this.#bytes.length) this.#grow(text.length * 3);
      this.#length = putText(this.#bytes, this.#length, text);
    }
    return this;
  }

  /** Adds a whole number from 0 on, in 8 bytes, big-endian. */
  number(value: number | null): this {
    if (value === null) return this.#addNull();
    if (!Number.isSafeInteger(value) || value < 0) throw unfit(value);
    if (this.#length + 12 > this.#bytes.length) this.#grow(8);
    putLength(this.#bytes, this.#length, 8);
    putLength(this.#bytes, this.#length + 4, Math.floor(value / 2 ** 32));
    putLength(this.#bytes, this.#length + 8, value % 2 ** 32);
    this.#length += 12;
    return this;
  }

  bytes(value: Uint8Array | null): this {
    if (value === null) return this.#addNull();
    if (!(value instanceof Uint8Array)) throw unfit(value);
    if (this.#length + 4 + value.length > this.#bytes.length) this.#grow(value.length);
    putLength(this.#bytes, this.#length, value.length);
    this.#bytes.set(value, this.#length + 4);
    this.#length += 4 + value.length;
    return this;
  }

  /** The message's MAC, 32 bytes. */
  mac(): Buffer {
    return Buffer.from(this.#finish(), 'latin1');
  }

  /**
   * Returns whether `stored` is the message's MAC. The time that this takes does not tell how much
   * of it is right.
   */
  matches(stored: Uint8Array): boolean {
    if (!(stored instanceof Uint8Array) || stored.length !== macBytes) return false;
    this.#computed.write(this.#finish(), 'latin1');
    return timingSafeEqual(this.#computed, stored);
  }

  #finish(): string {
    return macBehindPad(this.#key as Pads, this.#bytes.subarray(0, this.#length), 'binary');
  }

  #addNull(): this {
    if (this.#length + 4 > this.#bytes.length) this.#grow(0);
    putLength(this.#bytes, this.#length, nullLength);
    this.#length += 4;
    return this;
  }

  /** Makes room for a field that has none. */
  #grow(fieldBytes: number): void {
    const needed = this.#length + 4 + fieldBytes;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

/** A longer text is written faster by Node, whose call takes as long as that many assignments. */
const assignedMax = 32;

/** Writes a text behind its length; gives where it ends. */
function putText(bytes: Buffer, at: number, text: string): number {
  const begin = at + 4;
  const isShort = text.length <= assignedMax;
  let count = 0;
  for (; isShort && count < text.length; count++) {
    const code = text.charCodeAt(count);
    if (code > 0x7f) break;
    bytes[begin + count] = code;
  }
  if (count < text.length) count = bytes.write(text, begin);
  putLength(bytes, at, count);
  return begin + count;
}

function putLength(bytes: Buffer, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

function unfit(value: unknown): IntegrityError {
  return new IntegrityError(`a field of a stored row is of the type ${typeof value}`);
}
