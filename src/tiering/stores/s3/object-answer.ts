// Answers to GETs of whole objects and of the ends of objects. Their bytes go into buffers of their
// own, or are compared with what was sent. Invariant: bytes are given only when all have come that
// the head announced.
import type { IncomingHttpHeaders } from 'node:http';
import { IntegrityError } from '../../../core/errors.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import type { AnswerBody } from './attempt.ts';
import { checkIsData, checkLength, parseContentRange } from './range-answer.ts';

/** No larger object is kept beside the extents. */
const objectBytesMax = 64 * 1024 * 1024;

/** Reads a whole object. One that is too large to be ours ends in an IntegrityError. */
export class ObjectAnswer implements AnswerBody {
  bytes: Buffer = Buffer.alloc(0);
  #got = 0;

  begin(status: number, headers: IncomingHttpHeaders): void {
    checkIsData(headers);
    if (status !== 200) throw new AttemptFailure('wrong-range', `HTTP ${status} to a whole GET`);
    this.allocate(headers, Number(headers['content-length']));
  }

  protected allocate(headers: IncomingHttpHeaders, sizeBytes: number): void {
    checkLength(headers, sizeBytes);
    if (sizeBytes > objectBytesMax) throw new IntegrityError(`an object of ${sizeBytes} bytes`);
    this.bytes = Buffer.allocUnsafeSlow(sizeBytes);
  }

  take(bytes: Buffer): void {
    if (this.#got + bytes.length > this.bytes.length) {
      throw new AttemptFailure('wrong-length', 'more bytes than announced');
    }
    this.#got += bytes.copy(this.bytes, this.#got);
  }

  end(): void {
    const missing = this.bytes.length - this.#got;
    if (missing > 0) throw new AttemptFailure('truncated', `${missing} bytes are missing`);
  }
}

/** Compares an object with these pieces, joined, while it comes: it is never held whole. */
export class ComparedAnswer implements AnswerBody {
  isSame = false;
  readonly #pieces: readonly Buffer[];
  #index = 0;
  #offset = 0;

  constructor(pieces: readonly Buffer[]) {
    this.#pieces = pieces;
  }

  begin(status: number, headers: IncomingHttpHeaders): void {
    checkIsData(headers);
    if (status !== 200) throw new AttemptFailure('wrong-range', `HTTP ${status} to a whole GET`);
    const sizeBytes = this.#pieces.reduce((sum, piece) => sum + piece.length, 0);
    this.isSame = headers['content-length'] === String(sizeBytes);
  }

  take(bytes: Buffer): void {
    for (let at = 0; this.isSame && at < bytes.length; ) {
      const piece = this.#pieces[this.#index];
      if (!piece) {
        this.isSame = false;
        return;
      }
      const count = Math.min(bytes.length - at, piece.length - this.#offset);
      const end = this.#offset + count;
      this.isSame = bytes.compare(piece, this.#offset, end, at, at + count) === 0;
      at += count;
      this.#offset = end;
      if (end < piece.length) continue;
      this.#index++;
      this.#offset = 0;
    }
  }

  end(): void {
    if (this.isSame && this.#index < this.#pieces.length) {
      throw new AttemptFailure('truncated', 'bytes are missing');
    }
  }
}

/** Reads the last bytes of an object, or all of it where it is no longer. */
export class EndAnswer extends ObjectAnswer {
  /** The size of the whole object. */
  sizeBytes = 0;
  readonly #maxBytes: number;

  constructor(maxBytes: number) {
    super();
    this.#maxBytes = maxBytes;
  }

  override begin(status: number, headers: IncomingHttpHeaders): void {
    checkIsData(headers);
    if (status === 206) {
      const text = headers['content-range'];
      const range = parseContentRange(text);
      const first = range && Math.max(0, range.total - this.#maxBytes);
      if (!range || range.first !== first || range.last !== range.total - 1) {
        throw new AttemptFailure('wrong-range', `${text} instead of the last ${this.#maxBytes}`);
      }
      this.sizeBytes = range.total;
      this.allocate(headers, range.total - first);
      return;
    }
    this.sizeBytes = Number(headers['content-length']);
    if (this.sizeBytes > this.#maxBytes) {
      throw new AttemptFailure('wrong-range', `HTTP ${status} to a range`);
    }
    this.allocate(headers, this.sizeBytes);
  }
}
