// Reads of extents out of an S3 store, straight into the caller's buffers. Invariant: bytes are
// written to a piece in order and each once; a piece that was said to be filled is not written to
// again, and after the read has settled none is. A try that breaks off is gone on with after its
// last byte, and one that says the extent is missing or of another length is made once more; a
// small read that is slow is asked a second time, into a buffer of its own, and the first good
// answer wins (docs/decisions/0037-store-measurements-and-traces.md).
import { IntegrityError } from '../../../core/errors.ts';
import { copyIntoShared } from '../../buffer-pool.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import type { RemoteRead } from '../store.ts';
import { damagedCause, type HedgeCause, type StoreMeter } from '../store-meter.ts';
import type { StoreTally } from '../store-tally.ts';
import { type Answer, type Attempt, countBytes } from './attempt.ts';
import type { Admission, Connection } from './connection.ts';
import type { HedgeBudget } from './hedge-budget.ts';
import { persistRead } from './object-read.ts';
import { RangeAnswer } from './range-answer.ts';

export interface ExtentReaderOptions {
  connection: Connection;
  hedges: HedgeBudget;
  meter: StoreMeter;
  /** The number of the store, for errors. */
  store: number;
  /** Its extents are in an archive class. */
  isArchive: boolean;
}

/** The position of a read: the piece, and how far in it. */
class PieceCursor {
  /** How many bytes were written. */
  done = 0;
  readonly #pieces: readonly Buffer[];
  readonly #filled: ((index: number) => void) | undefined;
  #index = 0;
  #offset = 0;

  constructor(pieces: readonly Buffer[], filled?: (index: number) => void) {
    if (pieces.some((piece) => piece.length === 0)) throw new Error('an empty piece to read into');
    this.#pieces = pieces;
    this.#filled = filled;
  }

  write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const piece = this.#pieces[this.#index] as Buffer;
      const count = Math.min(bytes.length - at, piece.length - this.#offset);
      copyIntoShared(piece, this.#offset, bytes.subarray(at, at + count));
      at += count;
      this.done += count;
      this.#offset += count;
      if (this.#offset === piece.length) this.#next();
    }
  }

  #next(): void {
    const index = this.#index++;
    this.#offset = 0;
    this.#filled?.(index);
  }
}

interface Reading {
  name: string;
  what: string;
  sizeBytes: number;
  position: number;
  totalBytes: number;
  cursor: PieceCursor;
  signal: AbortSignal | undefined;
  tally: StoreTally | undefined;
  earlierTries: number;
  /** Whether one answer has said already that the extent is not what it must be. */
  isDoubted: boolean;
}

export class ExtentReader {
  readonly #options: ExtentReaderOptions;

  constructor(options: ExtentReaderOptions) {
    this.#options = options;
  }

  /** Does what `RemoteStore.read` says. `name` is the extent's. */
  async read(name: string, options: RemoteRead): Promise<void> {
    const { id, sizeBytes, position, into, filled, signal, tally } = options;
    const reading: Reading = {
      name,
      what: `extent ${id.toString('hex')}`,
      sizeBytes,
      position,
      totalBytes: countBytes(into),
      cursor: new PieceCursor(into, filled),
      signal,
      tally,
      earlierTries: 0,
      isDoubted: false,
    };
    const { connection, store, isArchive: isArchived } = this.#options;
    await persistRead(connection, { name, store, signal, isArchived }, (earlierTries) => {
      reading.earlierTries = earlierTries;
      return this.#try(reading).catch((error: unknown) => this.#doubt(reading, error));
    });
  }

  /** That an extent is missing, or has another length, is believed when two answers say it. */
  #doubt(reading: Reading, error: unknown): never {
    if (!(error instanceof IntegrityError) || reading.isDoubted) throw error;
    reading.isDoubted = true;
    const failure = new AttemptFailure(damagedCause, error.message, { cause: error });
    this.#options.connection.note(failure);
    throw failure;
  }

  async #try(reading: Reading): Promise<void> {
    const { connection, hedges } = this.#options;
    const { cursor, totalBytes } = reading;
    const lengthBytes = totalBytes - cursor.done;
    if (lengthBytes === 0) return;
    const admission = await connection.admit(reading);
    const first = this.#begin(reading, admission, (bytes) => cursor.write(bytes));
    const delayMs = hedges.delayMs(lengthBytes);
    const answer = await (delayMs === undefined
      ? first.done
      : this.#race(reading, first, admission, delayMs));
    this.#check(reading, answer);
  }

  #begin(
    reading: Reading,
    admission: Admission,
    take: (bytes: Buffer) => void,
    secondOf?: Attempt,
  ): Attempt {
    const { name, what, sizeBytes, position, totalBytes, cursor } = reading;
    const { signal, tally, earlierTries } = reading;
    const from = position + cursor.done;
    const to = position + totalBytes - 1;
    const { connection, store } = this.#options;
    const wanted = { what, store, position: from, lengthBytes: to - from + 1, sizeBytes };
    const body = new RangeAnswer(wanted, take);
    const headers = { range: `bytes=${from}-${to}` };
    const request = { name, headers, body, signal, tally, earlierTries, secondOf };
    return connection.begin({ method: 'GET', ...request }, admission);
  }

  /** Gives the first good answer; when there is none, throws the error of the first try. */
  async #race(
    reading: Reading,
    first: Attempt,
    { credentials }: Admission,
    delayMs: number,
  ): Promise<Answer> {
    if (!(await isSlow(first, delayMs))) return first.done;
    const { connection, hedges, meter } = this.#options;
    if (!hedges.mayTake()) return first.done;
    const client = connection.slots.tryTake();
    if (!client) {
      meter.hedgeRefused('connections');
      return first.done;
    }
    // A GET has no body to send.
    const cause = first.phase as HedgeCause;
    hedges.take(cause);
    const { cursor } = reading;
    const from = cursor.done;
    const scratch = Buffer.allocUnsafeSlow(reading.totalBytes - from);
    let got = 0;
    const take = (bytes: Buffer): void => {
      got += bytes.copy(scratch, got);
    };
    const second = this.#begin(reading, { client, credentials }, take, first);
    try {
      const winner = await Promise.any([answered(first), answered(second)]);
      const loser = winner === first ? second : first;
      loser.abandon(new Error('another request for the same bytes was answered first'));
      meter.hedgeEnded(cause, winner === second ? 'second' : 'first');
      if (winner === second) cursor.write(scratch.subarray(cursor.done - from, got));
      return await winner.done;
    } catch (error) {
      if (!(error instanceof AggregateError)) throw error;
      meter.hedgeEnded(cause, 'nobody');
      throw error.errors[0];
    }
  }

  /** Throws for a refusal. A success was checked while it came. */
  #check({ what, sizeBytes }: Reading, { status }: Answer): void {
    if (status < 300) return;
    const { store } = this.#options;
    if (status === 404) throw new IntegrityError(`${what} is missing`, { kind: 'missing', store });
    const message = `${what} has fewer than ${sizeBytes} bytes`;
    throw new IntegrityError(message, { kind: 'length', store });
  }
}

async function answered(attempt: Attempt): Promise<Attempt> {
  await attempt.done;
  return attempt;
}

/** Resolves to whether the read has no outcome yet after `delayMs`. */
function isSlow(attempt: Attempt, delayMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, delayMs, true);
    const settled = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    attempt.done.then(settled, settled);
  });
}
