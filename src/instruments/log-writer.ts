// Lines of the log on their way to a file descriptor. Invariants: who writes never waits; what waits to
// be written is bounded, and what finds no room is dropped and counted, so that a reader that has
// stopped, or a disk that is full, keeps no request and takes no memory.
import { write, writeSync } from 'node:fs';

export interface LogWriterOptions {
  /** Of lines that wait for those before them. */
  charactersMax?: number;
  /** A line waits at most so long for others, to be written with them. */
  delayMs?: number;
}

/** So many are written without waiting for more. */
const batchCharacters = 64 * 1024;
/** Who takes nothing is asked again after this. */
const retryMs = 100;

export class LogWriter {
  readonly #fd: number;
  readonly #charactersMax: number;
  readonly #delayMs: number;
  #lines: string[] = [];
  #characters = 0;
  /** Until the lines are sent; null: they are none, or others are being sent. */
  #timer: NodeJS.Timeout | null = null;
  #isSending = false;
  /** Told when nothing is left. */
  #onIdle: (() => void) | null = null;
  /** Lines that nobody will read. */
  droppedLines = 0;

  constructor(fd: number, options: LogWriterOptions = {}) {
    this.#fd = fd;
    this.#charactersMax = options.charactersMax ?? 1024 * 1024;
    this.#delayMs = options.delayMs ?? 100;
  }

  /** Takes a line with its end. */
  write(line: string): void {
    if (this.#characters + line.length > this.#charactersMax) {
      this.droppedLines++;
      return;
    }
    this.#lines.push(line);
    this.#characters += line.length;
    if (!this.#isSending) this.#schedule();
  }

  /** Resolves when all is written, or after so long without that. */
  async flush(timeoutMs: number): Promise<void> {
    if (!this.#isSending && this.#characters === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      if (!this.#isSending) this.#send();
    });
  }

  /** Writes what waits, as far as it is taken at once: for a process that ends now. */
  flushSync(): void {
    const { text, count } = this.#take();
    if (count === 0) return;
    try {
      writeSync(this.#fd, text);
    } catch {
      this.droppedLines += count;
    }
  }

  #schedule(): void {
    if (this.#characters >= batchCharacters) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.#delayMs).unref();
  }

  #take(): { text: string; count: number } {
    const text = this.#lines.join('');
    const count = this.#lines.length;
    this.#lines = [];
    this.#characters = 0;
    return { text, count };
  }

  #send(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const { text, count } = this.#take();
    this.#isSending = true;
    this.#sendRest(Buffer.from(text), count);
  }

  #sendRest(rest: Buffer, count: number): void {
    write(this.#fd, rest, (error, bytes) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => this.#sendRest(rest, count), retryMs).unref();
      } else if (!error && bytes < rest.length) {
        this.#sendRest(rest.subarray(bytes), count);
      } else {
        if (error) this.droppedLines += count;
        this.#isSending = false;
        if (this.#characters > 0) this.#schedule();
        else this.#onIdle?.();
      }
    });
  }
}
