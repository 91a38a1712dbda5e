// What records are found by. A term is one thing that a record says of itself, and what is asked
// for is a set of terms that it must have, besides its time and how its key begins. Invariant:
// index and tail ask the same function, so a record is found by the same words before it is indexed
// and after.
import type { AuditRecord } from '../verify/opening.ts';

/** The members of a record by which it is found. */
export type FoundBy = Pick<
  AuditRecord,
  | ('index' | 'tenant' | 'principal' | 'action' | 'bucket' | 'bucketTenant')
  | ('key' | 'tokens' | 'status' | 'source')
>;

export interface RecordQuery {
  /** What concerns this tenant: by its principals, or about its buckets. Null: everything. */
  tenant: string | null;
  /** And this one too. */
  otherTenant?: string | undefined;
  /** Only records of requests by principals of this tenant. */
  requesterTenant?: string | undefined;
  /** Only records of requests by principals of this name. */
  principal?: string | undefined;
  bucket?: string | undefined;
  /** The prefix of object keys. */
  prefix?: string | undefined;
  action?: string | undefined;
  /** The `jti` of any link of the chain that was used. */
  token?: string | undefined;
  /** HTTP status. */
  status?: number | undefined;
  /** The client's address, as the record has it. */
  source?: string | undefined;
  /** Milliseconds since the epoch; `from` inclusive, `to` exclusive. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
  /** Only records after this log index. */
  afterIndex?: number | undefined;
  limit: number;
}

export function termsOf(record: FoundBy): string[] {
  const { tenant, principal, action, bucket, bucketTenant, tokens, status, source } = record;
  const terms = [`c:${tenant}`, `t:${tenant}`, `p:${principal}`, `a:${action}`];
  terms.push(`s:${status}`, `i:${source}`);
  if (bucketTenant !== undefined && bucketTenant !== tenant) terms.push(`c:${bucketTenant}`);
  if (bucket !== undefined) terms.push(`b:${bucket}`);
  for (const jti of new Set(tokens)) terms.push(`j:${jti}`);
  return terms;
}

/** The terms that a record must have. Those that are rare come first, as far as can be told. */
export function termsWanted(query: RecordQuery): string[] {
  const wanted: [string, string | number | null | undefined][] = [
    ['j', query.token],
    ['i', query.source],
    ['p', query.principal],
    ['b', query.bucket],
    ['a', query.action],
    ['s', query.status],
    ['t', query.requesterTenant],
    ['c', query.otherTenant],
    ['c', query.tenant],
  ];
  const terms = wanted.flatMap(([kind, value]) => {
    return value === undefined || value === null ? [] : [`${kind}:${value}`];
  });
  return [...new Set(terms)];
}

/** The record, where it has all of them and a key that begins so. `text`: canonical. */
export function fitting(
  text: string,
  wanted: readonly string[],
  prefix: string | undefined,
): FoundBy | undefined {
  // Nearly all records that do not fit lack one of the words, which is seen without reading them.
  for (const term of wanted) if (!text.includes(wordOf(term))) return undefined;
  const record = JSON.parse(text) as FoundBy;
  if (prefix && !record.key?.startsWith(prefix)) return undefined;
  const terms = termsOf(record);
  return wanted.every((term) => terms.includes(term)) ? record : undefined;
}

/** What the text of each record with this term has somewhere. */
function wordOf(term: string): string {
  const value = term.slice(2);
  return term.startsWith('s:') ? value : JSON.stringify(value);
}
