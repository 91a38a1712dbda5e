// HMAC-SHA256 (RFC 2104) of a list of fields, docs/formats/catalog-macs.md: each field is its
// length in bytes (4, big-endian) and its bytes, so no two lists are the same message; a null is
// the length 2^32 - 1 and nothing. Invariant: what is not of the type that its field has is not
// authentic. The message is put together in one buffer of the thread, behind the key's pad
// (hmac.ts).
import { timingSafeEqual } from 'node:crypto';
import { IntegrityError } from './errors.ts';
import { macBehindPad, macBytes, type Pads, padBytes, padsOf } from './hmac.ts';

const nullLength = 0xffff_ffff;
/** The same in Latin-1. */
const nullField = '\xff\xff\xff\xff';
const beyondAscii = /[^\0-\x7f]/;
/** Texts of so many units, if in ASCII, are written here: a call into Node takes longer. */
const shortLengthMax = 64;
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
    this.#reserve(value.length * 3);
    const begin = this.#length + 4;
    const count = isWrittenShort(value, this.#bytes, begin)
      ? value.length
      : this.#bytes.write(value, begin);
    this.#bytes.writeUInt32BE(count, this.#length);
    this.#length += 4 + count;
    return this;
  }

  /**
   * Adds each as `text` does, and a number as its decimal digits. Fields in ASCII, as nearly all
   * are, come as one write, since a call into Node takes longer than what it does for a short one.
   */
  texts(values: readonly unknown[]): this {
    let fields = '';
    for (const text of values) {
      if (text === null) fields += nullField;
      else if (typeof text === 'number' || typeof text === 'bigint') {
        const digits = String(text);
        fields += `\0\0\0${String.fromCharCode(digits.length)}${digits}`;
      } else if (typeof text !== 'string') throw unfit(text);
      else if (text.length <= 0xffff && !beyondAscii.test(text)) {
        fields += String.fromCharCode(0, 0, text.length >> 8, text.length & 0xff) + text;
      } else {
        this.#addLatin1(fields).text(text);
        fields = '';
      }
    }
    return this.#addLatin1(fields);
  }

  /** Adds a whole number from 0 on, in 8 bytes, big-endian. */
  number(value: number | null): this {
    if (value === null) return this.#addNull();
    if (!Number.isSafeInteger(value) || value < 0) throw unfit(value);
    this.#reserve(8);
    this.#bytes.writeUInt32BE(8, this.#length);
    this.#bytes.writeUInt32BE(Math.floor(value / 2 ** 32), this.#length + 4);
    this.#bytes.writeUInt32BE(value % 2 ** 32, this.#length + 8);
    this.#length += 12;
    return this;
  }

  bytes(value: Uint8Array | null): this {
    if (value === null) return this.#addNull();
    if (!(value instanceof Uint8Array)) throw unfit(value);
    this.#reserve(value.length);
    this.#bytes.writeUInt32BE(value.length, this.#length);
    this.#bytes.set(value, this.#length + 4);
    this.#length += 4 + value.length;
    return this;
  }

  /**
   * The message's MAC, 32 bytes, in memory of its own: of a part of Node's pool the whole pool
   * would be copied with each message to another thread, and kept for as long as the MAC is.
   */
  mac(): Buffer {
    const mac = Buffer.allocUnsafeSlow(macBytes);
    mac.write(this.#finish(), 'latin1');
    return mac;
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

  #addLatin1(fields: string): this {
    this.#reserve(fields.length);
    this.#length += this.#bytes.write(fields, this.#length, 'latin1');
    return this;
  }

  #addNull(): this {
    this.#reserve(0);
    this.#bytes.writeUInt32BE(nullLength, this.#length);
    this.#length += 4;
    return this;
  }

  #reserve(fieldBytes: number): void {
    const needed = this.#length + 4 + fieldBytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#bytes.length));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

/** Writes a short text in ASCII; false: it is another, of which some may be written. */
function isWrittenShort(value: string, bytes: Buffer, begin: number): boolean {
  if (value.length > shortLengthMax) return false;
  for (let i = 0; i < value.length; i++) {
    const unit = value.charCodeAt(i);
    if (unit > 0x7f) return false;
    bytes[begin + i] = unit;
  }
  return true;
}

function unfit(value: unknown): IntegrityError {
  return new IntegrityError(`a field of a stored row is of the type ${typeof value}`);
}
