// Checks the answer to a GET of a range against what was asked, and puts its bytes where they
// belong. Invariant: a byte is taken only from an answer whose head says exactly what was asked, so
// that no error document, no other range and no other extent is ever taken for data. Specification:
// RFC 9110, sections 14 and 15.3.7.
import type { IncomingHttpHeaders } from 'node:http';
import { IntegrityError } from '../../../core/errors.ts';
import { discard } from '../../../core/spent-bytes.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import type { AnswerBody } from './attempt.ts';

export interface ContentRange {
  /** The first and the last byte, both inclusive. */
  first: number;
  last: number;
  total: number;
}

const rangePattern = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/;

/** Undefined for anything but `bytes 0-9/100`. */
export function parseContentRange(value: string | undefined): ContentRange | undefined {
  const match = typeof value === 'string' ? rangePattern.exec(value) : null;
  if (!match) return undefined;
  return { first: Number(match[1]), last: Number(match[2]), total: Number(match[3]) };
}

/** Throws AttemptFailure when the head announces another number of bytes, or none. */
export function checkLength(headers: IncomingHttpHeaders, lengthBytes: number): void {
  const announced = headers['content-length'];
  if (announced !== String(lengthBytes)) {
    throw new AttemptFailure('wrong-length', `${announced} bytes instead of ${lengthBytes}`);
  }
}

/**
 * Throws AttemptFailure when a success is an error document: S3 gives an ETag and a time with all
 * data. Content type and coding decide nothing: whoever may write to the bucket can set them of any
 * object, and one object must not look like a server that is down. What comes is authenticated by
 * those who asked for it.
 */
export function checkIsData(headers: IncomingHttpHeaders): void {
  const isXml = /^(application|text)\/xml\b/.test(headers['content-type'] ?? '');
  if (headers.etag === undefined || (isXml && headers['last-modified'] === undefined)) {
    throw new AttemptFailure('error-in-200', 'a success without data');
  }
}

export interface WantedRange {
  /** What the extent is called in errors. */
  what: string;
  store: number;
  position: number;
  lengthBytes: number;
  /** How many bytes the whole extent must have. */
  sizeBytes: number;
}

/** Passes the bytes of the range on to `take`, in order, which copies what it needs of them. */
export class RangeAnswer implements AnswerBody {
  readonly #wanted: WantedRange;
  readonly #take: (bytes: Buffer) => void;
  #left: number;

  constructor(wanted: WantedRange, take: (bytes: Buffer) => void) {
    this.#wanted = wanted;
    this.#take = take;
    this.#left = wanted.lengthBytes;
  }

  /** Throws IntegrityError when the extent is not as long as it must be. */
  begin(status: number, headers: IncomingHttpHeaders): void {
    const { what, store, position, lengthBytes, sizeBytes } = this.#wanted;
    checkIsData(headers);
    if (status === 206) {
      const range = parseContentRange(headers['content-range']);
      if (range && range.total !== sizeBytes) throw wrongSize(what, store, range.total, sizeBytes);
      if (range?.first !== position || range.last !== position + lengthBytes - 1) {
        const got = headers['content-range'];
        throw new AttemptFailure('wrong-range', `${got} instead of ${lengthBytes} at ${position}`);
      }
    } else if (status !== 200 || position !== 0 || lengthBytes !== sizeBytes) {
      // Only a range that is the whole extent may be answered without a range.
      throw new AttemptFailure('wrong-range', `HTTP ${status} to a range`);
    }
    checkLength(headers, lengthBytes);
  }

  take(bytes: Buffer): void {
    this.#left -= bytes.length;
    if (this.#left < 0) throw new AttemptFailure('wrong-length', 'more bytes than announced');
    this.#take(bytes);
    // The parser that the bytes come from may look at them until this turn is over.
    queueMicrotask(() => discard(bytes));
  }

  end(): void {
    if (this.#left > 0) throw new AttemptFailure('truncated', `${this.#left} bytes are missing`);
  }
}

function wrongSize(
  what: string,
  store: number,
  sizeBytes: number,
  expectedBytes: number,
): IntegrityError {
  const message = `${what} has ${sizeBytes} bytes instead of ${expectedBytes}`;
  return new IntegrityError(message, { kind: 'length', store });
}
