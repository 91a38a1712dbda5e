// PUTs that are believed only with a proof: the answer has the checksum of the bytes that the
// server received, or their MD5 as the ETag. Where it has neither, the object is read back and
// compared. Invariant: what is called stored was stored as it was sent, whatever the status of the
// answer. Which proof a server gives is found out by the probe: an ETag need not be an MD5
// (SSE-KMS), and a server that does not know checksums may send the header back as it came.
// Specification: "Checking object integrity" of the Amazon S3 user guide; "PutObject" of the API
// reference.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { crc32c } from '@node-rs/crc32';
import { AttemptFailure } from '../attempt-failure.ts';
import type { StoreTally } from '../store-tally.ts';
import { type AnswerBody, countBytes } from './attempt.ts';
import type { Connection } from './connection.ts';
import { errorElement } from './failure.ts';
import { ComparedAnswer } from './object-answer.ts';

/**
 * What a server's answers to PUTs prove: `either` is for one that was not probed, null for one
 * whose answers prove nothing.
 */
export type ProofKind = 'checksum' | 'etag' | 'either' | null;

/** An object to be stored. */
export interface Write {
  /** Relative to the store's prefix. */
  name: string;
  /** Unchanged until the write has settled. */
  pieces: readonly Buffer[];
  /** Headers besides the checksum. */
  headers?: Readonly<Record<string, string>>;
  /** Whether an object that is there must not be replaced. */
  ifAbsent?: boolean;
  /** It goes into an archive class, and cannot be read back. */
  isArchived?: boolean;
  tally?: StoreTally;
  isTrial?: boolean;
}

export const checksumHeader = 'x-amz-checksum-crc32c';
/** The most bytes of an answer to a PUT, which has at most an error document. */
const textBytesMax = 64 * 1024;

/** The value of the checksum header: base64 of the CRC32C, big-endian. */
export function checksumOf(pieces: readonly Buffer[]): string {
  let state = 0;
  for (const piece of pieces) state = crc32c(piece, state);
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(state);
  return bytes.toString('base64');
}

/** One write, which may be tried several times. */
export class ProvenPut {
  readonly #connection: Connection;
  readonly #write: Write;
  readonly #proof: ProofKind;
  readonly #checksum: string;
  #md5: Promise<string> | null = null;

  constructor(connection: Connection, write: Write, proof: ProofKind) {
    this.#connection = connection;
    this.#write = write;
    this.#proof = proof;
    this.#checksum = checksumOf(write.pieces);
    if (proof === 'etag') this.#md5 = md5Of(write.pieces);
  }

  /**
   * Makes one try. `exists`: another object was there, and `ifAbsent` was asked for. Rejects with
   * AttemptFailure: with the cause `unproven` where the answer was a success without its proof.
   */
  async attempt(earlierTries: number): Promise<'stored' | 'exists'> {
    const { name, pieces, headers, ifAbsent = false, tally, isTrial } = this.#write;
    // An earlier try may have stored it, and its answer was lost. That is asked before the bytes
    // are sent again, because a server breaks off an upload that it will not take.
    if (earlierTries > 0 && (await this.#isHeld())) return 'stored';
    const sent: Record<string, string> = { ...headers, [checksumHeader]: this.#checksum };
    if (ifAbsent) sent['if-none-match'] = '*';
    const body = new PutAnswer(this.#proof, this.#checksum);
    const request = { method: 'PUT' as const, name, headers: sent, pieces, body };
    const { status } = await this.#connection.exchange({
      ...request,
      tally,
      isTrial,
      earlierTries,
    });
    if (status === 412) {
      if (await this.#isHeld()) return 'stored';
      if (ifAbsent) return 'exists';
      throw this.#failed('conflict', 'HTTP 412 to a PUT without a condition');
    }
    if ((await this.#isProven(body)) || (await this.#isHeld())) return 'stored';
    throw this.#failed('unproven', 'a success, and what was sent cannot be read back');
  }

  async #isProven({ checksum, etag }: PutAnswer): Promise<boolean> {
    if (this.#proof === null) return false;
    if (this.#proof !== 'etag' && checksum !== undefined) return true;
    this.#md5 ??= md5Of(this.#write.pieces);
    return isMd5Etag(etag, await this.#md5);
  }

  /** Resolves to whether the object has these bytes. */
  async #isHeld(): Promise<boolean> {
    const { name, pieces, tally, isTrial, isArchived } = this.#write;
    if (isArchived) return this.#isTold();
    const body = new ComparedAnswer(pieces);
    const request = { method: 'GET' as const, name, body, tally, isTrial };
    const { status } = await this.#connection.exchange(request);
    return status === 200 && body.isSame;
  }

  /** The same, as the server tells it of an object that it does not give. */
  async #isTold(): Promise<boolean> {
    const { name, pieces, tally, isTrial } = this.#write;
    const asked = { 'x-amz-checksum-mode': 'ENABLED' };
    const request = { method: 'HEAD' as const, name, headers: asked, tally, isTrial };
    const { status, headers } = await this.#connection.exchange(request);
    if (status !== 200 || headers['content-length'] !== String(countBytes(pieces))) return false;
    const checksum = headers[checksumHeader];
    if (checksum !== undefined) return checksum === this.#checksum;
    this.#md5 ??= md5Of(pieces);
    return isMd5Etag(headers.etag, await this.#md5);
  }

  #failed(reason: 'conflict' | 'unproven', message: string): AttemptFailure {
    const failure = new AttemptFailure(reason, `${message} (${this.#write.name})`);
    this.#connection.note(failure);
    return failure;
  }
}

/** Checks an answer to a PUT: status 200, no error document, no other checksum than was sent. */
class PutAnswer implements AnswerBody {
  etag: string | undefined;
  checksum: string | undefined;
  readonly #proof: ProofKind;
  readonly #sent: string;
  #status = 0;
  #text = '';

  constructor(proof: ProofKind, sent: string) {
    this.#proof = proof;
    this.#sent = sent;
  }

  begin(status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.etag = headers.etag;
    this.checksum = headers[checksumHeader] as string | undefined;
  }

  take(bytes: Buffer): void {
    this.#text += bytes.toString('latin1');
    if (this.#text.length > textBytesMax) {
      throw new AttemptFailure('wrong-body', 'a document that does not end');
    }
  }

  end(): void {
    if (this.#text.includes('<Error')) {
      const code = errorElement(this.#text, 'Code');
      const message = `HTTP ${this.#status} with the error ${code}`;
      throw new AttemptFailure('error-in-200', message, { code });
    }
    if (this.#status !== 200) {
      throw new AttemptFailure('unproven', `HTTP ${this.#status} to a PUT`);
    }
    if (this.checksum === this.#sent) return;
    if (this.checksum === undefined && this.#proof !== 'checksum') return;
    const got = this.checksum ?? 'no checksum';
    throw new AttemptFailure('unproven', `a success with ${got} instead of ${this.#sent}`);
  }
}

/** The MD5 in hex, piece by piece, so that the event loop goes on between them. */
export async function md5Of(pieces: readonly Buffer[]): Promise<string> {
  const hash = createHash('md5');
  for (const piece of pieces) {
    hash.update(piece);
    if (pieces.length > 1) await nextTurn();
  }
  return hash.digest('hex');
}

/** Returns whether an ETag is this MD5. Some servers put it in quotes. */
export function isMd5Etag(etag: string | undefined, md5: string): boolean {
  return etag === `"${md5}"` || etag === md5;
}
