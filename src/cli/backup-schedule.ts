// Backups that `serve` makes by itself, `--backup-to` each `--backup-every`: each is `bursar backup create`
// in a process of its own, of a lower priority. Invariants: one at a time; whatever it does, or does not do,
// serving goes on as it is; when the last one was finished is read from the place at the start, so that a
// gateway that is started often still makes them in time; and one that fails or is late is told, once for
// each failure, in health and in metrics.
import { type ChildProcess, execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { nowMs } from '../core/clock.ts';

export interface ScheduleOptions {
  /** `bursar backup create …` and `bursar backup list …`, with `--json`. */
  createArgs: readonly string[];
  listArgs: readonly string[];
  everyMs: number;
  /** Between a failure and the next attempt, if that is sooner. */
  retryMs: number;
  onProblem: (text: string) => void;
}

export interface ScheduleState {
  /** When the newest backup was begun, milliseconds; null: there is none. */
  lastMs: number | null;
  /** The last one failed, or there should have been another one long ago. */
  isLate: boolean;
  /** Why the last attempt failed; null: it did not. */
  problem: string | null;
  failures: number;
  isRunning: boolean;
}

const main = fileURLToPath(new URL('./main.js', import.meta.url));
const stopMsMax = 5000;
const answerBytesMax = 16 * 1024 * 1024;

export class BackupSchedule {
  readonly #options: ScheduleOptions;
  readonly #stopping = new AbortController();
  readonly #begunMs = nowMs();
  #child: ChildProcess | null = null;
  #running: Promise<void> = Promise.resolve();
  #lastMs: number | null = null;
  #problem: string | null = null;
  #failures = 0;
  #isRunning = false;

  constructor(options: ScheduleOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run();
  }

  /** One that is being made is ended: what it wrote is used by the next one. */
  async close(): Promise<void> {
    this.#stopping.abort();
    const child = this.#child;
    child?.kill('SIGTERM');
    const timer = setTimeout(() => child?.kill('SIGKILL'), stopMsMax);
    await this.#running;
    clearTimeout(timer);
  }

  state(): ScheduleState {
    const sinceMs = this.#lastMs ?? this.#begunMs;
    // Twice: one may be under way, and a machine may have been busy.
    const isLate = nowMs() - sinceMs > 2 * this.#options.everyMs;
    return {
      lastMs: this.#lastMs,
      isLate: isLate || this.#problem !== null,
      problem: this.#problem,
      failures: this.#failures,
      isRunning: this.#isRunning,
    };
  }

  async #run(): Promise<void> {
    const { everyMs, retryMs, listArgs, createArgs, onProblem } = this.#options;
    const { signal } = this.#stopping;
    this.#lastMs = await this.#ask(listArgs).then(newestIn, () => null);
    while (!signal.aborted) {
      const dueMs = (this.#lastMs ?? 0) + everyMs;
      const waitMs = this.#problem === null ? dueMs - nowMs() : Math.min(retryMs, everyMs);
      await sleep(Math.max(0, waitMs), null, { signal, ref: false }).catch(() => null);
      if (signal.aborted) return;
      this.#isRunning = true;
      try {
        this.#lastMs = timeIn(await this.#ask(createArgs));
        this.#problem = null;
      } catch (error) {
        if (!signal.aborted) {
          this.#failures++;
          this.#problem = (error as Error).message;
          onProblem(this.#problem);
        }
      }
      this.#isRunning = false;
    }
  }

  /** Rejects with the last line that it said. */
  #ask(args: readonly string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { maxBuffer: answerBytesMax };
      this.#child = execFile(process.execPath, [main, ...args], options, (error, out, told) => {
        this.#child = null;
        const [last = 'its process died'] = told.trim().split('\n').slice(-1);
        if (error) reject(new Error(last.replace(/^bursar: /, '') || error.message));
        else resolve(out);
      });
    });
  }
}

function timeIn(answer: string): number {
  return Date.parse((JSON.parse(answer) as { time: string }).time);
}

function newestIn(answer: string): number | null {
  const times = (JSON.parse(answer) as { time?: string }[]).flatMap(({ time }) =>
    time === undefined ? [] : [Date.parse(time)],
  );
  return times.length > 0 ? Math.max(...times) : null;
}
