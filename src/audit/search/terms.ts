// What records are found by. A term is one thing that a record says of itself, and what is asked
// for is a set of terms that it must have, besides its time and its object's key. A copy is about
// two objects, what was written and what was read, and is found by each; what the native API did to
// a bucket (snapshots, ownership, limits) is about that bucket. Invariant: index and tail
// ask the same function, so a record is found by the same words before it is indexed and after.
import type { AuditRecord } from '../verify/opening.ts';

/** The members of a record by which it is found. */
export interface FoundBy
  extends Pick<
    AuditRecord,
    | ('index' | 'tenant' | 'principal' | 'action' | 'bucket' | 'bucketTenant')
    | ('key' | 'target' | 'tokens' | 'status' | 'source')
  > {
  /** Of a copy, what was read. */
  change?: { source?: Subject } | undefined;
}

/** An object, or a bucket, that a record is about. */
interface Subject {
  /** Absent: of the tenant that asked. */
  bucketTenant?: string | undefined;
  bucket?: string | undefined;
  key?: string | undefined;
}

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
  /** Of which tenant the bucket is; absent: of any. */
  bucketTenant?: string | undefined;
  /** Only what principals of other tenants did in the bucket's. */
  isByGuests?: boolean | undefined;
  /** The prefix of object keys. */
  prefix?: string | undefined;
  /** The key of an object, whole. */
  key?: string | undefined;
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
  /** Only records after this log index, or, of the newest first, before it. */
  pastIndex?: number | undefined;
  /** Only records before this log index. */
  beforeIndex?: number | undefined;
  isNewestFirst?: boolean | undefined;
  limit: number;
}

export function termsOf(record: FoundBy): string[] {
  const { tenant, principal, action, bucketTenant, tokens, status, source } = record;
  const terms = new Set([`c:${tenant}`, `t:${tenant}`, `p:${principal}`, `a:${action}`]);
  terms.add(`s:${status}`);
  terms.add(`i:${source}`);
  if (bucketTenant !== undefined) terms.add(`c:${bucketTenant}`);
  if (isByGuest(record)) terms.add(`g:${bucketTenant}`);
  for (const { bucket } of subjectsOf(record)) if (bucket !== undefined) terms.add(`b:${bucket}`);
  for (const jti of tokens ?? []) terms.add(`j:${jti}`);
  return [...terms];
}

/** Whether a principal of another tenant did it in the bucket's. */
function isByGuest({ tenant, bucketTenant }: FoundBy): boolean {
  return bucketTenant !== undefined && bucketTenant !== tenant;
}

/** The terms that a record must have. Those that are rare come first, as far as can be told. */
function termsWanted(query: RecordQuery): string[] {
  const wanted: [string, string | number | null | undefined][] = [
    ['j', query.token],
    ['i', query.source],
    ['p', query.principal],
    ['b', query.bucket],
    ['a', query.action],
    ['s', query.status],
    ['g', query.isByGuests ? query.bucketTenant : undefined],
    ['t', query.requesterTenant],
    ['c', query.otherTenant],
    ['c', query.tenant],
  ];
  const terms = wanted.flatMap(([kind, value]) => {
    return value === undefined || value === null ? [] : [`${kind}:${value}`];
  });
  return [...new Set(terms)];
}

/** The keys of the objects that a record is about. */
export function keysOf(record: FoundBy): string[] {
  const keys = subjectsOf(record).map(({ key }) => key);
  return [...new Set(keys.filter((key) => key !== undefined))];
}

/** How keys begin that may be asked for; undefined: however they like. */
export function prefixWanted({ prefix, key }: RecordQuery): string | undefined {
  return key ?? prefix;
}

/**
 * What is asked for, to be compared with records: `fits`, or `leads` where the index leads to what
 * does not fit and is right to do so, or neither.
 */
export class Wanted {
  readonly terms: readonly string[];
  readonly #query: RecordQuery;

  constructor(query: RecordQuery) {
    this.terms = termsWanted(query);
    this.#query = query;
  }

  /** `text`: canonical. */
  compare(text: string): 'fits' | 'leads' | 'no' {
    // Nearly all records that do not fit lack one of the words, which is seen without reading them.
    for (const term of this.terms) if (!text.includes(wordOf(term))) return 'no';
    if (this.#query.isByGuests && !text.includes('"bucketTenant":')) return 'leads';
    const record = JSON.parse(text) as FoundBy;
    const terms = termsOf(record);
    if (!this.terms.every((term) => terms.includes(term))) return 'no';
    const prefix = prefixWanted(this.#query);
    if (this.#query.isByGuests && !isByGuest(record)) return 'leads';
    if (prefix && !keysOf(record).some((key) => key.startsWith(prefix))) return 'no';
    const { tenant } = record;
    return subjectsOf(record).some((one) => this.#isAbout(one, tenant)) ? 'fits' : 'leads';
  }

  /** Bucket, its tenant and the key have to be of one object. */
  #isAbout(subject: Subject, tenant: string): boolean {
    const { bucket, bucketTenant, prefix, key } = this.#query;
    if (bucket !== undefined && subject.bucket !== bucket) return false;
    const isOther = bucketTenant !== undefined && (subject.bucketTenant ?? tenant) !== bucketTenant;
    if (isOther) return false;
    if (key !== undefined && subject.key !== key) return false;
    return !prefix || subject.key?.startsWith(prefix) === true;
  }
}

/** `tenants/cms/buckets/raw/snapshots`, `limits/bucket:cms/raw`, `limits/prefix:cms/raw/run1/` */
const aboutBucket =
  /^(?:tenants\/([^/]+)\/buckets\/|(?:limits|usage)\/(?:bucket|prefix):([^/]+)\/)([^/]+)/;

/** What was asked for, what was read by a copy, and the bucket that the native API was used on. */
function subjectsOf({ bucketTenant, bucket, key, change, target }: FoundBy): Subject[] {
  const subjects: Subject[] = [{ bucketTenant, bucket, key }];
  if (change?.source) subjects.push(change.source);
  const [, tenant, limited, named] = target?.match(aboutBucket) ?? [];
  if (named !== undefined) subjects.push({ bucketTenant: tenant ?? limited, bucket: named });
  return subjects;
}

/** What the text of each record with this term has somewhere. */
function wordOf(term: string): string {
  const value = term.slice(2);
  if (term.startsWith('s:')) return value;
  const text = JSON.stringify(value);
  // A bucket may be named within what the native API was used on.
  return term.startsWith('b:') ? text.slice(1, -1) : text;
}
