// The log: a JSON object a line, by pino, on its way to a file descriptor without anybody waiting
// for it. Invariants: of requests it says what observed-request.ts lets it, so no key, query,
// header or token stands in it; and what waits to be written is bounded, and what finds no room is
// dropped and counted, so that a reader that has stopped, or a disk that is full, keeps no request
// and takes no memory.
import { write, writeSync } from 'node:fs';
import { type Logger, pino } from 'pino';

export type { Logger } from 'pino';

export interface LogWriterOptions {
  /** The most bytes of lines that wait for those before them. */
  bytesMax?: number;
  /** A line waits at most so long for others, to be written with them. */
  delayMs?: number;
}

/** The number of bytes that are written without waiting for more. */
const batchBytes = 64 * 1024;
/** How long to wait before output that accepts nothing is tried again. */
const retryMs = 100;

const lineEnd = Buffer.from('\n');

/**
 * Lines that are written together, as bytes: many short texts that live on for a while are dear to
 * collect.
 */
interface Batch {
  bytes: Buffer;
  length: number;
  lines: number;
}

/** The part of such a batch that is not written yet. */
type Sending = Pick<Batch, 'bytes' | 'lines'>;

export class LogWriter {
  readonly #fd: number;
  readonly #bytesMax: number;
  readonly #delayMs: number;
  /** In order; lines are added to the last. */
  #batches: Batch[] = [];
  /** The bytes of all lines that wait. */
  #bytes = 0;
  /** Until the lines are sent; null: they are none, or others are being sent. */
  #timer: NodeJS.Timeout | null = null;
  #isSending = false;
  /** What is being sent and was not taken; null: nobody knows yet, or all was. */
  #refused: Sending | null = null;
  /** Told when nothing is left. */
  #onIdle: (() => void) | null = null;
  /** Lines that nobody will read. */
  droppedLines = 0;

  constructor(fd: number, options: LogWriterOptions = {}) {
    this.#fd = fd;
    this.#bytesMax = options.bytesMax ?? 1024 * 1024;
    this.#delayMs = options.delayMs ?? 100;
  }

  /** Takes a line with its end. */
  write(line: string): void {
    const size = Buffer.byteLength(line);
    if (this.#bytes + size > this.#bytesMax) {
      this.droppedLines++;
      return;
    }
    const batch = this.#batchFor(size);
    batch.length += batch.bytes.write(line, batch.length);
    batch.lines++;
    this.#bytes += size;
    if (!this.#isSending) this.#schedule();
  }

  /** Resolves when all is written, or after so long without that. */
  async flush(timeoutMs: number): Promise<void> {
    if (!this.#isSending && this.#bytes === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      if (!this.#isSending) this.#send();
    });
    this.#onIdle = null;
  }

  /** Writes what waits, as far as it is taken at once: for a process that ends now. */
  flushSync(): void {
    const refused = this.#takeRefused();
    // What is on its way may have been cut short: what comes behind it begins a line.
    const isUnknown = this.#isSending && !refused && this.#bytes > 0;
    let isTaken = !isUnknown || this.#writeNow(lineEnd);
    for (let next = refused ?? this.#take(); next; next = this.#take()) {
      isTaken &&= this.#writeNow(next.bytes);
      // What came behind a line that was cut short would be read as the rest of it.
      if (!isTaken) this.droppedLines += next.lines;
    }
  }

  /** Whether all of it was taken. */
  #writeNow(bytes: Buffer): boolean {
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(this.#fd, bytes, done);
      return true;
    } catch {
      return false;
    }
  }

  /** A batch with room for so many more bytes. */
  #batchFor(size: number): Batch {
    const last = this.#batches.at(-1);
    if (last && last.length + size <= last.bytes.length) return last;
    const batch = {
      bytes: Buffer.allocUnsafeSlow(Math.max(size, batchBytes)),
      ...{ length: 0, lines: 0 },
    };
    this.#batches.push(batch);
    return batch;
  }

  #schedule(): void {
    if (this.#bytes >= batchBytes) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.#delayMs).unref();
  }

  #take(): Sending | undefined {
    const batch = this.#batches.shift();
    if (!batch) return undefined;
    this.#bytes -= batch.length;
    return { bytes: batch.bytes.subarray(0, batch.length), lines: batch.lines };
  }

  #takeRefused(): Sending | null {
    const refused = this.#refused;
    this.#refused = null;
    return refused;
  }

  #send(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const next = this.#take();
    if (!next) return;
    this.#isSending = true;
    this.#sendRest(next);
  }

  #sendRefused(): void {
    const refused = this.#takeRefused();
    if (refused) this.#sendRest(refused);
  }

  #sendRest({ bytes: rest, lines }: Sending): void {
    write(this.#fd, rest, (error, bytes) => {
      if (error?.code === 'EAGAIN') {
        this.#refused = { bytes: rest, lines };
        setTimeout(() => this.#sendRefused(), retryMs).unref();
      } else if (!error && bytes < rest.length) {
        this.#sendRest({ bytes: rest.subarray(bytes), lines });
      } else {
        if (error) this.droppedLines += lines;
        this.#isSending = false;
        if (this.#bytes === 0) this.#onIdle?.();
        else if (this.#onIdle) this.#send();
        else this.#schedule();
      }
    });
  }
}

/** `level`: pino's, the least that is written. */
export function makeLogger(level: string, writer: Pick<LogWriter, 'write'>): Logger {
  return pino(
    {
      level,
      // Neither the process's id nor its host: who collects lines knows where they are from.
      base: null,
      formatters: { level: (label) => ({ level: label }) },
      timestamp,
    },
    writer,
  );
}

let second = 0;
let secondText = '';

/**
 * The member of a line that says the time, in ISO 8601 with milliseconds. A second is formatted
 * once for all of its lines.
 */
function timestamp(): string {
  const now = Date.now();
  const millis = now % 1000;
  if (now - millis !== second || secondText === '') {
    second = now - millis;
    secondText = new Date(second).toISOString().slice(0, 20);
  }
  return `,"time":"${secondText}${String(millis).padStart(3, '0')}Z"`;
}
