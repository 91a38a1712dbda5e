// The leaf of a record in the public log (docs/formats/log.md). It shows nobody's business: whose
// it is by pseudonyms, and what it says by a commitment that only who has the record and its salt
// can open. Erasing the salt unlinks the record for ever; the leaf stays as it is.
import { sha256 } from './log/merkle.ts';

export const saltBytes = 16;

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
  return sha256(Buffer.concat([salt, Buffer.from(record)]));
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
  return record.includes(`"index":${index},`) && commitTo(salt, record).equals(commitment);
}

/** The bytes of the log's entry. */
export function renderLeaf({ tenant, bucketTenant, commitment }: Leaf): Buffer {
  const b = bucketTenant === null ? '' : `"b":"${bucketTenant}",`;
  return Buffer.from(`{"v":1,"t":"${tenant}",${b}"c":"${commitment}"}`);
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
