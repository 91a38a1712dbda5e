// The backups that `serve` makes by itself, and what it ships between them, put together.
import { setTimeout as sleep } from 'node:timers/promises';
import { CommandFailure } from '../core/command-failure.ts';
import type { MetricRegistry, Values } from '../instruments/metric-registry.ts';
import { BackupSchedule, type ScheduleState } from './backup-schedule.ts';
import type { Base } from './base.ts';
import { opened } from './closers.ts';
import type { Config } from './settings/config.ts';
import {
  type ShippingOptions,
  type ShippingState,
  ShippingSupervisor,
} from './shipping-supervisor.ts';

const retryMs = 5 * 60_000;

type Wants = Pick<ShippingOptions, 'onBackupWanted' | 'onCommitWanted'>;

export interface Backups {
  /** Undefined: none are asked for. */
  schedule?: BackupSchedule;
  shipping?: ShippingSupervisor;
}

/**
 * It is opened before the ledger, so that it is closed after it and the last commit is shipped,
 * too. Undefined: nothing is to be shipped. Throws `CommandFailure` where the settings do not fit.
 */
export function openShipping(
  { config, folder, closers, log, metrics: { registry } }: Base,
  wants: Wants,
): ShippingSupervisor | undefined {
  const { backupTo: place, backupShipEveryMs: everyMs } = config;
  if (everyMs === undefined) {
    watchShipping(registry, () => undefined);
    return undefined;
  }
  if (place === undefined) {
    throw new CommandFailure('usage', '--backup-ship-every goes with --backup-to');
  }
  const { kmsKey, kmsRegion, kmsEndpoint } = config;
  const settings = { data: folder.path, kmsKey, kmsRegion, kmsEndpoint };
  const shipping = new ShippingSupervisor({
    job: { settings, place, placeFlags: placeFlags(config), everyMs },
    onProblem: (text) => log.warn(`changes are not shipped to ${place}`, text),
    ...wants,
  });
  watchShipping(registry, () => shipping.state());
  return opened(closers, shipping);
}

/** Undefined: none are asked for. Throws `CommandFailure` where the settings do not fit. */
export function scheduleBackups(
  { config, folder, closers, log, metrics: { registry } }: Base,
  shipping: ShippingSupervisor | undefined,
): BackupSchedule | undefined {
  const { backupTo: place, backupEveryMs: everyMs, backupKeep } = config;
  if (place === undefined) {
    watch(registry, () => undefined);
    if (everyMs === undefined) return undefined;
    throw new CommandFailure('usage', '--backup-every goes with --backup-to');
  }
  if (!place.startsWith('s3://') && placeArgs(config).length > 0) {
    const message =
      'the backup endpoint, region and path style go with --backup-to s3://BUCKET/PREFIX';
    throw new CommandFailure('usage', message);
  }
  const where = [place, '--data', folder.path, '--json', ...placeArgs(config), ...kmsArgs(config)];
  const schedule = new BackupSchedule({
    createArgs: ['backup', 'create', ...where, '--keep', String(backupKeep)],
    listArgs: ['backup', 'list', ...where],
    everyMs: everyMs ?? dayMs,
    retryMs,
    onProblem: (text) => log.warn(`no backup was made in ${place}`, text),
    onMade: () => shipping?.look(),
  });
  watch(registry, () => schedule.state());
  return opened(closers, schedule);
}

/**
 * Shipping begins first: segments can only be put on top of a backup that was made after it began.
 */
export function startBackups({ schedule, shipping }: Backups): void {
  shipping?.start();
  const begun = shipping?.begun ?? Promise.resolve();
  void Promise.race([begun, sleep(begunMsMax, null, { ref: false })]).then(() => schedule?.start());
}

/**
 * Ends them for good, since this database may be an older copy: its backups would be the newest of
 * the place, and push out those that are needed then.
 */
export function endBackups({ schedule, shipping }: Backups): void {
  void schedule?.close();
  void shipping?.close();
}

const begunMsMax = 10_000;
const dayMs = 24 * 3600_000;

function placeFlags({ backupEndpoint, backupRegion, backupPathStyle }: Config) {
  return {
    ...(backupEndpoint !== undefined && { s3Endpoint: backupEndpoint }),
    ...(backupRegion !== undefined && { s3Region: backupRegion }),
    ...(backupPathStyle && { s3PathStyle: true }),
  };
}

function placeArgs({ backupEndpoint, backupRegion, backupPathStyle }: Config): string[] {
  return [
    ...(backupEndpoint === undefined ? [] : ['--s3-endpoint', backupEndpoint]),
    ...(backupRegion === undefined ? [] : ['--s3-region', backupRegion]),
    ...(backupPathStyle ? ['--s3-path-style'] : []),
  ];
}

function kmsArgs({ kmsKey, kmsRegion, kmsEndpoint }: Config): string[] {
  return [
    ...(kmsKey === undefined ? [] : ['--kms-key', kmsKey]),
    ...(kmsRegion === undefined ? [] : ['--kms-region', kmsRegion]),
    ...(kmsEndpoint === undefined ? [] : ['--kms-endpoint', kmsEndpoint]),
  ];
}

/** Where no backups are asked for, there are no series. */
function watch(registry: MetricRegistry, state: () => ScheduleState | undefined): void {
  const told = (value: (one: ScheduleState) => number) => (): Values<number> => {
    const one = state();
    return one ? value(one) : [];
  };
  registry.gauge({
    name: 'bursar_backup_last_timestamp_seconds',
    help: 'When the newest backup was begun; 0: there is none.',
    collect: told(({ lastMs }) => (lastMs ?? 0) / 1000),
  });
  registry.gauge({
    name: 'bursar_backup_late',
    help: '1: the last backup failed, or none was made for twice as long as is asked for.',
    collect: told(({ isLate }) => (isLate ? 1 : 0)),
  });
  registry.counter({
    name: 'bursar_backup_failures_total',
    help: 'Backups of --backup-to that failed.',
    collect: told(({ failures }) => failures),
  });
}

/** Where nothing is shipped, there are no series either. */
function watchShipping(registry: MetricRegistry, state: () => ShippingState | undefined): void {
  const told = (value: (one: ShippingState) => number) => (): Values<number> => {
    const one = state();
    return one ? value(one) : [];
  };
  registry.gauge({
    name: 'bursar_shipping_lag_seconds',
    help: 'What was committed in so many seconds cannot be restored from --backup-to yet.',
    collect: told(({ lagMs }) => lagMs / 1000),
  });
  registry.gauge({
    name: 'bursar_shipping_lag_bytes',
    help: 'Changed pages of the database that wait to be shipped to --backup-to.',
    collect: told(({ lagBytes }) => lagBytes),
  });
  registry.counter({
    name: 'bursar_shipped_bytes_total',
    help: 'What was shipped to --backup-to since the start.',
    collect: told(({ shippedBytes }) => shippedBytes),
  });
  registry.counter({
    name: 'bursar_shipping_failures_total',
    help: 'Attempts to ship changes to --backup-to that failed.',
    collect: told(({ failures }) => failures),
  });
}
