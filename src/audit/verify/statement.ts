// What a verified receipt proves, and what it does not, each in one sentence: for people who decide
// something by it. The line between them is drawn by the record's evidence (docs/audit/records.md).
import type { VerifiedEvidence } from '../evidence-verdict.ts';
import type { AuditRecord } from './opening.ts';
import type { EnrolledKey } from './proven-evidence.ts';
import type { VerifiedReceipt } from './receipt.ts';

export interface Statement {
  proves: string;
  provesNot: string;
}

/** `isEnrolmentProven`: the receipt of the key's enrolment was verified as well. */
export function describeReceipt(
  { index, record, checkpoint, evidence }: VerifiedReceipt,
  isEnrolmentProven = false,
): Statement {
  const { origin, size, keyIds, witnesses } = checkpoint;
  const names = witnesses.map(({ name }) => name).join(', ');
  const seen = witnesses.length === 0 ? '' : `, as ${names} saw`;
  const head = `record ${index} of the log ${origin}, signed by the key ${keyIds.join(' and ')}`;
  const proven = [`that ${head} at ${size} records${seen}, says: ${deedOf(record)}`];
  const unproven: string[] = [];
  if (evidence.state === 'proven') {
    const { verified, owner } = evidence;
    proven.push(`that ${signedBy(verified)}`);
    unproven.push(...limitsOf(verified, { owner, record, isEnrolmentProven }));
    if (owner && isEnrolmentProven) {
      proven.push(`that record ${owner.enrolledAt} enrolled that key for ${whoOf(record)}`);
    }
  } else unproven.push(unsignedOf(record, evidence));
  unproven.push('that what was stored then is still there');
  if (witnesses.length === 0) unproven.push('that everybody is shown the same log');
  return {
    proves: `It proves ${proven.join('; and ')}.`,
    provesNot: `It does not prove ${unproven.join(', nor ')}.`,
  };
}

/** `at TIME cms/alice did s3:PutObject with raw/run/1, answered with 200` */
function deedOf(record: AuditRecord): string {
  const { time, action, status, error, bucket, key, target, bucketTenant } = record;
  const tenant = bucketTenant === undefined ? '' : `${bucketTenant}:`;
  const path = key === undefined ? `${bucket}` : `${bucket}/${key}`;
  const object = bucket === undefined ? target : `${tenant}${path}`;
  const about = object === undefined ? '' : ` with ${object}`;
  const outcome = error === undefined ? `${status}` : `${status} ${error}`;
  return `at ${time} ${whoOf(record)} did ${action}${about}, answered with ${outcome}`;
}

function signedBy({ kind, thumbprint, covers, links, enrolled }: VerifiedEvidence): string {
  if (enrolled) return `the holder of the key ${enrolled.thumbprint} signed for its enrolment`;
  const [first] = links;
  const chain =
    first?.by === 'principal' ? ` by a token that the key ${first.thumbprint} signed` : '';
  if (kind === 'token-link') return `it was asked for${chain || ' by a token of several links'}`;
  const what = covers.length === 0 ? '' : ` (${covers.join(', ')})`;
  return `the key ${thumbprint} signed the request${what}${chain && `,${chain}`}`;
}

function limitsOf(
  { kind, request, enrolled }: VerifiedEvidence,
  given: { owner: EnrolledKey | null; record: AuditRecord; isEnrolmentProven: boolean },
): string[] {
  const { owner, record, isEnrolmentProven } = given;
  const who = whoOf(record);
  const limits: string[] = [];
  if (enrolled) limits.push(`who ${enrolled.subject} is`);
  else if (!owner) limits.push(`that the key is of ${who}, since the gateway named it by itself`);
  else if (!isEnrolmentProven) {
    limits.push(`that the key is of ${who}, as the receipt of record ${owner.enrolledAt} would`);
  } else limits.push(`who besides ${who} had the key`);
  if (kind === 'token-link') limits.push('who used the token, which needs no key');
  else if (request && request.bodySha256 === null) limits.push('which body was meant');
  return limits;
}

/** What is said of a record where no signature of a client was verified. */
function unsignedOf(
  record: AuditRecord,
  evidence: Exclude<VerifiedReceipt['evidence'], { state: 'proven' }>,
): string {
  const asked = `that ${whoOf(record)} asked for it`;
  if (evidence.state === 'missing')
    return `${asked}, since what it signed is not here (a later copy has it, mostly after 15 min)`;
  if (evidence.state === 'unproven') return `${asked}, since ${evidence.why}`;
  if (record.evidence === 'none') return 'that anybody asked for it: the gateway did it by itself';
  return `${asked}, since the gateway knows the secret that proved it`;
}

function whoOf({ tenant, principal }: AuditRecord): string {
  return principal === '' ? `${tenant}` : `${tenant}/${principal}`;
}
