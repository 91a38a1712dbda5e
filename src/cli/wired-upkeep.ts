// What goes on beside the requests, put together: sweeping, lifecycle rules, and what the ledger is told as
// time goes by. Each is ended with the others.
import type { Rooms } from '../gateway/rooms.ts';
import type { LifecycleWorker } from '../ledger/lifecycle-worker.ts';
import { Sweeper } from '../ledger/sweeper.ts';
import { UsageRollUp } from '../ledger/usage-roll-up.ts';
import { type Closers, opened } from './closers.ts';
import type { Config } from './config.ts';
import type { OpenStores } from './wired-stores.ts';
import { startFoldTimer, startStorageTimer } from './wired-timers.ts';

/** `lifecycle` has not begun. Gives what adds usage up. */
export function startUpkeep(
  config: Config,
  rooms: Rooms,
  given: OpenStores & { lifecycle: LifecycleWorker; closers: Closers },
): UsageRollUp {
  const { lifecycle, closers } = given;
  startSweeper(config, rooms, given, closers);
  closers.push(startStorageTimer(rooms), startFoldTimer(rooms.ledger));
  closers.push(() => lifecycle.stop());
  lifecycle.start();
  return startRollUp(rooms, closers);
}

function startSweeper(
  config: Config,
  { read, ledger, leases, log }: Rooms,
  { stores, storeList, journals }: OpenStores,
  closers: Closers,
): void {
  const sweeper = new Sweeper({
    read,
    ledger,
    stores,
    // An older copy does not know that what it takes for garbage is alive.
    maySweep: (store) => log.refusal === null && journals.maySweep(store),
    confirmPlace: (store) => storeList.confirmOwner(store),
    leases,
    intervalMs: config.sweepIntervalMs,
    graceMs: config.sweepGraceMs,
    onError: (error) => process.stderr.write(`bursar: a sweep ended: ${String(error)}\n`),
  });
  closers.push(() => sweeper.stop());
  sweeper.start();
}

const rollUpIntervalMs = 5000;

function startRollUp({ ledger }: Pick<Rooms, 'ledger'>, closers: Closers): UsageRollUp {
  const onError = (error: unknown) =>
    process.stderr.write(`bursar: usage was not added up: ${String(error)}\n`);
  const options = { ledger, intervalMs: rollUpIntervalMs, onError };
  const rollUp = opened(closers, new UsageRollUp(options));
  rollUp.start();
  return rollUp;
}
