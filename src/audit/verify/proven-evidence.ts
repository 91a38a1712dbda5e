// What the evidence in a receipt proves: that it is the record's own, that its signatures are
// genuine, and whose key is behind them. Whose a key is follows from the record of its enrolment,
// and so from another receipt. Pure; a refusal is a value that says why.
import { canonicalize } from '../../core/canonical-json.ts';
import { hashEvidence } from '../evidence.ts';
import { readEvidenceParts } from '../evidence-form.ts';
import { contradictionOf } from '../evidence-match.ts';
import { type VerifiedEvidence, verifyEvidence } from '../evidence-verdict.ts';
import type { AuditRecord } from './opening.ts';
import { type Refused, refuse } from './signed-checkpoint.ts';

export type EvidenceState =
  /** The record names none. */
  | { state: 'none' }
  /** The record names some, which the receipt has not. */
  | { state: 'missing' }
  /** What is kept of it is not enough to prove anything. */
  | { state: 'unproven'; why: string }
  | { state: 'proven'; verified: VerifiedEvidence; owner: EnrolledKey | null };

/** The key of a principal that all else was signed by; null: the gateway named the keys itself. */
export interface EnrolledKey {
  thumbprint: string;
  /** Log index of the record of its enrolment. */
  enrolledAt: number;
}

/** `evidence`: as the receipt has it; null: it has none. */
export function judgeEvidence(record: AuditRecord, evidence: unknown): EvidenceState | Refused {
  if (evidence === null) {
    return record.evidenceHash === undefined ? { state: 'none' } : { state: 'missing' };
  }
  if (hashEvidence(canonicalize(evidence)) !== record.evidenceHash) {
    return refuse('its evidence is not that of the record');
  }
  const verified = verifyEvidence(evidence);
  if (!verified.ok) {
    const { why } = verified;
    return isWhole(evidence) ? refuse(`its evidence is false: ${why}`) : { state: 'unproven', why };
  }
  const why = contradictionOf(verified, record);
  if (why !== null) return refuse(`its evidence is of something else: ${why}`);
  return { state: 'proven', verified, owner: ownerOf(verified) };
}

/** Returns whether everything that was signed is there, and each signature. */
function isWhole(evidence: unknown): boolean {
  const parts = readEvidenceParts(evidence);
  return (
    parts?.every(({ signed, signature }) => signed !== undefined && signature !== undefined) ?? true
  );
}

/** Links of a token that the gateway began go back to nobody's own key. */
function ownerOf({ links, thumbprint, enrolledAt }: VerifiedEvidence): EnrolledKey | null {
  const [first] = links;
  if (first && first.by !== 'principal') return null;
  const root = first ?? { thumbprint, enrolledAt };
  if (root.enrolledAt === null) return null;
  return { thumbprint: root.thumbprint, enrolledAt: root.enrolledAt };
}

/**
 * Why a record does not enrol a key for who made another record; null: it does, and its own
 * evidence is the signature by which the key's holder asked for it.
 */
export function whyNotEnrolment(
  { index, record, evidence }: { index: number; record: AuditRecord; evidence: EvidenceState },
  { thumbprint, enrolledAt }: EnrolledKey,
  { tenant, principal }: AuditRecord,
): string | null {
  if (index !== enrolledAt) return `the key was enrolled by record ${enrolledAt}, not ${index}`;
  const target = `tenants/${tenant}/principals/${principal}/public-keys/${thumbprint}`;
  const { action, status, change } = record;
  const enrolled = (change as { thumbprint?: unknown } | undefined)?.thumbprint;
  const isOf = action === 'bursar:CreatePublicKey' && status === 201 && record.target === target;
  if (!isOf || enrolled !== thumbprint) return `record ${index} enrols no such key`;
  const proof = evidence.state === 'proven' ? evidence.verified.enrolled : null;
  if (proof?.thumbprint === thumbprint && proof.subject === `${tenant}/${principal}`) return null;
  return `the key's holder did not sign what record ${index} says`;
}
