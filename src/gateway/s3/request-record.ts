// What the record of a request says, whatever became of it, and whom it names: who asked, and by
// what they proved it.
import type { RecordDraft } from '../../audit/record.ts';
import { draftRecord, type RecordActor } from '../../audit/record-draft.ts';
import type { Identity } from '../../authz/identity.ts';
import type { Change } from '../../ledger/commands/index.ts';
import type { Charge } from '../../quota/charge.ts';
import type { AskedRequest } from './asked.ts';
import { isVersionId } from './asked-version.ts';

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
  const { tenant, versionId, exchange, request } = asked;
  const { bucket, bucketTenant } = placeOf(asked);
  const draft: RecordDraft = draftRecord(actorOf(asked.who, tenant), request, {
    action: asked.recordedAs,
    bucket,
    bucketTenant: bucketTenant === tenant ? null : bucketTenant,
    key: asked.key,
    // Not what can be the id of none.
    versionId: versionId !== undefined && isVersionId(versionId) ? versionId : null,
    bucketOwner: charge?.who.bucket?.owner ?? null,
    payer: charge?.who.bucket?.payer ?? null,
    bytesIn: charge?.transfer.ingressBytes ?? exchange.bytesIn,
    bytesOut: charge?.transfer.egressBytes ?? exchange.bytesOut,
    status: outcome.status,
    error: outcome.error,
  });
  return detail ? Object.assign(draft, detail) : draft;
}

/**
 * The bucket by its name in its tenant. One that a request was refused before it was looked up is
 * called what the request called it; but share links, which the gateway made, name both.
 */
function placeOf({ bucketName, askedName, bucketTenant, who }: AskedRequest) {
  const isShared = bucketName === null && who.delegation?.shareId !== undefined;
  const [, tenant, bucket] = (isShared && /^([^:]*):(.*)$/s.exec(askedName ?? '')) || [];
  if (tenant !== undefined && bucket !== undefined) return { bucket, bucketTenant: tenant };
  return { bucket: bucketName ?? askedName, bucketTenant };
}

type Known = Pick<
  Identity,
  'principal' | 'accessKeyId' | 'keyThumbprint' | 'delegation' | 'evidence'
>;

/** `tenant`: in which they asked, where that is not their own. */
export function actorOf(who: Known, tenant = who.principal.tenant): RecordActor {
  return {
    tenant,
    principal: who.principal.name,
    accessKeyId: who.accessKeyId,
    keyThumbprint: who.keyThumbprint,
    tokens: who.delegation?.ids ?? null,
    evidence: who.evidence,
  };
}
