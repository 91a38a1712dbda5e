// A receipt: the proof that a record is in the log (C2SP tlog-proof@v1), whose extra data are what
// opens the record's leaf: canonical JSON of pseudonyms, salt and the record itself, and the
// evidence that the record names by its hash. So the leaf follows from the receipt alone. Pure.
import { decodeBase64url } from '../core/base64.ts';
import { canonicalize, parseCanonical } from '../core/canonical-json.ts';
import { isObject } from '../core/json.ts';
import { commitTo, isPseudonym, renderLeaf, saltBytes } from './leaf.ts';
import { type ProofText, parseProof, renderProof } from './log/proof-text.ts';

export interface Opening {
  /** Pseudonym of the tenant of who asked. */
  tenant: string;
  /** The pseudonym of the bucket's tenant, where that is another one. */
  bucketTenant: string | null;
  salt: Buffer;
  /** Canonical text. */
  record: string;
  /** The text whose hash is the record's `evidenceHash`. Null means that the record has none. */
  evidence: unknown;
}

export interface Receipt extends Opening, Omit<ProofText, 'extra'> {}

/** The text that is handed out; `record` must be canonical, as all records are. */
export function renderReceipt({ index, proof, checkpoint, ...opening }: Receipt): string {
  const extra = Buffer.from(renderOpening(opening));
  return renderProof({ extra, index, proof, checkpoint });
}

/** Canonical JSON; `record` must be canonical. */
export function renderOpening(opening: Opening): string {
  const { tenant, bucketTenant, salt, record, evidence } = opening;
  const members = [
    bucketTenant === null ? '' : `"b":"${bucketTenant}",`,
    evidence === null ? '' : `"evidence":${canonicalize(evidence)},`,
    `"record":${record},"salt":"${salt.toString('base64url')}","t":"${tenant}"`,
  ];
  return `{${members.join('')}}`;
}

/** undefined: it is no receipt. Nothing of it is verified. */
export function parseReceipt(text: string | Uint8Array): Receipt | undefined {
  const found = parseProof(text);
  const opening = found?.extra && parseOpening(found.extra);
  if (!opening) return undefined;
  const { index, proof, checkpoint } = found;
  return { ...opening, index, proof, checkpoint };
}

/** The bytes of the leaf that it opens. */
export function leafOf({ tenant, bucketTenant, salt, record }: Opening): Buffer {
  const commitment = commitTo(salt, record).toString('base64url');
  return renderLeaf({ tenant, bucketTenant, commitment });
}

/** undefined: it opens nothing. */
export function parseOpening(extra: Uint8Array): Opening | undefined {
  const value = parseCanonical(extra);
  if (!isObject(value)) return undefined;
  const { b, evidence, record, salt, t, ...rest } = value;
  if (Object.keys(rest).length > 0 || !isObject(record) || !isPseudonym(t)) return undefined;
  if ('b' in value && !isPseudonym(b)) return undefined;
  if ('evidence' in value && !isObject(evidence)) return undefined;
  const saltOf = typeof salt === 'string' ? decodeBase64url(salt) : undefined;
  if (saltOf?.length !== saltBytes) return undefined;
  return {
    tenant: t,
    bucketTenant: isPseudonym(b) ? b : null,
    salt: saltOf,
    record: canonicalize(record),
    evidence: evidence ?? null,
  };
}
