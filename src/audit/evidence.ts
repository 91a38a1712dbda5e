// The evidence of a record: what its client signed with a key of its own, as it is kept and handed
// out, canonical JSON whose SHA-256 the record has. Invariants: nothing in it is enough to act in
// the client's name; and it is bounded: what is secret or too large is not kept but by its digest,
// and it says so. Specification: docs/formats/evidence.md.
import { hash } from 'node:crypto';
import { canonicalize } from '../core/canonical-json.ts';
import { isoTime } from '../core/clock.ts';
import type { Tx } from '../core/database.ts';
import type { SignedEvidence, SignedPart } from '../core/evidence.ts';

/**
 * One text of a part. A token and the rest of a header section fit; all of them are under 64 KiB.
 */
export const evidenceTextBytesMax = 24 * 1024;

export const evidenceSchema = `
CREATE TABLE evidence (            -- what clients signed with keys of their own
  idx INTEGER PRIMARY KEY,         -- of the record that has its hash
  evidence TEXT NOT NULL           -- RFC 8785 canonical JSON, verbatim
);
`;

/**
 * The evidence as it is written. What was signed is in it, or its digest where that is not kept.
 */
export interface KeptPart extends Omit<SignedPart, 'signed'> {
  signed?: string;
  /** base64url. */
  signedSha256?: string;
}

export interface Evidence {
  v: 1;
  parts: KeptPart[];
  /** RFC 3339. Until then it is shown to nobody but who proves the same key. */
  replayableUntil?: string;
}

export interface RenderedEvidence {
  /** Canonical. */
  text: string;
  /** Its SHA-256 in base64url. */
  hash: string;
}

/** A request may have several records, and a token's links are the same for all its requests. */
const rendered = new WeakMap<SignedEvidence, RenderedEvidence>();
const renderedParts = new WeakMap<SignedPart, string>();

export function renderEvidence(evidence: SignedEvidence): RenderedEvidence {
  let known = rendered.get(evidence);
  if (!known) {
    const { parts, replayableUntilMs } = evidence;
    const until =
      replayableUntilMs === null ? '' : `"replayableUntil":"${isoTime(replayableUntilMs)}",`;
    const text = `{"parts":[${parts.map(renderPart).join(',')}],${until}"v":1}`;
    known = { text, hash: hashEvidence(text) };
    rendered.set(evidence, known);
  }
  return known;
}

function renderPart(part: SignedPart): string {
  let text = renderedParts.get(part);
  if (text === undefined) {
    text = canonicalize(keep(part));
    renderedParts.set(part, text);
  }
  return text;
}

/** What a record has as its `evidenceHash`. `text`: canonical. */
export function hashEvidence(text: string): string {
  return hash('sha256', text, 'base64url');
}

function keep(part: SignedPart): KeptPart {
  const { kind, jwk, thumbprint, enrolledAt, signed, signature, canonicalRequest } = part;
  const kept: KeptPart = { kind, jwk, thumbprint, signature };
  if (enrolledAt !== undefined) kept.enrolledAt = enrolledAt;
  if (isKept(signed)) kept.signed = signed;
  else kept.signedSha256 = hash('sha256', Buffer.from(signed, 'latin1'), 'base64url');
  if (canonicalRequest !== undefined && isKept(canonicalRequest)) {
    kept.canonicalRequest = canonicalRequest;
  }
  return kept;
}

/**
 * Headers that are secrets wherever they come. A token that is bound to a key is none, and others
 * do not come with a signature.
 */
const secretHeader =
  /^"?(?:cookie|proxy-authorization|x-amz-security-token|x-amz-[a-z-]*customer-key)"?:/m;
/** The same where a query has them, which is recorded also where that is refused. */
const secretParameter = /(?:^|[?&])(?:x-amz-security-token|x-amz-[a-z-]*customer-key)=/im;

function isKept(text: string): boolean {
  return (
    text.length <= evidenceTextBytesMax && !secretHeader.test(text) && !secretParameter.test(text)
  );
}

/** Inside the transaction that appends the record of this index. */
export async function keepEvidence(tx: Tx, index: number, text: string): Promise<void> {
  await tx.run('INSERT INTO evidence VALUES (?, ?)', index, text);
}

/**
 * When it may be shown to who asks, who proves the key of `keyThumbprint`, or none; milliseconds,
 * and null: now. Who has the key could sign the same again.
 */
export function withheldUntilMs(
  text: string,
  { keyThumbprint, nowMs }: { keyThumbprint: string | null; nowMs: number },
): number | null {
  const { parts, replayableUntil } = JSON.parse(text) as Evidence;
  if (replayableUntil === undefined) return null;
  const untilMs = Date.parse(replayableUntil);
  if (nowMs > untilMs || parts.at(-1)?.thumbprint === keyThumbprint) return null;
  return untilMs;
}
