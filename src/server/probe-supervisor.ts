// The probe of a gateway that probes itself, seen from the gateway: a process of the lowest
// priority that is let measure while little else is done. Invariants: whatever it does, or does not
// do, serving goes on as it is; it is begun again with growing pauses, and ends with the gateway.
import { type ChildProcess, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../core/clock.ts';
import { messageOfFailure } from '../core/command-failure.ts';
import type { Sample } from '../instruments/sample.ts';
import type { ProbeJob } from './processes/probe-job.ts';
import type { FromProbe, ToProbe } from './processes/supervised-probe.ts';
import { mainFile, SupervisedCommand } from './supervised-command.ts';

export interface SupervisorOptions {
  /** What is to be measured now. */
  prepare(): Promise<ProbeJob>;
  /** Requests under way. */
  underWay(): number;
  onSample(sample: Sample): void;
  onProblem(text: string): void;
  /** The pause between two processes, which grows from `min` to `max`. Milliseconds. */
  pauseMs: { min: number; max: number };
}

type End = Pick<Extract<FromProbe, { kind: 'end' }>, 'reason' | 'message'>;

/** A process that is silent for this long hangs: it says each minute that it is alive. */
const silenceMsMax = 5 * 60_000;
/** With more than these, a gateway is busy. */
const underWayMax = 4;
const delayMsMax = 20;
const lookMs = 50;
const busyPauseMs = 1000;

export class ProbeSupervisor {
  readonly #options: SupervisorOptions;
  readonly #command = new SupervisedCommand();

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  start(): void {
    this.#command.start(() => this.#run());
  }

  close(): Promise<void> {
    return this.#command.close();
  }

  async #run(): Promise<void> {
    const { pauseMs, onProblem } = this.#options;
    const command = this.#command;
    let nextMs = pauseMs.min;
    while (!command.isClosing) {
      let end: End;
      try {
        end = await this.#runOnce(await this.#options.prepare());
      } catch (error) {
        end = { reason: 'failed', message: messageOfFailure(error) };
      }
      const { reason, message } = end;
      if (message !== null && !command.isClosing) onProblem(message);
      if (reason === 'done') nextMs = pauseMs.min;
      // The budget is free again when the month ends, or when somebody raises the limit.
      if (reason === 'spent') nextMs = pauseMs.max;
      await command.pause(nextMs);
      nextMs = Math.min(2 * nextMs, pauseMs.max);
    }
  }

  /** Resolves when the process has ended. */
  #runOnce(job: ProbeJob): Promise<End> {
    return new Promise((resolve) => {
      // The process gets no environment: the job has all that it needs, and no key appears in a
      // list of processes.
      const child = spawn(
        process.execPath,
        ['--max-old-space-size=64', mainFile, 'probe-supervised'],
        {
          stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
          env: {},
        },
      );
      this.#command.watch(child);
      let heardMs = monotonicMs();
      let end: End = { reason: 'failed', message: 'its process died' };
      const watch = setInterval(() => {
        if (monotonicMs() - heardMs > silenceMsMax) child.kill('SIGKILL');
      }, silenceMsMax / 5).unref();
      child.on('message', (message: FromProbe) => {
        heardMs = monotonicMs();
        if (message.kind === 'end') end = message;
        else this.#answer(child, job, message);
      });
      child.on('error', (error) => {
        end = { reason: 'failed', message: messageOfFailure(error) };
      });
      child.once('close', () => {
        clearInterval(watch);
        resolve(end);
      });
    });
  }

  #answer(child: ChildProcess, job: ProbeJob, message: FromProbe): void {
    switch (message.kind) {
      case 'ready':
        send(child, { kind: 'job', job });
        break;
      case 'ask':
        void this.#waitForCalm().then(() => send(child, { kind: 'go' }));
        break;
      case 'sample':
        this.#options.onSample(message.sample);
        break;
      case 'notice':
        this.#options.onProblem(message.text);
        break;
    }
  }

  /** Until few requests are under way, and the main thread has time. */
  async #waitForCalm(): Promise<void> {
    const command = this.#command;
    while (!command.isClosing) {
      const sinceMs = monotonicMs();
      await sleep(lookMs, undefined, { ref: false });
      const isLate = monotonicMs() - sinceMs - lookMs > delayMsMax;
      if (!isLate && this.#options.underWay() <= underWayMax) return;
      await command.pause(busyPauseMs);
    }
  }
}

function send(child: ChildProcess, message: ToProbe): void {
  if (child.connected) child.send(message, () => {});
}
