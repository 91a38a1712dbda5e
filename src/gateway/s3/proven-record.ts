// A record with what its client signed for it, as it is committed: the record has the hash of the
// evidence, which is kept beside it in the same transaction.
import { renderEvidence } from '../../audit/evidence.ts';
import type { RecordDraft } from '../../audit/record.ts';
import type { SignedEvidence } from '../../core/evidence.ts';
import type { Commit, CommitResult } from '../../ledger/commit.ts';
import type { Ledger } from '../../ledger/ledger.ts';

/** `signed`: undefined where nothing was signed with a key of the client's. */
export function provenBy(
  signed: SignedEvidence | undefined,
  record: RecordDraft,
): Pick<Commit, 'record' | 'evidence'> {
  if (!signed) return { record };
  const { text, hash } = renderEvidence(signed);
  return { record: { ...record, evidenceHash: hash }, evidence: text };
}

/**
 * The commits of one request: what was signed for it is kept with its first, which the others name.
 */
export class ProvenCommits {
  readonly #ledger: Pick<Ledger, 'commit'>;
  readonly #signed: SignedEvidence;
  #first: Promise<CommitResult> | null = null;

  constructor(ledger: Pick<Ledger, 'commit'>, signed: SignedEvidence) {
    this.#ledger = ledger;
    this.#signed = signed;
  }

  async commit(commit: Commit): Promise<CommitResult> {
    const { record, evidence } = provenBy(this.#signed, commit.record);
    while (this.#first) {
      const { index } = await this.#first;
      const named = { ...record, evidenceAt: index };
      if (index !== null) return this.#ledger.commit({ ...commit, record: named, evidence: null });
    }
    const first = this.#ledger.commit({ ...commit, record, evidence });
    this.#first = first;
    const result = await first;
    // There is no record of it: the next one is the first.
    if (result.index === null) this.#first = null;
    return result;
  }
}
