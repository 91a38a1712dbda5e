// A record beside that of an erasure for each tenant that could see what was erased and cannot see
// the act: one whose bucket it was about, where another tenant's principal asked. Invariant: they
// are in the transaction of the act, so that nothing is erased of which somebody concerned is not
// told.
import { erasureNotice, noteNotice, readConcerned } from '../audit/erasure.ts';
import type { RecordDraft } from '../audit/record.ts';
import type { RecordLog } from '../audit/record-log.ts';
import { noStorage } from '../catalog/outcome.ts';
import type { Tx } from '../core/database.ts';

export interface ErasureAct {
  record: RecordDraft;
  index: number;
  timeMs: number;
  indexes: readonly number[];
}

/** Appends them behind the act. Each names, of what was erased, what is its tenant's concern. */
export async function tellConcerned(
  tx: Tx,
  log: RecordLog,
  { record, index: act, timeMs, indexes }: ErasureAct,
): Promise<void> {
  for (const [tenant, erased] of await readConcerned(tx, indexes)) {
    if (tenant === record.tenant || tenant === record.bucketTenant) continue;
    const index = log.size;
    const change = { ...record.change, act, erased };
    // What was signed for the request is kept with the act.
    const evidenceAt = record.evidenceHash ? act : null;
    const about = { action: erasureNotice, bucketTenant: tenant, change, evidenceAt, bytesIn: 0 };
    await log.append({ ...record, ...about }, { index, timeMs, ...noStorage, cost: null });
    await noteNotice(tx, { index, act, tenant });
  }
}
