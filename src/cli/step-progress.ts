// What a long command is doing and how far it is, on stderr: on a terminal in place, elsewhere a
// line for each step, and one now and then while it lasts.
import { monotonicMs } from '../core/clock.ts';
import { formatBytes, formatCount } from './progress.ts';

const drawnEveryMs = 200;
const lineEveryMs = 10_000;

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
}

function describe(done: number, total: number | undefined): string {
  if (done === 0) return '';
  return total === undefined
    ? `: ${formatCount(done)}`
    : `: ${formatBytes(done)} of ${formatBytes(total)}`;
}
