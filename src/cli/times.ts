// Times as users give them to commands: a day, a month, a time with its zone, or how long ago. Days
// and months begin at midnight, UTC. What cannot be one is a usage error that shows all forms; the
// native API is given RFC 3339.
import { InvalidArgumentError } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import { duration } from './command-arguments.ts';

/** The forms, for what `--help` says of a flag. */
export const timeForms = '2026-11-23, 2026-11, 2026-11-23T16:30:00Z or 2h ago';

const allForms =
  'a day (2026-11-23), a month (2026-11), a time with its zone (2026-11-23T16:30:00Z) ' +
  'or how long ago (30s, 10m, 2h, 7d)';

const dayForm = /^\d{4}-\d\d(-\d\d)?$/;
const timeForm = /^(\d{4}-\d\d-\d\d)T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/;
const agoForm = /^(\d{1,6}[smhd])( ago)?$/;
const nameForm = /^[a-z0-9][a-z0-9._-]*$/;
const indexForm = /^\d{1,15}$/;

/** Milliseconds since the Unix epoch. Throws `InvalidArgumentError`, as do all below. */
export function timeMs(written: string): number {
  const foundMs = readTime(written);
  if (foundMs !== null) return foundMs;
  throw new InvalidArgumentError(`Must be ${allForms}.`);
}

/** RFC 3339, in UTC. */
export function time(written: string): string {
  return new Date(timeMs(written)).toISOString();
}

/** A day of UTC: `2026-11-23`. */
export function day(written: string): string {
  if (!timeForm.test(written)) return time(written).slice(0, 'yyyy-mm-dd'.length);
  throw new InvalidArgumentError('Must be a day (2026-11-23), a month (2026-11) or 7d ago.');
}

/**
 * An empty range is a mistake, and what fits it would look like an answer. Throws `CommandFailure`;
 * what are no times is left to the command.
 */
export function checkRange({ from, to }: { from?: unknown; to?: unknown }): void {
  if (typeof from !== 'string' || typeof to !== 'string') return;
  if (!/^\d{4}-\d\d-\d\d/.test(from) || !/^\d{4}-\d\d-\d\d/.test(to) || from < to) return;
  throw new CommandFailure('usage', `--to ${to} is not after --from ${from}: nothing is between`);
}

/** The index of a record, or a time. */
export function timeOrIndex(written: string): string {
  return indexForm.test(written) ? written : time(written);
}

/** Whether what `timeOrSnapshot` gave is a snapshot's name. */
export function isSnapshotName(given: string): boolean {
  return nameForm.test(given);
}

/** The name of a snapshot, or a time. Snapshots may be called after days and months. */
export function timeOrSnapshot(written: string): string {
  if (!agoForm.test(written) && nameForm.test(written)) return written;
  const foundMs = readTime(written);
  if (foundMs !== null) return new Date(foundMs).toISOString();
  throw new InvalidArgumentError(
    "Must be a snapshot's name (before-cleanup), a time with its zone (2026-11-23T16:30:00Z) or " +
      'how long ago (30s, 10m, 2h, 7d).',
  );
}

/** null: it is no time. */
function readTime(written: string): number | null {
  const [, ago] = agoForm.exec(written) ?? [];
  if (ago !== undefined) return Date.now() - duration(ago);
  if (dayForm.test(written)) return isDay(written) ? Date.parse(written) : null;
  const [, date, , , zone] = timeForm.exec(written) ?? [];
  if (date === undefined || !isDay(date)) return null;
  if (zone === undefined) {
    throw new InvalidArgumentError(`Its zone is missing, such as Z for UTC: ${written}Z.`);
  }
  const foundMs = Date.parse(written);
  return Number.isNaN(foundMs) ? null : foundMs;
}

/** Not so 2026-02-30, which would be taken for a day of March. */
function isDay(written: string): boolean {
  const foundMs = Date.parse(written);
  return !Number.isNaN(foundMs) && new Date(foundMs).toISOString().startsWith(written);
}
