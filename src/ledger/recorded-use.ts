// What a record charges, as those who add up usage are told of it. It lives here, above the rooms
// of records and quotas. Invariant: it is what `partsOf` reads out of the record's text.
import type { RecordDraft, RecordSeal } from '../audit/record.ts';
import { noClass, type Use } from '../quota/roll-up/charged-record.ts';
import { dayOf } from '../quota/roll-up/usage-days.ts';

/** null: nothing was counted. Tokens, of which nothing is added up, are left out. */
export function useOf(draft: RecordDraft, seal: RecordSeal): Use | null {
  const { cost, priced, timeMs, storedBytes, storedObjects, storageCost = 0n } = seal;
  if (cost === null && !seal.limited) return null;
  const { tenant, principal, bucket, bucketTenant, bucketOwner, folded } = draft;
  const use: Use = {
    tenant,
    principal,
    bucket: bucket ?? undefined,
    bucketTenant: bucketTenant ?? undefined,
    bucketOwner: bucketOwner ?? undefined,
    payer: draft.payer ?? undefined,
    day: folded ? folded.lastRead.slice(0, 10) : dayOf(timeMs),
    action: draft.action,
    class: draft.class ?? noClass,
    requests: priced?.price === undefined ? 0 : (folded?.reads ?? 1),
    ingressBytes: draft.bytesIn,
    egressBytes: draft.bytesOut,
    storedBytes,
    storedObjects,
    spend: cost ?? 0n,
    storageCost,
    limited: seal.limited,
  };
  if (cost === null) use.isUncharged = true;
  return use;
}
