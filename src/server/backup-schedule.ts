// Backups that `serve` makes by itself, `--backup-to` each `--backup-every`: each is
// `bursar backup create` in a process of its own, of a lower priority. Invariants: one at a time;
// whatever it does, or does not do, serving goes on as it is; when the last one was finished is
// read from the place at the start, so that a gateway that is started often still makes them in
// time; and one that fails or is late is told, once for each failure, in health and in metrics.
import { execFile } from 'node:child_process';
import { nowMs } from '../core/clock.ts';
import { mainFile, SupervisedCommand } from './supervised-command.ts';

export interface ScheduleOptions {
  /** `bursar backup create …` and `bursar backup list …`, with `--json`. */
  createArgs: readonly string[];
  listArgs: readonly string[];
  everyMs: number;
  /** Between a failure and the next attempt, if that is sooner. */
  retryMs: number;
  onProblem: (text: string) => void;
  /** Told when a backup was made. */
  onMade?: () => void;
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

const answerBytesMax = 16 * 1024 * 1024;

export class BackupSchedule {
  readonly #options: ScheduleOptions;
  /** An unfinished backup is ended on close: the next one uses what it wrote. */
  readonly #command = new SupervisedCommand();
  readonly #begunMs = nowMs();
  #early = new AbortController();
  #isWanted = false;
  #lastMs: number | null = null;
  #problem: string | null = null;
  #failures = 0;
  #isRunning = false;

  constructor(options: ScheduleOptions) {
    this.#options = options;
  }

  start(): void {
    this.#command.start(() => this.#run());
  }

  close(): Promise<void> {
    return this.#command.close();
  }

  /** Another backup is made at once, or when the one under way is finished. */
  wantNow(): void {
    this.#isWanted = true;
    this.#early.abort();
  }

  state(): ScheduleState {
    const sinceMs = this.#lastMs ?? this.#begunMs;
    // Twice the interval, since a backup may be under way, and the machine may have been busy.
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
    const { everyMs, retryMs, listArgs, createArgs, onProblem, onMade } = this.#options;
    const command = this.#command;
    this.#lastMs = await this.#ask(listArgs).then(newestIn, () => null);
    while (!command.isClosing) {
      const dueMs = (this.#lastMs ?? 0) + everyMs;
      const isFailing = this.#problem !== null;
      const waitMs = isFailing ? Math.min(retryMs, everyMs) : this.#isWanted ? 0 : dueMs - nowMs();
      this.#early = new AbortController();
      // A backup that was asked for while one failed also waits for the next attempt.
      await command.pause(
        waitMs,
        isFailing ? undefined : AbortSignal.any([command.signal, this.#early.signal]),
      );
      if (command.isClosing) return;
      this.#isRunning = true;
      this.#isWanted = false;
      try {
        this.#lastMs = timeIn(await this.#ask(createArgs));
        this.#problem = null;
        onMade?.();
      } catch (error) {
        if (!command.isClosing) {
          this.#failures++;
          this.#problem = (error as Error).message;
          onProblem(this.#problem);
        }
      }
      this.#isRunning = false;
    }
  }

  /** Rejects with the last line that the command printed. */
  #ask(args: readonly string[]): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { maxBuffer: answerBytesMax };
      const child = execFile(process.execPath, [mainFile, ...args], options, (error, out, told) => {
        const [last = 'its process died'] = told.trim().split('\n').slice(-1);
        if (error) reject(new Error(last.replace(/^bursar: /, '') || error.message));
        else resolve(out);
      });
      this.#command.watch(child);
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
