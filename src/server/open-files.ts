// How many files and connections this process may have open, and how many connections that serves.
import { readFileSync } from 'node:fs';
import type { OperatorLog } from '../instruments/operator-log.ts';

/** The database, its readers, threads, logs, and connections to stores. */
const ownFiles = 512;
/** A connection's socket, and a file that it reads or writes. */
const filesPerConnection = 2;
const connectionsMin = 16;

/** The limit that the kernel enforces; Infinity: there is none, or nobody can tell. */
function openFilesMax(): number {
  const text = limitsText();
  const [, soft] = /^Max open files\s+(\d+)\s/m.exec(text) ?? [];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

/** proc(5); only Linux has it. */
function limitsText(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}

/** As many connections as were asked for or, where files would run out before, fewer; says so. */
export function connectionsWithin(
  asked: number,
  log: Pick<OperatorLog, 'warn'>,
  filesMax = openFilesMax(),
): number {
  const most = Math.max(Math.floor((filesMax - ownFiles) / filesPerConnection), connectionsMin);
  if (asked <= most) return asked;
  log.warn(
    `this process may open ${filesMax} files (ulimit -n), which is enough for ${most} connections, not ${asked}`,
  );
  return most;
}
