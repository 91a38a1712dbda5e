// Versions that are kept, current and noncurrent ones together, markers included. Versions move
// between the two tables while others read: so each step is one statement, which sees both as they
// are at one moment, and goes by key and seq, which a version keeps wherever it is. Invariant: a
// walk meets every version that is there from its beginning to its end.
import type { Reader } from '../core/database.ts';
import { currentColumns, noncurrentColumns, type Version, wholeColumns } from './versions.ts';

const current = `SELECT ${currentColumns}, ${wholeColumns} FROM versions AS v`;
const noncurrent = `SELECT ${noncurrentColumns}, ${wholeColumns}
  FROM noncurrent_versions AS v`;

/**
 * Up to `max` versions of a bucket as their rows are, by key and from the newest down, after one of
 * them; null: from the first.
 */
export async function listKept(
  read: Reader,
  wanted: { bucketId: number; after: { key: string; seq: number } | null; max: number },
): Promise<Version[]> {
  const { bucketId, after, max } = wanted;
  if (after) {
    const older = 'WHERE bucket_id = ? AND key = ? AND seq < ?';
    const rows = await read.all<Version>(
      `${current} ${older} UNION ALL ${noncurrent} ${older} ORDER BY seq DESC LIMIT ?`,
      ...[bucketId, after.key, after.seq],
      ...[bucketId, after.key, after.seq],
      max,
    );
    if (rows.length > 0) return rows;
  }
  const beyond = 'WHERE bucket_id = ? AND key > ? ORDER BY key';
  return read.all<Version>(
    `SELECT * FROM (${current} ${beyond} LIMIT ?)
       UNION ALL SELECT * FROM (${noncurrent} ${beyond}, seq DESC LIMIT ?)
       ORDER BY key, seq DESC LIMIT ?`,
    ...[bucketId, after?.key ?? '', max],
    ...[bucketId, after?.key ?? '', max],
    max,
  );
}
