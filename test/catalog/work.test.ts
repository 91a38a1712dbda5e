// The rows of jobs: what a lease, a failure and giving back make of them, and how they are counted.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { oldestCopyMs } from '#bursar/catalog/extent-copies.js';
import {
  addJob,
  amendWork,
  countJobs,
  leaseWork,
  listLeased,
  oldestJobMs,
  triesMax,
} from '#bursar/catalog/work.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import { schema } from '#bursar/ledger/schema.js';
import { watchCopies } from '#bursar/server/service-metrics.js';

let db: OpenDatabase;
const seq = 7;

beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  await addJob(db.tx, { seq, bucketId: 1, key: 'a' }, 100);
});
afterEach(() => db.close());

const lease = (name: string, timeMs: number) =>
  leaseWork(
    db.tx,
    { kind: 'leaseWork', seqs: [seq], lease: name, holder: 'a/b', untilMs: timeMs + 50 },
    timeMs,
  );
const amend = (what: Parameters<typeof amendWork>[1], timeMs: number) =>
  amendWork(db.tx, what, timeMs);

it('a job that is given back has lost no try, and nobody else can give it back', async () => {
  for (let i = 0; i < 2 * triesMax; i++) {
    expect(await lease('x', 100 + i)).toBe(1);
    const back = { kind: 'amendWork', seq, dueMs: 100, why: 'away' } as const;
    expect(await amend({ ...back, lease: 'y' }, 101 + i)).toBe(0);
    expect(await amend({ ...back, lease: 'x' }, 101 + i)).toBe(1);
  }
  const [row] = await db.tx.all('SELECT tries, is_dead AS isDead, problem, holder FROM work');
  expect(row).toEqual({ tries: 0, isDead: 0, problem: 'away', holder: null });
  expect(await listLeased(db.tx, 'x')).toEqual(new Set());
});

it('dead jobs are counted, however many others there are before them', async () => {
  db.exec(`WITH RECURSIVE n(i) AS (SELECT 8 UNION ALL SELECT i + 1 FROM n WHERE i < 10500)
    INSERT INTO work (seq, bucket_id, key, made_ms, due_ms, tries, is_dead)
      SELECT i, 1, 'a', 0, 0, 0, 0 FROM n`);
  await db.tx.run('UPDATE work SET is_dead = 1 WHERE seq > 10498');
  expect(await countJobs(db.tx, 100)).toEqual({ due: 10_000, leased: 0, waiting: 0, dead: 2 });
});

it('the oldest job that is not dead is told, and what is restored', async () => {
  expect(await oldestJobMs(db.tx)).toBe(100);
  await addJob(db.tx, { seq: 8, bucketId: 1, key: 'b' }, 90);
  await addJob(db.tx, { seq: 9, bucketId: 1, key: 'c' }, 80);
  await db.tx.run('UPDATE work SET is_dead = 1 WHERE seq = 9');
  expect(await oldestJobMs(db.tx)).toBe(90);
  db.exec(`INSERT INTO restores VALUES
    (1, 1, 'k', 1, 0, NULL, 'Bulk'), (2, 1, 'k', 1, 0, 5, 'Bulk'),
    (3, 1, 'k', 1, 0, NULL, 'Bulk')`);
  const registry = new MetricRegistry();
  const counts = { made: 0, repaired: 0, failed: 0 };
  watchCopies({ metrics: { registry } } as Parameters<typeof watchCopies>[0], db.tx, { counts });
  const text = String(await registry.read('operator'));
  const [, seconds] = /^bursar_work_oldest_seconds\{kind="recipe"\} (\S+)$/m.exec(text) ?? [];
  expect(Number(seconds)).toBeGreaterThan(1e9);
  expect(text).toContain('bursar_restores{state="running"} 2\n');
  expect(text).toContain('bursar_restores{state="readable"} 1\n');
  await db.tx.run('DELETE FROM work');
  expect(await oldestJobMs(db.tx)).toBeNull();
});

it('the copy that waits longest is told, of what is in use alone', async () => {
  const copies = [
    // What is not in use any more, what is good, and what is due, or suspect.
    { id: '01', extent: 2, state: 2, changedMs: 10 },
    { id: '02', extent: 1, state: 1, changedMs: 20 },
    { id: '03', extent: 1, state: 2, changedMs: 40 },
    { id: '04', extent: 1, state: 3, changedMs: 30 },
  ];
  expect(await oldestCopyMs(db.tx)).toBeNull();
  for (const { id, extent, state, changedMs } of copies) {
    const dueMs = 100 - changedMs;
    db.exec(`INSERT INTO extents VALUES (x'${id}', 2, 'a', ${extent}, 1, 1, NULL, NULL);
      INSERT INTO extent_copies VALUES (x'${id}', 3, ${state}, ${changedMs}, ${dueMs}, 0)`);
  }
  expect(await oldestCopyMs(db.tx)).toBe(30);
});
