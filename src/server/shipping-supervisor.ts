// Continuous shipping, `--backup-ship-every`, seen from the gateway: a process that reads what the
// gateway commits. Invariants: whatever it does, or does not do, serving goes on as it is; when it
// dies it is begun again; and how far behind it is counts on while nothing is heard of it.
import { type ChildProcess, spawn } from 'node:child_process';
import { nowMs } from '../core/clock.ts';
import { messageOfFailure } from '../core/command-failure.ts';
import type { FromShipping, ShippingJob, ToShipping } from './processes/supervised-shipping.ts';
import { mainFile, SupervisedCommand } from './supervised-command.ts';

export interface ShippingOptions {
  job: ShippingJob;
  /** Told once for each problem, until shipping works again. */
  onProblem: (text: string) => void;
  /**
   * Told when a new backup is needed: there is none that segments can be put on, or very many are.
   */
  onBackupWanted: () => void;
  /**
   * Told when a commit is needed: a stream begins with the first commit after SQLite's log was
   * emptied.
   */
  onCommitWanted: () => void;
}

export interface ShippingState {
  /** What was committed in the last so many milliseconds is not shipped yet. */
  lagMs: number;
  /** Changed pages that wait, as of the last message. */
  lagBytes: number;
  isLate: boolean;
  /** Why the last attempt failed; null: it did not. */
  problem: string | null;
  shippedBytes: number;
  failures: number;
  /** The stream that is being shipped; null: none yet. */
  stream: string | null;
  /** The number of its newest segment. */
  segment: number;
}

const restartMs = 1000;
/** How long a stopping gateway waits for the last segment. */
const stopMsMax = 10_000;
/** A lag of more than this is late, however seldom segments are shipped. */
const lateMsMin = 60_000;

export class ShippingSupervisor {
  readonly #options: ShippingOptions;
  readonly #command = new SupervisedCommand({
    askToEnd: (child) => send(child, { kind: 'stop' }),
    stopMsMax,
  });
  #child: ChildProcess | null = null;
  #safeMs = nowMs();
  #state: Extract<FromShipping, { kind: 'state' }>['state'] = null;
  #shippedBefore = 0;
  #problem: string | null = null;
  #failures = 0;
  #hasAskedFor: string | null = null;
  #begin: () => void = () => {};
  /** Resolves when it ships, or cannot. */
  readonly begun: Promise<void> = new Promise((resolve) => {
    this.#begin = resolve;
  });

  constructor(options: ShippingOptions) {
    this.#options = options;
  }

  start(): void {
    this.#command.start(() => this.#run());
  }

  /** Resolves after the last commit of the gateway was shipped, if the place takes it. */
  close(): Promise<void> {
    return this.#command.close();
  }

  /** To be called when a backup was made. */
  look(): void {
    if (this.#child) send(this.#child, { kind: 'look' });
  }

  state(): ShippingState {
    const lagMs = Math.max(0, nowMs() - this.#safeMs);
    return {
      lagMs,
      lagBytes: this.#state?.waitingBytes ?? 0,
      isLate: lagMs > Math.max(lateMsMin, 10 * this.#options.job.everyMs),
      problem: this.#problem,
      shippedBytes: this.#shippedBefore + (this.#state?.shippedBytes ?? 0),
      failures: this.#failures,
      stream: this.#state?.stream ?? null,
      segment: this.#state?.seq ?? 0,
    };
  }

  async #run(): Promise<void> {
    while (!this.#command.isClosing) {
      const end = await this.#runOnce();
      if (this.#command.isClosing) return;
      this.#tell(end);
      this.#shippedBefore += this.#state?.shippedBytes ?? 0;
      this.#state = null;
      await this.#command.pause(restartMs);
    }
  }

  /** Resolves when the process has ended, with why. */
  #runOnce(): Promise<string> {
    return new Promise((resolve) => {
      let end = 'its process died';
      // The environment may have credentials of the place.
      const child = spawn(process.execPath, [mainFile, 'ship-supervised'], {
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
      this.#child = this.#command.watch(child);
      child.on('message', (message: FromShipping) => this.#receive(child, message));
      child.on('error', (error) => {
        end = messageOfFailure(error);
      });
      child.once('close', () => {
        this.#child = null;
        resolve(end);
      });
    });
  }

  #receive(child: ChildProcess, message: FromShipping): void {
    if (message.kind === 'ready') {
      send(child, { kind: 'job', job: this.#options.job });
      return;
    }
    const { state, problem } = message;
    this.#tell(problem);
    this.#state = state;
    if (state?.stream || problem !== null) this.#begin();
    if (state?.safeMs != null) this.#safeMs = Math.max(this.#safeMs, state.safeMs);
    if (state?.stream === null) this.#options.onCommitWanted();
    // Asked for once per stream, and again when much was shipped on top of its backup.
    const wanted = state?.wantsBackup ? state.stream : null;
    if (wanted !== null && wanted !== this.#hasAskedFor) this.#options.onBackupWanted();
    this.#hasAskedFor = wanted;
  }

  #tell(problem: string | null): void {
    if (problem !== null) {
      this.#failures++;
      if (this.#problem === null && !this.#command.isClosing) this.#options.onProblem(problem);
    }
    this.#problem = problem;
  }
}

function send(child: ChildProcess, message: ToShipping): void {
  if (child.connected) child.send(message, () => {});
}
