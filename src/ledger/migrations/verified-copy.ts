// The copy of a database that is made before its schema is changed, so that there is a way back.
// Invariants: a file of this name is whole, was checked page by page, and is durable; one of
// another state of the database is never replaced.

import { existsSync, readdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { atEnd } from '../../core/closing.ts';
import { WorkFailure } from '../../core/command-failure.ts';
import { copyDatabase } from '../../core/database.ts';
import { renameDurably } from '../../core/durable-file.ts';

/** What else the disk must have room for: the steps' own writes are in SQLite's log for a while. */
const spareBytes = 64 * 1024 * 1024;

const unfinished = '.unfinished';

export interface CopiedState {
  schema: number;
  /** Records in its log. */
  records: number;
}

/** `bursar.db.schema-3.records-1204`: a database of that state. */
export function copyPathOf(path: string, { schema, records }: CopiedState): string {
  return `${path}.schema-${schema}.records-${records}`;
}

/**
 * Copies a database to a file of the same folder. Throws `WorkFailure` when there is no room,
 * or when the copy shows that the database is damaged.
 */
export async function copyVerified(
  path: string,
  target: string,
  onProgress: (pagesDone: number, pagesTotal: number) => void,
): Promise<void> {
  const temporary = `${target}${unfinished}`;
  removeUnfinished(path);
  requireRoom(path);
  using _unfinished = atEnd(() => removeUnfinished(path));
  const damage = await copyDatabase(path, temporary, onProgress);
  if (damage.length > 0) {
    const told = damage.slice(0, 3).join('; ');
    throw new WorkFailure(`the database is damaged, and was left alone: ${told}`);
  }
  renameDurably(temporary, target);
}

/** What a copy that was killed left. */
function removeUnfinished(path: string): void {
  const folder = dirname(path);
  for (const name of readdirSync(folder)) {
    const isOurs = name.startsWith(`${basename(path)}.`) && name.includes(unfinished);
    if (isOurs) rmSync(join(folder, name));
  }
}

/** Bytes of a database with its write-ahead log. */
function sizeOf(path: string): number {
  const log = `${path}-wal`;
  return statSync(path).size + (existsSync(log) ? statSync(log).size : 0);
}

function requireRoom(path: string): void {
  const { bavail, bsize } = statfsSync(dirname(path));
  const [needed, free] = [sizeOf(path) + spareBytes, bavail * bsize];
  if (free >= needed) return;
  const mib = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MiB`;
  throw new WorkFailure(
    `a copy of the database is made before its schema is changed, which takes ${mib(needed)}, ` +
      `and the disk has ${mib(free)}: make room, or have a backup and use --migrate-without-copy`,
  );
}
