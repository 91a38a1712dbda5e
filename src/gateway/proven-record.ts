// A record with what its client signed for it, as it is committed: the record has the hash of the
// evidence, which is kept beside it in the same transaction.
import { renderEvidence } from '../audit/evidence.ts';
import type { RecordDraft } from '../audit/record.ts';
import type { SignedEvidence } from '../core/evidence.ts';
import type { Commit } from '../ledger/commit.ts';

/** `signed`: undefined where nothing was signed with a key of the client's. */
export function provenBy(
  signed: SignedEvidence | undefined,
  record: RecordDraft,
): Pick<Commit, 'record' | 'evidence'> {
  if (!signed) return { record };
  const { text, hash } = renderEvidence(signed);
  return { record: { ...record, evidenceHash: hash }, evidence: text };
}
