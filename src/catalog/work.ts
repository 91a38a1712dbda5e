// Work that others do for the gateway: what is lost in a class whose objects have recipes is made
// again by whoever leases the job. Invariants: a version has one job at most, from the very commit
// that records its loss, and none any more once it is whole or gone; a job is leased by one at a
// time, whose word alone counts until the lease ends; and what fails waits longer each time, until
// it is dead, and stays to be seen.
import type { Reader, Tx } from '../core/database.ts';

/** A lease that has begun so often ends the job, unless it was done. */
export const triesMax = 6;
export const problemLengthMax = 300;
const retryMsMin = 30_000;
const retryMsMax = 60 * 60_000;

export type WorkState = 'due' | 'leased' | 'waiting' | 'dead';

export interface Job {
  /** The version that is to be made again. */
  seq: number;
  bucketId: number;
  /** Of the bucket. */
  tenant: string;
  bucket: string;
  key: string;
  madeMs: number;
  /** When it can be leased, or when its lease ends. */
  dueMs: number;
  /** How often it was leased. */
  tries: number;
  isDead: number;
  /** Who has it, `tenant/name`; null: nobody. */
  holder: string | null;
  /** What its last try failed with; null: nothing is known of one. */
  problem: string | null;
  /** 1: the version is the newest of its key. */
  isNewest: number;
  /** Of a noncurrent version; null: it has none, or is another. */
  versionId: string | null;
}

export function stateOf({ isDead, holder, dueMs }: Job, nowMs: number): WorkState {
  if (isDead) return 'dead';
  if (dueMs <= nowMs) return 'due';
  return holder === null ? 'waiting' : 'leased';
}

/** Of a version that was lost. */
export async function addJob(
  tx: Tx,
  { seq, bucketId, key }: { seq: number; bucketId: number; key: string },
  timeMs: number,
): Promise<void> {
  await tx.run(
    `INSERT OR IGNORE INTO work (seq, bucket_id, key, made_ms, due_ms, tries, is_dead)
       VALUES (?, ?, ?, ?, ?, 0, 0)`,
    ...[seq, bucketId, key, timeMs, timeMs],
  );
}

/** Of a version that is whole again, or gone. */
export async function dropJob(tx: Tx, seq: number): Promise<void> {
  await tx.run('DELETE FROM work WHERE seq = ?', seq);
}

/** The object has another key, and so has its job. */
export async function renameJob(
  tx: Tx,
  from: { seq: number },
  to: { seq: number; key: string },
): Promise<void> {
  await tx.run(
    'UPDATE OR REPLACE work SET seq = ?, key = ? WHERE seq = ?',
    to.seq,
    to.key,
    from.seq,
  );
}

const columns = `w.seq, w.bucket_id AS bucketId, b.tenant, b.name AS bucket, w.key,
  made_ms AS madeMs, due_ms AS dueMs, tries, is_dead AS isDead, holder, problem,
  EXISTS(SELECT 1 FROM versions AS v
    WHERE v.bucket_id = w.bucket_id AND v.key = w.key AND v.seq = w.seq) AS isNewest,
  (SELECT version_id FROM noncurrent_versions AS v
    WHERE v.bucket_id = w.bucket_id AND v.key = w.key AND v.seq = w.seq) AS versionId`;

export interface JobFilter {
  tenant: string;
  /** Of this bucket; absent: of all. */
  bucketId?: number | undefined;
  prefix: string;
  after: number;
  max: number;
  /** Only those that can be leased by then. */
  leasableMs?: number;
  /** And none of these. */
  except?: readonly number[] | undefined;
}

/**
 * In the order in which their versions were made. Jobs of other tenants are not even looked at.
 */
export function listJobs(read: Reader, filter: JobFilter): Promise<Job[]> {
  const { tenant, bucketId = null, prefix, after, max, leasableMs = null } = filter;
  const except = JSON.stringify(filter.except ?? []);
  return read.all<Job>(
    `SELECT ${columns} FROM buckets AS b CROSS JOIN work AS w INDEXED BY work_by_bucket
         ON w.bucket_id = b.id
       WHERE b.tenant = ? AND w.seq > ? AND (? IS NULL OR b.id = ?)
         AND substr(w.key, 1, length(?)) = ?
         AND (? IS NULL OR (is_dead = 0 AND due_ms <= ?))
         AND w.seq NOT IN (SELECT value FROM json_each(?))
       ORDER BY w.seq LIMIT ?`,
    ...[tenant, after, bucketId, bucketId, prefix, prefix, leasableMs, leasableMs, except, max],
  );
}

export function findJob(read: Reader, seq: number): Promise<Job | undefined> {
  const sql = `SELECT ${columns} FROM work AS w JOIN buckets AS b ON b.id = bucket_id`;
  return read.get<Job>(`${sql} WHERE w.seq = ?`, seq);
}

/** Those of them that a lease has. */
export async function listLeased(read: Reader, lease: string): Promise<Set<number>> {
  const sql = 'SELECT seq FROM work WHERE lease = ?';
  return new Set((await read.all<{ seq: number }>(sql, lease)).map(({ seq }) => seq));
}

/** Counted up to here: beyond it the numbers say only that there is more. */
const countedMax = 10_000;

export async function countJobs(read: Reader, nowMs: number): Promise<Record<WorkState, number>> {
  const row = await read.get<Record<WorkState, number>>(
    `SELECT (SELECT count(*) FROM (SELECT 1 FROM work WHERE is_dead = 1 LIMIT ?)) AS dead,
       count(*) FILTER (WHERE due_ms <= ?) AS due,
       count(*) FILTER (WHERE due_ms > ? AND holder IS NULL) AS waiting,
       count(*) FILTER (WHERE due_ms > ? AND holder IS NOT NULL) AS leased
       FROM (SELECT due_ms, holder FROM work WHERE is_dead = 0 LIMIT ?)`,
    ...[countedMax, nowMs, nowMs, nowMs, countedMax],
  );
  return row ?? { due: 0, leased: 0, waiting: 0, dead: 0 };
}

/** Jobs that one takes until `untilMs`. */
export interface LeaseWork {
  kind: 'leaseWork';
  seqs: number[];
  /** Its secret, by which the holder is known. */
  lease: string;
  holder: string;
  untilMs: number;
}

/** Those that another has meanwhile stay with that one. Gives how many were leased. */
export async function leaseWork(tx: Tx, work: LeaseWork, timeMs: number): Promise<number> {
  const { seqs, lease, holder, untilMs } = work;
  let count = 0;
  for (const seq of seqs) {
    const dead = await tx.run(
      `UPDATE work SET is_dead = 1, lease = NULL, holder = NULL,
         problem = ifnull(problem, 'each lease of it ended without an answer')
         WHERE seq = ? AND is_dead = 0 AND due_ms <= ? AND tries >= ?`,
      ...[seq, timeMs, triesMax],
    );
    if (dead.changes > 0) continue;
    const leased = await tx.run(
      `UPDATE work SET lease = ?, holder = ?, due_ms = ?, tries = tries + 1
         WHERE seq = ? AND is_dead = 0 AND due_ms <= ?`,
      ...[lease, holder, untilMs, seq, timeMs],
    );
    count += leased.changes;
  }
  return count;
}

/** What becomes of a job: it goes on, has failed, is given back, or is given another chance. */
export type AmendWork = { kind: 'amendWork'; seq: number } & (
  | { lease: string; untilMs: number }
  | { lease: string; problem: string; isFinal: boolean }
  /** It is given back: the try does not count. */
  | { lease: string; dueMs: number; why: string | null }
  | { isAgain: true }
);

/** Gives 0 where the lease is not, or not any more, the job's. */
export async function amendWork(tx: Tx, work: AmendWork, timeMs: number): Promise<number> {
  const { seq } = work;
  if ('isAgain' in work) {
    const sql = 'UPDATE work SET is_dead = 0, tries = 0, due_ms = ? WHERE seq = ? AND is_dead';
    return (await tx.run(sql, timeMs, seq)).changes;
  }
  const own = 'WHERE seq = ? AND lease = ? AND is_dead = 0';
  if ('untilMs' in work) {
    const sql = `UPDATE work SET due_ms = ? ${own}`;
    return (await tx.run(sql, work.untilMs, seq, work.lease)).changes;
  }
  if ('dueMs' in work) {
    const sql = `UPDATE work SET lease = NULL, holder = NULL, problem = ifnull(?, problem),
      tries = max(tries - 1, 0), due_ms = ? ${own}`;
    return (await tx.run(sql, work.why, work.dueMs, seq, work.lease)).changes;
  }
  const sql = `UPDATE work SET lease = NULL, holder = NULL, problem = ?,
    is_dead = ? OR tries >= ?,
    due_ms = ? + min(? * (1 << min(tries - 1, 20)), ?) ${own}`;
  const { problem, isFinal, lease } = work;
  const waits = [timeMs, retryMsMin, retryMsMax];
  const dying = [Number(isFinal), triesMax];
  return (await tx.run(sql, problem, ...dying, ...waits, seq, lease)).changes;
}

/** When the oldest job was made that is neither done nor dead, ms; null: there is none. */
export async function oldestJobMs(read: Reader): Promise<number | null> {
  const row = await read.get<{ madeMs: number | null }>(
    `SELECT min(made_ms) AS madeMs
       FROM (SELECT made_ms FROM work WHERE is_dead = 0 LIMIT ?)`,
    countedMax,
  );
  return row?.madeMs ?? null;
}
