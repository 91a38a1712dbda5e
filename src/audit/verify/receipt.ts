// Whether a receipt is true: nothing is needed but its text and the log's key. Pure; a refusal is a
// value that says why. Each byte counts but those of signatures by keys that the verifier does not
// know, which by their specification (C2SP signed-note) say nothing.

import { hashLeaf, rootFromInclusion } from '../log/merkle.ts';
import { leafOf, parseReceipt, type Receipt } from '../receipt.ts';
import { type EvidenceState, judgeEvidence } from './proven-evidence.ts';
import {
  type Refused,
  refuse,
  type SignedCheckpoint,
  type Trust,
  verifyCheckpoint,
} from './signed-checkpoint.ts';

export interface VerifiedReceipt {
  ok: true;
  index: number;
  /** What of records the verification itself reads; all else is in `record` as well. */
  record: AuditRecord;
  checkpoint: SignedCheckpoint;
  /** What it shows besides of what the client signed. */
  evidence: EvidenceState;
}

/** A record as JSON says it: docs/audit/records.md. */
export interface AuditRecord {
  readonly [member: string]: unknown;
  readonly index: number;
  readonly tenant: string;
  readonly principal: string;
  readonly action: string;
  readonly time: string;
  readonly evidence: string;
  readonly status: number;
  readonly bytesIn: number;
  readonly key?: string;
  readonly bucket?: string;
  readonly bucketTenant?: string;
  readonly target?: string;
  readonly error?: string;
  readonly tokens?: readonly string[];
}

/** `receipt`: the whole file. */
export function verifyReceipt(
  receipt: string | Uint8Array,
  trust: Trust,
): VerifiedReceipt | Refused {
  const text = typeof receipt === 'string' ? receipt : decodeText(receipt);
  const found = text === undefined ? undefined : parseReceipt(text);
  if (!found) return refuse('it is not a receipt (c2sp.org/tlog-proof@v1 with a record)');
  const checkpoint = verifyCheckpoint(found.checkpoint, trust);
  if (!checkpoint.ok) return checkpoint;
  const { size, root } = checkpoint;
  const { index, proof } = found;
  if (index >= size) return refuse(`its index is ${index}, but the log had ${size} records only`);
  const provenRoot = rootFromInclusion(hashLeaf(leafOf(found)), { index, size, proof });
  if (!provenRoot?.equals(root)) {
    return refuse(`it does not prove this record: the log's entry ${index} is another`);
  }
  const record = JSON.parse(found.record) as AuditRecord;
  const why = contradictionOf(record, found);
  if (why !== null) return refuse(why);
  const evidence = judgeEvidence(record, found.evidence);
  return 'ok' in evidence ? evidence : { ok: true, index, record, checkpoint, evidence };
}

/** What the log itself should never say of a record; only its operator could have brought it there. */
function contradictionOf(record: AuditRecord, { index, bucketTenant }: Receipt): string | null {
  if (!isRecord(record)) return 'what it proves is not a record';
  if (record.index !== index) return `its record says that its index is ${record.index}`;
  if ((record.bucketTenant === undefined) !== (bucketTenant === null)) {
    return "its leaf and its record differ about the bucket's tenant";
  }
  return null;
}

/** Has it what is said of it, as what it must be? */
function isRecord(record: AuditRecord): boolean {
  const { tenant, principal, action, time, evidence, status, tokens = [] } = record;
  const { key = '', bucket = '', bucketTenant = '', target = '', error = '' } = record;
  const texts = [
    tenant,
    principal,
    action,
    time,
    evidence,
    key,
    bucket,
    bucketTenant,
    target,
    error,
  ];
  const isText = (text: unknown) => typeof text === 'string';
  return texts.every(isText) && typeof status === 'number' && Array.isArray(tokens);
}

/** undefined: it is no UTF-8, which signed notes must be. */
function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
