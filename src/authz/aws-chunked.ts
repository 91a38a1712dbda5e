// The aws-chunked body: framed chunks, each with a signature chained to the one before it, or
// without signatures, and trailing headers after the last.
// Invariant: any split of the body into pushes gives the same data, the same trailers and the same
// refusal; no data byte is copied; work is linear in the body. Data is emitted before its chunk's
// signature has come, so nothing may be committed before `finish` has returned.
// Specification: "Transferring Payload in Multiple Chunks" and "Signature calculations for trailing
// headers" of the Amazon S3 API reference.
import { Buffer } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { digestLatin1, type Headers } from '../core/canonical-request.ts';
import { Refusal } from '../core/errors.ts';
import { chunkBytesMax, chunkHeaderBytesMax, trailerBytesMax } from '../core/limits.ts';
import { emptySha256, equalSignatures, signText } from '../core/sigv4.ts';

export interface ChunkSeed {
  signingKey: Buffer;
  /** `20130524/us-east-1/s3/aws4_request`. */
  scope: string;
  /** `YYYYMMDDTHHMMSSZ`. */
  amzDate: string;
  /** The request's own signature, to which the first chunk's is chained. */
  signature: string;
}

export interface AwsChunkedOptions {
  /** x-amz-decoded-content-length. */
  decodedBytes: number;
  /** null: the chunks carry no signatures. */
  seed: ChunkSeed | null;
  /** Whether trailing headers follow the last chunk. */
  trailer: boolean;
  /** Lower-case, from x-amz-trailer. */
  trailerNames: readonly string[];
}

/** What the next byte belongs to. */
type Place = 'header' | 'data' | 'data-end' | 'trailer' | 'last-line' | 'end';

const carriageReturn = 0x0d;
const lineFeed = 0x0a;
const semicolon = 0x3b;
const trailerSignature = 'x-amz-trailer-signature';
const signatureExtension = 'chunk-signature=';

export class AwsChunkedDecoder {
  readonly #decodedBytes: number;
  readonly #seed: ChunkSeed | null;
  readonly #trailer: boolean;
  readonly #trailerNames: readonly string[];
  readonly #trailers = new Map<string, string>();

  #place: Place = 'header';
  #failure: Refusal | null = null;
  /** The beginning of a line whose end has not come yet; allocated when a line is first split. */
  #line: Buffer | null = null;
  #lineBytes = 0;
  #emittedBytes = 0;
  #chunkBytesLeft = 0;
  #chunkHash: Hash | null = null;
  #chunkSignature = '';
  #previousSignature: string;
  #trailerBytes = 0;
  #trailerSigned = false;
  /** Whether the trailer's last line ended with a line feed alone. */
  #lineIsOpen = false;

  constructor(options: AwsChunkedOptions) {
    this.#decodedBytes = options.decodedBytes;
    this.#seed = options.seed;
    this.#trailer = options.trailer;
    this.#trailerNames = options.trailerNames;
    this.#previousSignature = options.seed?.signature ?? '';
  }

  /** Lower-case names; verified where signed, and complete once `finish` has returned. */
  get trailers(): ReadonlyMap<string, string> {
    return this.#trailers;
  }

  /**
   * Feeds raw body bytes, which the caller must not change while it uses what was emitted. Calls
   * `emit` with slices of `bytes`. Throws a Refusal, and the same one again on each later call.
   */
  push(bytes: Buffer, emit: (data: Buffer) => void): void {
    if (this.#failure !== null) throw this.#failure;
    let at = 0;
    while (at < bytes.length) {
      at = this.#place === 'data' ? this.#takeData(bytes, at, emit) : this.#takeLine(bytes, at);
    }
  }

  /**
   * Call at the end of the raw body. Throws IncompleteBody if the last chunk or trailer is missing.
   */
  finish(): void {
    if (this.#failure !== null) throw this.#failure;
    // Some clients leave out the empty line that ends the trailer; its lines are whole
    // nevertheless.
    if (this.#place === 'trailer' && this.#lineBytes === 0 && this.#trailerIsWhole()) {
      this.#endTrailer();
    }
    if (this.#place === 'end') return;
    this.#fail('IncompleteBody', 'The request body ended before its last chunk or trailer.');
  }

  #fail(
    code: 'IncompleteBody' | 'InvalidRequest' | 'MalformedTrailerError' | 'SignatureDoesNotMatch',
    message?: string,
  ): never {
    this.#failure = new Refusal(code, message === undefined ? {} : { message });
    throw this.#failure;
  }

  #takeData(bytes: Buffer, at: number, emit: (data: Buffer) => void): number {
    const end = Math.min(bytes.length, at + this.#chunkBytesLeft);
    const data = at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end);
    this.#chunkHash?.update(data);
    this.#chunkBytesLeft -= data.length;
    this.#emittedBytes += data.length;
    if (this.#chunkBytesLeft === 0) this.#place = 'data-end';
    emit(data);
    return end;
  }

  /** Takes bytes up to the end of the line; a line in one piece is read where it lies. */
  #takeLine(bytes: Buffer, at: number): number {
    if (this.#place === 'end') this.#fail('IncompleteBody', 'Bytes follow the end of the body.');
    const limit = this.#lineBytesMax();
    const room = limit - this.#lineBytes;
    const stop = Math.min(bytes.length, at + room);
    let end = at;
    while (end < stop && bytes[end] !== lineFeed) end++;
    if (end < stop) {
      const line = this.#joinLine(bytes, at, end);
      this.#endLine(line);
      return end + 1;
    }
    if (stop === at + room) {
      const code = this.#place === 'trailer' ? 'MalformedTrailerError' : 'IncompleteBody';
      this.#fail(code, 'A line of the chunked body is too long.');
    }
    this.#line ??= Buffer.allocUnsafe(Math.max(chunkHeaderBytesMax, trailerBytesMax));
    bytes.copy(this.#line, this.#lineBytes, at, end);
    this.#lineBytes += end - at;
    return end;
  }

  /** The longest line that may stand here, its line feed included. */
  #lineBytesMax(): number {
    if (this.#place === 'trailer') return trailerBytesMax - this.#trailerBytes;
    return this.#place === 'header' ? chunkHeaderBytesMax : 2;
  }

  #joinLine(bytes: Buffer, at: number, end: number): Buffer {
    if (this.#lineBytes === 0) return bytes.subarray(at, end);
    const line = this.#line as Buffer;
    bytes.copy(line, this.#lineBytes, at, end);
    const length = this.#lineBytes + end - at;
    this.#lineBytes = 0;
    return line.subarray(0, length);
  }

  /** `line` has everything before the line feed. */
  #endLine(line: Buffer): void {
    const terminated = line.length > 0 && line[line.length - 1] === carriageReturn;
    const text = terminated ? line.subarray(0, line.length - 1) : line;
    if (this.#place === 'trailer') {
      this.#trailerBytes += line.length + 1;
      this.#takeTrailer(text.toString('latin1'), terminated);
      return;
    }
    if (!terminated) this.#fail('IncompleteBody', 'A line of the chunked body must end in CRLF.');
    if (this.#place === 'header') {
      this.#startChunk(text);
      return;
    }
    if (text.length > 0) this.#fail('IncompleteBody', 'A chunk is longer than its header says.');
    if (this.#place === 'data-end') this.#endChunk();
    else this.#place = 'end';
  }

  // Chunks ---------------------------------------------------------------------------------------

  /** `<size in hexadecimal>[;extension…]`. */
  #startChunk(header: Buffer): void {
    const mark = header.indexOf(semicolon);
    const size = this.#readSize(header, mark < 0 ? header.length : mark);
    if (this.#seed !== null) {
      const extension = mark < 0 ? '' : header.toString('latin1', mark + 1).trim();
      if (!extension.startsWith(signatureExtension)) {
        this.#fail('IncompleteBody', 'A chunk has no chunk-signature.');
      }
      this.#chunkSignature = extension.slice(signatureExtension.length);
      this.#chunkHash = size === 0 ? null : createHash('sha256');
    }
    if (size > 0) {
      this.#chunkBytesLeft = size;
      this.#place = 'data';
      return;
    }
    this.#verifyChunk(emptySha256);
    if (this.#emittedBytes !== this.#decodedBytes) {
      this.#fail('IncompleteBody', 'The body is shorter than x-amz-decoded-content-length says.');
    }
    this.#place = this.#trailer ? 'trailer' : 'last-line';
  }

  #readSize(header: Buffer, end: number): number {
    if (end === 0) this.#fail('IncompleteBody', 'A chunk has no size.');
    let size = 0;
    for (let i = 0; i < end; i++) {
      const digit = hexDigit(header[i] as number);
      if (digit < 0) this.#fail('IncompleteBody', 'The size of a chunk is not hexadecimal.');
      size = size * 16 + digit;
      if (size > this.#decodedBytes - this.#emittedBytes) {
        this.#fail('IncompleteBody', 'The body is longer than x-amz-decoded-content-length says.');
      }
    }
    if (this.#seed !== null && size > chunkBytesMax) {
      this.#fail('InvalidRequest', `A signed chunk may have at most ${chunkBytesMax} bytes.`);
    }
    return size;
  }

  #endChunk(): void {
    if (this.#chunkHash !== null) this.#verifyChunk(this.#chunkHash.digest('hex'));
    this.#chunkHash = null;
    this.#place = 'header';
  }

  /** `sha256`: the hexadecimal digest of the chunk's data. */
  #verifyChunk(sha256: string): void {
    this.#verify('AWS4-HMAC-SHA256-PAYLOAD', `${emptySha256}\n${sha256}`, this.#chunkSignature);
  }

  #verify(kind: string, digests: string, provided: string): void {
    const seed = this.#seed;
    if (seed === null) return;
    const text = `${kind}\n${seed.amzDate}\n${seed.scope}\n${this.#previousSignature}\n${digests}`;
    const expected = signText(seed.signingKey, text);
    if (!equalSignatures(expected, provided)) this.#fail('SignatureDoesNotMatch');
    this.#previousSignature = expected;
  }

  // Trailers -------------------------------------------------------------------------------------

  #takeTrailer(line: string, terminated: boolean): void {
    const afterOpenLine = this.#lineIsOpen;
    this.#lineIsOpen = !terminated && line !== '';
    if (line === '') {
      // minio-go ends its last line with a line feed alone, and has an empty line between that and
      // what follows: the trailer's signature, or the empty line that ends the trailer.
      const isBetween = this.#seed === null ? afterOpenLine : !this.#trailerSigned;
      if (!isBetween) this.#endTrailer();
      return;
    }
    const colon = line.indexOf(':');
    if (colon <= 0) this.#fail('MalformedTrailerError', 'A trailing header has no name.');
    const name = line.slice(0, colon).trim().toLowerCase();
    const value = line.slice(colon + 1).trim();
    if (this.#trailerSigned) {
      this.#fail('MalformedTrailerError', 'A trailing header follows the trailer signature.');
    }
    if (name === trailerSignature && this.#seed !== null) {
      this.#verify('AWS4-HMAC-SHA256-TRAILER', this.#trailerDigest(), value);
      this.#trailerSigned = true;
      return;
    }
    if (!this.#trailerNames.includes(name)) {
      this.#fail('MalformedTrailerError', 'A trailing header was not announced in x-amz-trailer.');
    }
    if (this.#trailers.has(name))
      this.#fail('MalformedTrailerError', 'A trailing header is sent twice.');
    this.#trailers.set(name, value);
  }

  #trailerDigest(): string {
    const names = [...this.#trailers.keys()].sort();
    const lines = names.map((name) => `${name}:${this.#trailers.get(name)}\n`);
    return digestLatin1(lines.join(''));
  }

  #trailerIsWhole(): boolean {
    const signed = this.#seed === null || this.#trailerSigned;
    return signed && this.#trailerNames.every((name) => this.#trailers.has(name));
  }

  #endTrailer(): void {
    if (!this.#trailerIsWhole()) {
      this.#fail(
        'MalformedTrailerError',
        'A trailing header announced in x-amz-trailer is missing.',
      );
    }
    this.#place = 'end';
  }
}

/** 0 to 15, or -1. */
function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/** The lower-case names that x-amz-trailer announces, in order. */
export function trailerNames(headers: Headers): string[] {
  const text = headers['x-amz-trailer'];
  if (text === undefined) return [];
  return text
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '');
}
