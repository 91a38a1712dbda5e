// What the record of a request says, whatever became of it.
import type { RecordDraft } from '../audit/record.ts';
import { draftRecord } from '../audit/record-draft.ts';
import type { Change } from '../ledger/commands/index.ts';
import type { Charge } from '../quota/charge.ts';
import type { AskedRequest } from './asked.ts';
import { isVersionId } from './asked-version.ts';
import { actorOf } from './record-actor.ts';

/** Details of a record that only the operation knows. */
export type RecordDetail = Partial<
  Pick<RecordDraft, 'action' | 'key' | 'versionId' | 'target' | 'change' | 'sizeBytes' | 'etag'> &
    Pick<RecordDraft, 'sha256' | 'class' | 'range' | 'status'>
>;

/** What is committed with the record of what changed nothing. One for all crosses threads once. */
export const noChange: Change = { kind: 'none' };

export function draftOf(
  asked: AskedRequest,
  outcome: { status: number; error: string | null },
  charge: Charge | null = null,
  detail: RecordDetail | null = null,
): RecordDraft {
  const { tenant, bucketTenant, versionId, exchange, request } = asked;
  const draft: RecordDraft = draftRecord(actorOf(asked.who, tenant), request, {
    action: asked.action,
    bucket: asked.bucketName ?? asked.askedName,
    bucketTenant: bucketTenant === tenant ? null : bucketTenant,
    key: asked.key,
    // Not what can be the id of none.
    versionId: versionId !== undefined && isVersionId(versionId) ? versionId : null,
    bucketOwner: charge?.who.bucket?.owner ?? null,
    bytesIn: charge?.transfer.ingressBytes ?? exchange.bytesIn,
    bytesOut: charge?.transfer.egressBytes ?? exchange.bytesOut,
    status: outcome.status,
    error: outcome.error,
  });
  return detail ? Object.assign(draft, detail) : draft;
}
