// A probe in the background of a gateway, seen from inside: its process. Invariant: it asks before
// each measurement, and ends at once when nobody answers any more, since then the gateway is gone.
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import type { Sample } from '../../instruments/sample.ts';
import type { JobOutcome } from './probe-job.ts';
import { type ProbeJob, runProbeJob } from './probe-job.ts';

/** Messages from the gateway. */
export type ToProbe = { kind: 'job'; job: ProbeJob } | { kind: 'go' };

/** Messages to the gateway. */
export type FromProbe =
  | { kind: 'ready' }
  /** Sent each minute, so that a probe that hangs is told from one that waits. */
  | { kind: 'alive' }
  | { kind: 'ask' }
  | { kind: 'sample'; sample: Sample }
  | { kind: 'notice'; text: string }
  | { kind: 'end'; reason: JobOutcome['reason'] | 'failed'; message: string | null };

/** Throws `CommandFailure` (usage) where no gateway has started it. */
export async function runSupervisedProbe(): Promise<void> {
  if (!process.connected) throw new CommandFailure('usage', 'only bursar serve starts this');
  setPriority(constants.priority.PRIORITY_LOW);
  const gone = new AbortController();
  process.once('disconnect', () => gone.abort());
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort());
  // Ctrl-C reaches all processes of a terminal; the gateway says when this one ends.
  process.on('SIGINT', () => {});
  setInterval(() => send({ kind: 'alive' }), aliveMs).unref();
  send({ kind: 'ready' });
  const [first] = (await once(process, 'message')) as [ToProbe];
  if (first.kind !== 'job') throw new CommandFailure('usage', 'there is no job');
  send(await run(first.job, stop.signal, gone.signal));
  if (process.connected) process.disconnect();
}

const aliveMs = 60_000;

async function run(job: ProbeJob, stop: AbortSignal, gone: AbortSignal): Promise<FromProbe> {
  try {
    const { reason, message } = await runProbeJob(job, {
      stop,
      abandon: gone,
      mayBegin: async () => {
        const answered = once(process, 'message', { signal: AbortSignal.any([stop, gone]) });
        send({ kind: 'ask' });
        await answered;
      },
      onSample: (sample) => send({ kind: 'sample', sample }),
      onNotice: (text) => send({ kind: 'notice', text }),
    });
    return { kind: 'end', reason, message };
  } catch (error) {
    return { kind: 'end', reason: 'failed', message: messageOfFailure(error) };
  }
}

function send(message: FromProbe): void {
  // The gateway may end at any moment; `disconnect` says so.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
