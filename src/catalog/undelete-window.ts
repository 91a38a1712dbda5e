// The undelete window of a bucket: what is overwritten, deleted or changed in it is held for so
// long, as by a snapshot that moves (held-versions.ts). It is a setting of the bucket. Invariants:
// what ended since `sinceMs`, and not before the window, is held; and nothing says that it reaches
// back to before it was set, or to what a narrower one has let go of already.
import type { Reader } from '../core/database.ts';
import { readSetting } from './buckets.ts';

export interface UndeleteWindow {
  windowMs: number;
  /** It reaches back to here at most. */
  sinceMs: number;
}

/** `holder` of what the window holds: no snapshot of a bucket is the log's first record. */
export const heldByWindow = 0;

/** undefined: the bucket has none. */
export async function readWindow(
  read: Reader,
  bucketId: number,
): Promise<UndeleteWindow | undefined> {
  const document = await readSetting(read, bucketId, 'undelete');
  return document === null ? undefined : parseWindow(document);
}

/** All that ended since this moment is held; Infinity: the bucket has no window. */
export async function readHeldSince(
  read: Reader,
  bucketId: number,
  timeMs: number,
): Promise<number> {
  const window = await readWindow(read, bucketId);
  return window ? beginOf(window, timeMs) : Number.POSITIVE_INFINITY;
}

export function parseWindow(document: string): UndeleteWindow {
  return JSON.parse(document) as UndeleteWindow;
}

/** Milliseconds, of all buckets; 0: none has one. */
export async function readLongestWindow(read: Reader): Promise<number> {
  const sql = `SELECT ifnull(max(json_extract(document, '$.windowMs')), 0) AS ms
    FROM main.bucket_settings WHERE name = 'undelete'`;
  return (await read.get<{ ms: number }>(sql))?.ms ?? 0;
}

/** The earliest moment that it shows. */
export function beginOf({ windowMs, sinceMs }: UndeleteWindow, timeMs: number): number {
  return Math.max(sinceMs, timeMs - windowMs);
}

const momentForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z$/;

/** The moment that a mount shows, or that something is brought back from; null: it is no time. */
export function readMoment(written: string): number | null {
  const timeMs = momentForm.test(written) ? Date.parse(written) : Number.NaN;
  return Number.isNaN(timeMs) ? null : timeMs;
}

const slackMsMax = 60_000;

/**
 * How long what the window has passed is held nevertheless: who began to read it may end, and all
 * that a minute has ended is let go of together.
 */
export function slackOf(windowMs: number): number {
  return Math.min(slackMsMax, windowMs / 60);
}
