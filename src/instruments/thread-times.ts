// What the system gave the thread that made this: how long it was on a processor, and how long it
// was ready and waited for one that others had. Invariant: reading allocates nothing.
// Specification: Linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat.
import { closeSync, openSync, readSync } from 'node:fs';

/** Two numbers of nanoseconds come first. */
const textBytesMax = 64;
const space = 0x20;
const zero = 0x30;

export class ThreadTimes {
  /** null: this system does not tell. */
  readonly #fd: number | null;
  readonly #text = Buffer.alloc(textBytesMax);
  #length = 0;
  #at = 0;
  /** Since the thread began, as of the last `read`; it grows with the system's ticks. */
  processorMs = 0;
  queuedMs = 0;

  constructor() {
    this.#fd = openTimes();
    this.read();
  }

  get areKnown(): boolean {
    return this.#fd !== null;
  }

  read(): void {
    if (this.#fd === null) return;
    this.#length = readSync(this.#fd, this.#text, 0, textBytesMax, 0);
    this.#at = 0;
    this.processorMs = this.#nextNumber() / 1e6;
    this.queuedMs = this.#nextNumber() / 1e6;
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
  }

  #nextNumber(): number {
    let number = 0;
    for (; this.#at < this.#length; this.#at++) {
      const code = this.#text[this.#at] as number;
      if (code === space) break;
      number = number * 10 + code - zero;
    }
    this.#at++;
    return number;
  }
}

function openTimes(): number | null {
  try {
    return openSync('/proc/thread-self/schedstat', 'r');
  } catch {
    return null;
  }
}
