// How far a long command has come, on stderr: on a terminal a bar that is drawn anew, elsewhere a
// plain line now and then, so that a log stays short.
import type { WriteStream } from 'node:tty';
import { formatBytes } from '../core/bytes-text.ts';
import { monotonicMs } from '../core/clock.ts';

export interface Work {
  versions: number;
  bytes: number;
}

const lineEveryMs = 10_000;
const drawnEveryMs = 200;
const barLength = 24;

export class Progress {
  readonly #stream: WriteStream;
  readonly #begunMs = monotonicMs();
  readonly #begunBytes: number;
  #shownMs = monotonicMs();

  /** `begunBytes`: what an earlier run had done. */
  constructor(stream: WriteStream, begunBytes: number) {
    this.#stream = stream;
    this.#begunBytes = begunBytes;
  }

  /** `total` is an estimate, null where there is none. */
  show(done: Work, total: Work | null): void {
    const { isTTY, columns } = this.#stream;
    if (isTTY) {
      const line = `${drawBar(done, total)}${this.#describe(done, total)}`;
      this.#stream.write(`\r\x1b[K${line.slice(0, columns - 1)}`);
      return;
    }
    if (monotonicMs() - this.#shownMs < lineEveryMs) return;
    this.#shownMs = monotonicMs();
    this.#stream.write(`${this.#describe(done, total)}\n`);
  }

  /** Makes room for other output. */
  clear(): void {
    if (this.#stream.isTTY) this.#stream.write('\r\x1b[K');
  }

  #describe(done: Work, total: Work | null): string {
    const seconds = (monotonicMs() - this.#begunMs) / 1000;
    const speed = formatBytes((done.bytes - this.#begunBytes) / Math.max(seconds, 0.001));
    const of = (part: string, whole: string | undefined) => (whole ? `${part} of ${whole}` : part);
    const bytes = of(formatBytes(done.bytes), total ? formatBytes(total.bytes) : undefined);
    const versions = of(
      formatCount(done.versions),
      total ? formatCount(total.versions) : undefined,
    );
    return `${bytes}, ${versions} versions, ${speed}/s`;
  }
}

/**
 * Empty where the whole is not known. It is full only at the end, since an estimate may be too low.
 */
function drawBar(done: Work, total: Work | null): string {
  if (!total) return '';
  const [part, whole] =
    total.bytes > 0 ? [done.bytes, total.bytes] : [done.versions, total.versions];
  const share = Math.min(part / Math.max(whole, 1), 0.99);
  const filled = Math.round(share * barLength);
  const percent = String(Math.floor(share * 100)).padStart(2);
  return `[${'#'.repeat(filled)}${'-'.repeat(barLength - filled)}] ${percent}%  `;
}

/** `1,234,567` */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** How many of something were read so far. */
export class CountProgress {
  readonly #stream: WriteStream;
  readonly #what: string;
  #shownMs = monotonicMs();

  constructor(stream: WriteStream, what: string) {
    this.#stream = stream;
    this.#what = what;
  }

  show(count: number): void {
    const text = `${formatCount(count)} ${this.#what}`;
    if (this.#stream.isTTY) {
      this.#stream.write(`\r\x1b[K${text}`);
      return;
    }
    if (monotonicMs() - this.#shownMs < lineEveryMs) return;
    this.#shownMs = monotonicMs();
    this.#stream.write(`${text}\n`);
  }

  /** Makes room for other output. */
  clear(): void {
    if (this.#stream.isTTY) this.#stream.write('\r\x1b[K');
  }

  [Symbol.dispose](): void {
    this.clear();
  }
}

/** Of a command in steps: which step it is at, and how far that is. */
export class StepProgress {
  #step = '';
  #shownMs = 0;

  /** `total`: both are bytes then. */
  show(step: string, done: number, total?: number): void {
    const { isTTY } = process.stderr;
    const isNew = step !== this.#step;
    const everyMs = isTTY ? drawnEveryMs : lineEveryMs;
    if (!isNew && monotonicMs() - this.#shownMs < everyMs) return;
    this.#step = step;
    this.#shownMs = monotonicMs();
    const line = `${step}${describe(done, total)}`;
    process.stderr.write(isTTY ? `\r\x1b[K${line}` : `${line}\n`);
  }

  clear(): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }

  [Symbol.dispose](): void {
    this.clear();
  }
}

function describe(done: number, total: number | undefined): string {
  if (done === 0) return '';
  return total === undefined
    ? `: ${formatCount(done)}`
    : `: ${formatBytes(done)} of ${formatBytes(total)}`;
}
