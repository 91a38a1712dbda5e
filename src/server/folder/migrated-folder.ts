// A data folder of an older release, brought to the schema of this one before it is served. What is
// done is told: a large database takes a while.
import { existsSync } from 'node:fs';
import { monotonicMs } from '../../core/clock.ts';
import { type MigrationReport, migrate } from '../../ledger/migrations/migrate.ts';
import type { Config } from '../settings/config.ts';
import type { DataFolder } from './data-folder.ts';

const lineEveryMs = 5000;

/** Nothing happens where the database is new, or has this schema. Throws `WorkFailure`. */
export async function migrateFolder(
  { migrateWithoutCopy }: Pick<Config, 'migrateWithoutCopy'>,
  { databaseFile, rootKeys }: DataFolder,
  tell: (line: string) => void,
): Promise<MigrationReport | null> {
  if (!existsSync(databaseFile)) return null;
  const report = await migrate({
    path: databaseFile,
    rootKeys: rootKeys.keys,
    withoutCopy: migrateWithoutCopy,
    onProgress: tellSteps(tell),
  });
  if (report.steps.length === 0) return report;
  const kept = report.copy === null ? '' : `; as it was, it is in ${report.copy}`;
  tell(`the database had schema ${report.from} and has ${report.to} now${kept}`);
  return report;
}

/** A line for each step, and one now and then while it lasts. */
export function tellSteps(
  tell: (line: string) => void,
): (step: string, done: number, total: number | null) => void {
  let told = '';
  let toldMs = 0;
  return (step, done, total) => {
    if (step === told && monotonicMs() - toldMs < lineEveryMs) return;
    const isNew = step !== told;
    told = step;
    toldMs = monotonicMs();
    const share = total ? `: ${Math.floor((100 * done) / total)} %` : `: ${done} rows`;
    tell(isNew ? step : `${step}${share}`);
  };
}
