// A command of this program that a gateway runs beside itself, again and again: backups, shipping,
// the probe. Invariants: one process at a time; when `close` has resolved there is none, and none
// is begun any more; and one that does not end when it is asked to is killed.
import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The file that runs this program's commands: `node main.js WORDS`. */
export const mainFile = fileURLToPath(new URL('../cli/main.js', import.meta.url));
const stopMsMax = 5000;

export class SupervisedCommand {
  readonly #askToEnd: (child: ChildProcess) => void;
  readonly #stopMsMax: number;
  readonly #stopping = new AbortController();
  #child: ChildProcess | null = null;
  #running: Promise<void> = Promise.resolve();

  /** `askToEnd` is called instead of sending SIGTERM. */
  constructor(options: { askToEnd?: (child: ChildProcess) => void; stopMsMax?: number } = {}) {
    this.#askToEnd = options.askToEnd ?? ((child) => void child.kill('SIGTERM'));
    this.#stopMsMax = options.stopMsMax ?? stopMsMax;
  }

  get isClosing(): boolean {
    return this.#stopping.signal.aborted;
  }

  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  /** `work` runs processes until `isClosing`; it must not reject. */
  start(work: () => Promise<void>): void {
    if (!this.isClosing) this.#running = work();
  }

  /** The process that is running from now on. */
  watch(child: ChildProcess): ChildProcess {
    this.#child = child;
    child.once('close', () => {
      if (this.#child === child) this.#child = null;
    });
    if (this.isClosing) this.#askToEnd(child);
    return child;
  }

  /** Ends early when the command is closed. Does not keep the process alive. */
  async pause(ms: number, signal: AbortSignal = this.signal): Promise<void> {
    await sleep(Math.max(0, ms), null, { signal, ref: false }).catch(() => null);
  }

  /** Resolves when the process and what runs it have ended. */
  async close(): Promise<void> {
    this.#stopping.abort();
    if (this.#child) this.#askToEnd(this.#child);
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), this.#stopMsMax);
    await this.#running;
    clearTimeout(timer);
  }
}
