// Shipping of what a gateway commits, seen from inside: its process. Invariant: it ends when the
// gateway is gone, and, when that says so, after what was committed last was shipped.
import { once } from 'node:events';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { PieceSealer } from '../../backup/pieces.ts';
import { Shipper, type ShipperState } from '../../backup/shipping/shipper.ts';
import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import { openBackupPlace, type PlaceFlags } from '../folder/backup-place.ts';
import { type DataSettings, openDataFolder } from '../folder/data-folder.ts';

export interface ShippingJob {
  settings: DataSettings;
  place: string;
  placeFlags: PlaceFlags;
  everyMs: number;
}

/** Messages from the gateway. `look`: a backup was made. */
export type ToShipping = { kind: 'job'; job: ShippingJob } | { kind: 'look' } | { kind: 'stop' };

/** Messages to the gateway. `problem` is null when the last attempt went well. */
export type FromShipping =
  | { kind: 'ready' }
  | { kind: 'state'; state: ShipperState | null; problem: string | null };

/** A lower priority than the gateway's, and a higher one than a backup's. */
const niceness = 5;
/** Backups are also looked for this often, since some are made by hand. */
const lookMs = 60_000;
const pauseMsMax = 10_000;

/** Throws `CommandFailure` (usage) where no gateway has started it. */
export async function runSupervisedShipping(): Promise<void> {
  if (!process.connected) throw new CommandFailure('usage', 'only bursar serve starts this');
  os.setPriority(niceness);
  process.umask(0o077);
  // These signals reach all processes of a terminal or a service; the gateway says when this one
  // ends.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  send({ kind: 'ready' });
  const [first] = (await once(process, 'message')) as [ToShipping];
  if (first.kind !== 'job') throw new CommandFailure('usage', 'there is no job');
  const stop = new AbortController();
  const looks = { isDue: true };
  process.on('message', ({ kind }: ToShipping) => {
    if (kind === 'stop') stop.abort();
    if (kind === 'look') looks.isDue = true;
  });
  await run(first.job, stop.signal, looks);
}

async function run(job: ShippingJob, stop: AbortSignal, looks: { isDue: boolean }): Promise<void> {
  const { everyMs } = job;
  let shipper: Shipper | null = null;
  let failures = 0;
  let lookedMs = Number.NEGATIVE_INFINITY;
  for (let isLast = false; !isLast; ) {
    isLast = stop.aborted;
    let problem: string | null = null;
    try {
      shipper ??= await open(job);
      if (looks.isDue || Date.now() - lookedMs > lookMs) {
        looks.isDue = false;
        lookedMs = Date.now();
        await shipper.lookForBackups();
      }
      await shipper.ship();
      failures = 0;
    } catch (error) {
      problem = messageOfFailure(error instanceof Error ? (error.cause ?? error) : error);
      looks.isDue = true;
      failures++;
    }
    send({ kind: 'state', state: shipper?.state ?? null, problem });
    const pauseMs = Math.min(everyMs * 2 ** Math.min(failures, 10), Math.max(pauseMsMax, everyMs));
    if (!isLast) await sleep(pauseMs, null, { signal: stop }).catch(() => null);
  }
  shipper?.close();
}

async function open({ settings, place, placeFlags }: ShippingJob): Promise<Shipper> {
  const folder = await openDataFolder(settings, { isShared: true });
  folder.release();
  const opened = await openBackupPlace(place, placeFlags, { mayMake: true });
  const sealer = new PieceSealer(folder.keyring);
  const { path, databaseFile } = folder;
  return Shipper.open({ folder: path, databaseFile, place: opened, sealer });
}

function send(message: FromShipping): void {
  // The gateway may end at any moment; `disconnect` says so.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}
