// Whether what opens a leaf is a record that may be in the log at that index. Receipts and bundles
// are both judged here, so that neither believes a record that the other refuses. Pure; a refusal
// is a value that says why. That the leaf is in the log is for the caller to see.

import type { Opening } from '../receipt.ts';
import { type EvidenceState, judgeEvidence } from './proven-evidence.ts';
import type { RecordFields } from './record-fields.ts';
import { type Refused, refuse } from './signed-checkpoint.ts';

/** A record as JSON says it: docs/audit/records.md. */
export interface AuditRecord
  extends Readonly<Pick<RecordFields, 'index' | 'tenant' | 'principal' | 'action' | 'time'>>,
    Readonly<Pick<RecordFields, 'status' | 'key' | 'size' | 'sha256' | 'bucket' | 'bucketTenant'>>,
    Readonly<Pick<RecordFields, 'target' | 'error'>> {
  readonly [member: string]: unknown;
  readonly evidence: string;
  readonly bytesIn: number;
  readonly keyThumbprint?: string;
  readonly source: string;
  readonly tokens?: readonly string[];
}

export interface OpenedLeaf {
  ok: true;
  record: AuditRecord;
  /** What it shows besides of what the client signed. */
  evidence: EvidenceState;
}

/** `opening`: as `parseOpening` gave it. */
export function judgeOpening(opening: Opening, index: number): OpenedLeaf | Refused {
  const record = JSON.parse(opening.record) as AuditRecord;
  const why = contradictionOf(record, { index, bucketTenant: opening.bucketTenant });
  if (why !== null) return refuse(why);
  const evidence = judgeEvidence(record, opening.evidence);
  return 'ok' in evidence ? evidence : { ok: true, record, evidence };
}

/**
 * What the log itself should never say of a record; only its operator could have brought it there.
 */
function contradictionOf(
  record: AuditRecord,
  { index, bucketTenant }: { index: number; bucketTenant: string | null },
): string | null {
  if (!isRecord(record)) return 'what it proves is not a record';
  if (record.index !== index) return `its record says that its index is ${record.index}`;
  if ((record.bucketTenant === undefined) !== (bucketTenant === null)) {
    return "its leaf and its record differ about the bucket's tenant";
  }
  return null;
}

const demandedTexts = ['tenant', 'principal', 'action', 'time', 'evidence'];
const optionalTexts = ['key', 'bucket', 'bucketTenant', 'target', 'error'];

/**
 * Returns whether the record has the members that every record has, each with a value of its type.
 */
function isRecord(record: AuditRecord): boolean {
  return (
    demandedTexts.every((name) => typeof record[name] === 'string') &&
    optionalTexts.every((name) => ['string', 'undefined'].includes(typeof record[name])) &&
    Number.isSafeInteger(record.index) &&
    Number.isSafeInteger(record.status) &&
    (record.tokens === undefined || Array.isArray(record.tokens))
  );
}
