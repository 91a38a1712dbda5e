// Reads by anybody that become one record for each object and minute (`recordReads: aggregate`).
// Invariants: a read is added to its fold in the transaction that charges it, so what is charged is
// never without its record to come; and a fold becomes its record, once, when its minute is over,
// whatever happened to the process meanwhile. Specification: docs/admin/record-reads.md.
import type { BackendEntry, RecordDraft, RecordSeal } from '../audit/record.ts';
import type { RecordLog } from '../audit/record-log.ts';
import { isoTime } from '../core/clock.ts';
import type { Tx } from '../core/database.ts';
import { newRequestId } from '../core/ids.ts';

export const readFoldSchema = `
CREATE TABLE read_folds (          -- public reads that have no record yet
  minute_ms INTEGER NOT NULL,
  same TEXT NOT NULL,              -- JSON: what all reads of the fold have in common
  fold TEXT NOT NULL,              -- JSON: their sums
  PRIMARY KEY (minute_ms, same)
) WITHOUT ROWID;
`;

const minuteMs = 60_000;
/** Addresses that a fold names. */
const sourcesMax = 16;

/** What the ledger found out about a read: what it cost. */
export type ChargedRead = Pick<RecordSeal, 'cost' | 'priced' | 'backend'>;

interface Fold {
  reads: number;
  bytesIn: number;
  bytesOut: number;
  firstMs: number;
  lastMs: number;
  sources: string[];
  /** Reads from addresses that are not named. */
  otherReads: number;
  /** Picodollars in decimal; null: nobody was charged. */
  cost: string | null;
  backend: (Omit<BackendEntry, 'cost'> & { cost: string })[];
}

type Same = Omit<
  RecordDraft,
  'bytesIn' | 'bytesOut' | 'requestId' | 'source' | 'status' | 'range'
> & {
  priced: RecordSeal['priced'];
};

/** Adds a read, which was charged in this transaction, to its fold. */
export async function foldRead(
  tx: Tx,
  draft: RecordDraft,
  charged: ChargedRead,
  timeMs: number,
): Promise<void> {
  const { bytesIn, bytesOut, requestId: _, source, status: _2, range: _3, ...same } = draft;
  const text = JSON.stringify({ ...same, priced: charged.priced ?? null } satisfies Same);
  const minute = timeMs - (timeMs % minuteMs);
  const sql = 'SELECT fold FROM read_folds WHERE minute_ms = ? AND same = ?';
  const row = await tx.get<{ fold: string }>(sql, minute, text);
  const fold = row ? (JSON.parse(row.fold) as Fold) : emptyFold(timeMs);
  fold.reads += 1;
  fold.bytesIn += bytesIn;
  fold.bytesOut += bytesOut;
  fold.lastMs = timeMs;
  addSource(fold, source);
  if (charged.cost !== null) fold.cost = String(BigInt(fold.cost ?? '0') + charged.cost);
  for (const entry of charged.backend ?? []) addBackend(fold, entry);
  const write = 'INSERT OR REPLACE INTO read_folds VALUES (?, ?, ?)';
  await tx.run(write, minute, text, JSON.stringify(fold));
}

function emptyFold(timeMs: number): Fold {
  return {
    ...{ reads: 0, bytesIn: 0, bytesOut: 0, firstMs: timeMs, lastMs: timeMs },
    ...{ sources: [], otherReads: 0, cost: null, backend: [] },
  };
}

function addSource(fold: Fold, source: string): void {
  if (fold.sources.includes(source)) return;
  if (fold.sources.length < sourcesMax) fold.sources.push(source);
  else fold.otherReads += 1;
}

function addBackend(fold: Fold, { cost, ...added }: BackendEntry): void {
  const isSame = ({ store, book }: Fold['backend'][number]) =>
    store === added.store && book === added.book;
  const entry = fold.backend.find(isSame);
  if (!entry) {
    fold.backend.push({ ...added, cost: String(cost) });
    return;
  }
  entry.frees += added.frees;
  entry.gets += added.gets;
  entry.puts += added.puts;
  entry.sentBytes += added.sentBytes;
  entry.receivedBytes += added.receivedBytes;
  entry.cost = String(BigInt(entry.cost) + cost);
}

/** Makes records of up to `max` folds whose minute is over; gives of how many. */
export async function closeFolds(
  tx: Tx,
  max: number,
  { log, timeMs }: { log: RecordLog; timeMs: number },
): Promise<number> {
  const rows = await tx.all<{ minute: number; same: string; fold: string }>(
    `SELECT minute_ms AS minute, same, fold FROM read_folds WHERE minute_ms < ?
       ORDER BY minute_ms, same LIMIT ?`,
    timeMs - (timeMs % minuteMs),
    max,
  );
  for (const { minute, same, fold } of rows) {
    const { draft, charged } = recordOf(JSON.parse(same) as Same, JSON.parse(fold) as Fold);
    const seal = { index: log.size, timeMs, storedBytes: 0, storedObjects: 0, ...charged };
    await log.append(draft, seal);
    await tx.run('DELETE FROM read_folds WHERE minute_ms = ? AND same = ?', minute, same);
  }
  return rows.length;
}

function recordOf({ priced, ...draft }: Same, fold: Fold) {
  const { reads, bytesIn, bytesOut, firstMs, lastMs, sources, otherReads, cost, backend } = fold;
  const charged: ChargedRead = {
    cost: cost === null ? null : BigInt(cost),
    priced,
    backend: backend.length > 0 ? backend.map((one) => ({ ...one, cost: BigInt(one.cost) })) : null,
  };
  const [source = ''] = sources;
  const folded = { reads, firstRead: isoTime(firstMs), lastRead: isoTime(lastMs), sources };
  const read: RecordDraft = {
    ...draft,
    ...{ bytesIn, bytesOut, source, status: 200, requestId: newRequestId() },
    folded: { ...folded, ...(otherReads > 0 && { otherReads }) },
  };
  return { draft: read, charged };
}
