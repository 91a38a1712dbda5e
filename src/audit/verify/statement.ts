// What a verified receipt proves, and what it does not, each in one sentence: for people who decide
// something by it. The line between them is drawn by the record's evidence (docs/audit/records.md).
import type { AuditRecord, VerifiedReceipt } from './receipt.ts';

export interface Statement {
  proves: string;
  provesNot: string;
}

export function describeReceipt({ index, record, checkpoint }: VerifiedReceipt): Statement {
  const { origin, size, keyIds, witnesses } = checkpoint;
  const names = witnesses.map(({ name }) => name).join(', ');
  const seen = witnesses.length === 0 ? '' : `, as ${names} has seen`;
  const signed = `the key ${keyIds.join(' and ')} signed for ${size} records${seen}`;
  return {
    proves: `It proves that record ${index} of the log ${origin}, where ${signed}, says: ${deedOf(record)}.`,
    provesNot: `It does not prove ${limitOf(record)}${witnesses.length === 0 ? unseen : ''}.`,
  };
}

const unseen = ', nor, without a witness, that everybody is shown the same log';

/** `at TIME cms/alice did s3:PutObject with raw/run/1, which was answered with 200` */
function deedOf(record: AuditRecord): string {
  const { time, action, status, error, bucket, key, target, bucketTenant } = record;
  const tenant = bucketTenant === undefined ? '' : `${bucketTenant}:`;
  const path = key === undefined ? `${bucket}` : `${bucket}/${key}`;
  const object = bucket === undefined ? target : `${tenant}${path}`;
  const about = object === undefined ? '' : ` with ${object}`;
  const outcome = error === undefined ? `${status}` : `${status} ${error}`;
  return `at ${time} ${whoOf(record)} did ${action}${about}, answered with ${outcome}`;
}

function limitOf(record: AuditRecord): string {
  const still = 'that what was stored then is still there';
  const who = whoOf(record);
  switch (record.evidence) {
    case 'body-signed':
    case 'headers-signed':
      return `who besides ${who} had the key that signed the request, nor ${still}`;
    case 'shared-secret':
      return (
        `to others that ${who} asked for it, since the gateway knows the secret that the request ` +
        `was signed with, nor ${still}`
      );
    default:
      return `that anybody asked for it, since the gateway did it by itself, nor ${still}`;
  }
}

function whoOf({ tenant, principal }: AuditRecord): string {
  return principal === '' ? `${tenant}` : `${tenant}/${principal}`;
}
