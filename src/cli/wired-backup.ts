// The backups that `serve` makes by itself, put together.
import type { MetricRegistry, Values } from '../instruments/metric-registry.ts';
import { BackupSchedule, type ScheduleState } from './backup-schedule.ts';
import { type Closers, opened } from './closers.ts';
import type { Config } from './config.ts';
import type { DataFolder } from './data-folder.ts';
import { CommandFailure } from './failure.ts';
import { printable } from './output.ts';

const retryMs = 5 * 60_000;

type BackupSettings = Pick<
  Config,
  | 'backupTo'
  | 'backupEveryMs'
  | 'backupKeep'
  | 'backupEndpoint'
  | 'backupRegion'
  | 'backupPathStyle'
  | 'kmsKey'
  | 'kmsRegion'
  | 'kmsEndpoint'
>;

/** Undefined: none are asked for. Throws `CommandFailure` where the settings do not fit. */
export function scheduleBackups(
  config: BackupSettings,
  { folder, registry, closers }: { folder: DataFolder; registry: MetricRegistry; closers: Closers },
): BackupSchedule | undefined {
  const { backupTo: place, backupEveryMs: everyMs, backupKeep } = config;
  if (place === undefined) {
    watch(registry, () => undefined);
    if (everyMs === undefined) return undefined;
    throw new CommandFailure('usage', '--backup-every goes with --backup-to');
  }
  const where = [place, '--data', folder.path, '--json', ...placeArgs(config), ...kmsArgs(config)];
  const schedule = new BackupSchedule({
    createArgs: ['backup', 'create', ...where, '--keep', String(backupKeep)],
    listArgs: ['backup', 'list', ...where],
    everyMs: everyMs ?? dayMs,
    retryMs,
    onProblem: (text) =>
      process.stderr.write(`bursar: no backup was made in ${place}: ${printable(text)}\n`),
  });
  watch(registry, () => schedule.state());
  return opened(closers, schedule);
}

const dayMs = 24 * 3600_000;

function placeArgs({ backupEndpoint, backupRegion, backupPathStyle }: BackupSettings): string[] {
  return [
    ...(backupEndpoint === undefined ? [] : ['--s3-endpoint', backupEndpoint]),
    ...(backupRegion === undefined ? [] : ['--s3-region', backupRegion]),
    ...(backupPathStyle ? ['--s3-path-style'] : []),
  ];
}

function kmsArgs({ kmsKey, kmsRegion, kmsEndpoint }: BackupSettings): string[] {
  return [
    ...(kmsKey === undefined ? [] : ['--kms-key', kmsKey]),
    ...(kmsRegion === undefined ? [] : ['--kms-region', kmsRegion]),
    ...(kmsEndpoint === undefined ? [] : ['--kms-endpoint', kmsEndpoint]),
  ];
}

/** There are no series where no backups are asked for. */
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
