// The undelete window of a bucket, as the native API shows it.
import { readHeldBy } from '../../catalog/held-totals.ts';
import { heldByWindow, readWindow } from '../../catalog/undelete-window.ts';
import { isoTime } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { answerObject, integer, time } from './schemas.ts';

const daySeconds = 86_400;
export const windowSeconds = integer(
  'For how long what is overwritten or deleted can be brought back.',
  {
    minimum: 60,
    maximum: 366 * daySeconds,
  },
);

export const windowSchema = {
  ...answerObject({
    seconds: windowSeconds,
    since: { ...time, description: 'What was before then cannot be brought back.' },
    heldVersions: integer('What was overwritten, deleted or changed since, and is held.'),
    heldBytes: integer('Of these, what is stored for it.'),
  }),
  type: ['object', 'null'],
  description: 'null: what is overwritten or deleted cannot be brought back by this.',
} as const;

/** null: the bucket has none. */
export async function showWindow(read: Reader, bucketId: number): Promise<object | null> {
  const window = await readWindow(read, bucketId);
  if (!window) return null;
  const { versions: heldVersions, bytes: heldBytes } = await readHeldBy(
    read,
    bucketId,
    heldByWindow,
  );
  const { windowMs, sinceMs } = window;
  return { seconds: windowMs / 1000, since: isoTime(sinceMs), heldVersions, heldBytes };
}
