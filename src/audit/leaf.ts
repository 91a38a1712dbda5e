// The leaf of a record in the public log (docs/formats/log.md). It shows nobody's business: whose
// it is by pseudonyms, and what it says by a commitment that only who has the record and its salt
// can open. Erasing the salt unlinks the record for ever; the leaf stays as it is.
import { hash } from 'node:crypto';
import { hashBytes, sha256 } from './log/merkle.ts';

export const saltBytes = 16;

/** Texts of at most so many UTF-16 units share a buffer, which has room for their UTF-8. */
const keptLengthMax = 4096;
const kept = Buffer.allocUnsafeSlow(saltBytes + 3 * keptLengthMax);

export interface Leaf {
  /** Pseudonym of the tenant of who asked. */
  tenant: string;
  /** The pseudonym of the bucket's tenant, where that is another one; else null. */
  bucketTenant: string | null;
  /** base64url(SHA-256(salt ‖ record)). */
  commitment: string;
}

/** `record`: its canonical text. Who reads a salt must see that it has its length. */
export function commitTo(salt: Uint8Array, record: string): Buffer {
  if (salt.length !== saltBytes || record.length > keptLengthMax) {
    return sha256(Buffer.concat([salt, Buffer.from(record)]));
  }
  kept.set(salt);
  return sha256(kept.subarray(0, saltBytes + kept.write(record, saltBytes)));
}

/**
 * Returns whether a text is the one of record `index` that its commitment was made of. No other
 * text has this member: names in strings have their quotation marks escaped, and nothing else in a
 * record has this name.
 */
export function isRecorded(
  index: number,
  { commitment, salt, record }: { commitment: Buffer; salt: Uint8Array; record: string },
): boolean {
  return namesIndex(record, index) && commitTo(salt, record).equals(commitment);
}

/**
 * What the table has of a record, as one value: commitment, salt and text, one behind the other;
 * null: it was erased. SQLite gives one value in much less time than three.
 */
export const recordContent = 'CAST(commitment || salt || record AS BLOB)';

/** The text in the content of record `index`; undefined: it is not what was recorded. */
export function textOfContent(index: number, content: Buffer): string | undefined {
  const digest = hash('sha256', content.subarray(hashBytes), 'binary');
  if (content.toString('latin1', 0, hashBytes) !== digest) return undefined;
  const text = content.toString('utf8', hashBytes + saltBytes);
  return namesIndex(text, index) ? text : undefined;
}

function namesIndex(record: string, index: number): boolean {
  return record.includes(`"index":${index},`);
}

/** The bytes of the log's entry. */
export function renderLeaf(leaf: Leaf): Buffer {
  return Buffer.from(leafText(leaf));
}

export function leafText({ tenant, bucketTenant, commitment }: Leaf): string {
  const b = bucketTenant === null ? '' : `"b":"${bucketTenant}",`;
  return `{"v":1,"t":"${tenant}",${b}"c":"${commitment}"}`;
}

/** undefined: it is no leaf of a record, and no verifier believes a log that has it. */
export function parseLeaf(entry: Uint8Array): Leaf | undefined {
  const text = Buffer.from(entry).toString('latin1');
  const match = leafPattern.exec(text);
  if (!match) return undefined;
  const [, tenant = '', bucketTenant, commitment = ''] = match;
  return { tenant, bucketTenant: bucketTenant ?? null, commitment };
}

/** The form of a tenant's pseudonym in a leaf and in what opens it. */
export function isPseudonym(value: unknown): value is string {
  return typeof value === 'string' && pseudonymPattern.test(value);
}

/** Of 16 and of 32 bytes. The last letter leaves no bits over, so that each has one text only. */
const pseudonym = '[A-Za-z0-9_-]{21}[AQgw]';
const commitment = '[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]';
const pseudonymPattern = new RegExp(`^${pseudonym}$`);
const leafPattern = new RegExp(
  `^\\{"v":1,"t":"(${pseudonym})",(?:"b":"(${pseudonym})",)?"c":"(${commitment})"\\}$`,
);
