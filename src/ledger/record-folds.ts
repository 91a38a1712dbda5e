// Requests that changed nothing and become one record a minute with others like them: reads by
// anybody, one record for each object (`recordReads: aggregate`, docs/admin/record-reads.md), and
// refusals and deletes of what is absent beyond a rate, one for each kind (docs/audit/records.md).
// Invariants: a request is added to its fold in the transaction that charges it, so what is charged
// is never without its record to come; and a fold becomes its record, once, when its minute is
// over, whatever happened to the process meanwhile.
import {
  type BackendEntry,
  type RecordDraft,
  type RecordSeal,
  renderRecord,
} from '../audit/record.ts';
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

/** What the ledger found out about a request: what it cost. */
export type ChargedRequest = Pick<RecordSeal, 'cost' | 'priced' | 'limited' | 'backend'>;

interface Fold {
  reads: number;
  bytesIn: number;
  bytesOut: number;
  firstMs: number;
  lastMs: number;
  sources: string[];
  /** Requests from addresses that are not named. */
  otherReads: number;
  /** Picodollars in decimal; null: nobody was charged. */
  cost: string | null;
  backend: (Omit<BackendEntry, 'cost'> & { cost: string })[];
}

type Same = Omit<RecordDraft, 'bytesIn' | 'bytesOut' | 'requestId' | 'source' | 'status'> & {
  /** Absent: reads, of which some may be of a part. */
  status?: number;
  priced: RecordSeal['priced'];
  /** Of what is read, nothing is stored. */
  limited?: RecordSeal['limited'];
};

/** Adds a request, which was charged in this transaction, to its fold. */
export async function foldRequest(
  tx: Tx,
  draft: RecordDraft,
  charged: ChargedRequest,
  timeMs: number,
): Promise<void> {
  const { bytesIn, bytesOut, source } = draft;
  const { priced = null, limited } = charged;
  const text = JSON.stringify({ ...sameOf(draft, charged), priced, limited });
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

/**
 * What the record of a fold says of all its requests. Of reads that is the object. Of others it is
 * nothing that a client could choose freely, which would make each a kind of its own: who asked for
 * what, and how that ended; and for what was charged, to which accounts.
 */
function sameOf(draft: RecordDraft, { cost }: ChargedRequest): Omit<Same, 'priced' | 'limited'> {
  const { bytesIn: _, bytesOut: _2, requestId: _3, source: _4, range: _5, ...rest } = draft;
  if (!draft.error && draft.action === 's3:GetObject') {
    const { status: _6, ...same } = rest;
    return same;
  }
  const { action, tenant, principal, evidence, bucketTenant, status, error } = draft;
  const kind = { action, tenant, principal, evidence, bucketTenant, status, error };
  if (cost === null) return kind;
  const { bucket, bucketOwner, payer, tokens } = draft;
  return { ...kind, bucket, bucketOwner, payer, tokens, class: draft.class };
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

/** The record that an open fold would become now. Throws for what is no fold. */
export function textOfFold(same: string, fold: string, timeMs: number): string {
  const { draft, charged } = recordOf(JSON.parse(same) as Same, JSON.parse(fold) as Fold);
  const seal = { index: 0, timeMs, storedBytes: 0, storedObjects: 0, ...charged };
  return renderRecord(draft, seal);
}

function recordOf({ priced, limited, status = 200, ...draft }: Same, fold: Fold) {
  const { reads, bytesIn, bytesOut, firstMs, lastMs, sources, otherReads, cost, backend } = fold;
  const charged: ChargedRequest = {
    cost: cost === null ? null : BigInt(cost),
    priced,
    limited,
    backend: backend.length > 0 ? backend.map((one) => ({ ...one, cost: BigInt(one.cost) })) : null,
  };
  const [source = ''] = sources;
  const folded = { reads, firstRead: isoTime(firstMs), lastRead: isoTime(lastMs), sources };
  const read: RecordDraft = {
    ...draft,
    ...{ bytesIn, bytesOut, source, status, requestId: newRequestId() },
    folded: { ...folded, ...(otherReads > 0 && { otherReads }) },
  };
  return { draft: read, charged };
}
