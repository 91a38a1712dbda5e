// A log as its tables have it, worked out again by the definitions: RFC 6962 for the tree,
// docs/formats/log.md for the leaves. Nothing here is shared with what is tested.
import { hash } from 'node:crypto';
import type { Reader } from '#bursar/core/database.js';

interface Row {
  idx: number;
  tenant: string;
  bucketTenant: string | null;
  commitment: Buffer;
  /** null: it was erased. */
  salt: Buffer | null;
  record: string;
}

export function sha256(...parts: (Uint8Array | string)[]): Buffer {
  return hash('sha256', Buffer.concat(parts.map((part) => Buffer.from(part))), 'buffer');
}

/**
 * The leaves' hashes, in order. Throws when a record that was not erased does not open its leaf, or
 * one is missing.
 */
export async function readLeaves(read: Reader, from = 0): Promise<Buffer[]> {
  const named = await read.all<{ tenant: string; pseudonym: string }>(
    'SELECT tenant, pseudonym FROM log_tenants',
  );
  const names = new Map(named.map(({ tenant, pseudonym }) => [tenant, pseudonym]));
  const rows = await read.all<Row>(
    `SELECT idx, tenant, bucket_tenant AS bucketTenant, commitment, salt, record FROM records
    WHERE idx >= ? ORDER BY idx`,
    from,
  );
  return rows.map(({ idx, tenant, bucketTenant, commitment, salt, record }, i) => {
    if (idx !== from + i) throw new Error(`record ${idx} is in the place of ${from + i}`);
    if (salt !== null) checkRecord({ idx, tenant, bucketTenant, commitment, salt, record });
    const t = names.get(tenant);
    const b = bucketTenant === null ? undefined : names.get(bucketTenant);
    return sha256(
      Buffer.of(0),
      JSON.stringify({ v: 1, t, b, c: commitment.toString('base64url') }),
    );
  });
}

function checkRecord({ idx, tenant, bucketTenant, commitment, salt, record }: Row): void {
  if (!sha256(salt ?? '', record).equals(commitment)) throw new Error(`${idx} is not committed to`);
  const parsed = JSON.parse(record) as { index: number; tenant: string; bucketTenant?: string };
  if (parsed.index !== idx) throw new Error(`record ${idx} says that it is ${parsed.index}`);
  if (parsed.tenant !== tenant || (parsed.bucketTenant ?? null) !== bucketTenant) {
    throw new Error(`record ${idx} is of another tenant`);
  }
}

/** MTH of RFC 6962. */
export function hashTree(leaves: readonly Buffer[]): Buffer {
  return treesOf(leaves)(leaves.length);
}

/** Gives the hash of the tree of the first leaves, so many as it is asked for. */
export function treesOf(leaves: readonly Buffer[]): (size: number) => Buffer {
  /** Those of full trees, by where they begin and end: the larger ones share them. */
  const full = new Map<string, Buffer>();
  const hash = (begin: number, end: number): Buffer => {
    if (end - begin === 1) return leaves[begin] as Buffer;
    let split = 1;
    while (split * 2 < end - begin) split *= 2;
    const name = split * 2 === end - begin ? `${begin} ${end}` : '';
    const known = full.get(name);
    if (known) return known;
    const made = sha256(Buffer.of(1), hash(begin, begin + split), hash(begin + split, end));
    if (name !== '') full.set(name, made);
    return made;
  };
  return (size) => (size === 0 ? sha256() : hash(0, size));
}
