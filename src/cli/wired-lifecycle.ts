// The worker that has lifecycle rules executed.
import type { LogHead } from '../gateway/log-head.ts';
import type { Rooms } from '../gateway/rooms.ts';
import type { Metrics } from '../instruments/metrics.ts';
import { LifecycleWorker } from '../ledger/lifecycle-worker.ts';
import type { Config } from './config.ts';
import { messageOfFailure } from './failure.ts';

export function makeLifecycleWorker(
  { lifecycleDayMs: dayMs }: Config,
  given: Pick<Rooms, 'read' | 'ledger' | 'journals' | 'bookOf'> & {
    log: LogHead;
    metrics: Metrics;
  },
): LifecycleWorker {
  const { read, ledger, journals, bookOf, log, metrics } = given;
  return new LifecycleWorker({
    ...{ read, ledger, dayMs, bookOf },
    admit: (store) => {
      log.checkWritable();
      journals.admitEnds(store);
    },
    onEnded: ({ store, walk, count }) => {
      metrics.countLifecycleEnds(walk, count);
      journals.noteEnds(store);
    },
    onError: (error) =>
      process.stderr.write(`bursar: lifecycle rules wait: ${messageOfFailure(error)}\n`),
  });
}
