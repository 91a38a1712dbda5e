// The audit record of one operation: canonical JSON (RFC 8785), kept verbatim. The members below
// are written in code-unit order and JSON.stringify serializes strings and integers as RFC 8785
// does, so its output is canonical as it is; a test holds that against an independent
// canonicalizer.
import type { StoreUse } from '../core/backend-use.ts';
import { canonicalize } from '../core/canonical-json.ts';
import { formatUsd } from '../core/money.ts';
import type { Limits } from '../core/quota-terms.ts';

/** Everything that the gateway knows of an operation before it is committed. */
export interface RecordDraft {
  /** IAM-style name: `s3:PutObject`, `bursar:CreateTenant`. */
  action: string;
  tenant: string;
  /** Name in the tenant. */
  principal: string;
  accessKeyId?: string | null;
  /** Thumbprint (RFC 7638) of the public key that verified the request. */
  keyThumbprint?: string | null;
  /** The `jti`s of the chain that was used, from its first link down. */
  tokens?: readonly string[] | null;
  /** How well the request can be proven (docs/audit/records.md). */
  evidence: 'body-signed' | 'headers-signed' | 'shared-secret' | 'none';
  /** The digest of what the client signed, which is kept beside the record; base64url SHA-256. */
  evidenceHash?: string | null;
  /** Index of the request's first record, where that is kept; null: it is this one. */
  evidenceAt?: number | null;
  bucket?: string | null;
  /** The tenant of the bucket, where that is another one. */
  bucketTenant?: string | null;
  /** The principal that is charged for the bucket, by its name in the bucket's tenant. */
  bucketOwner?: string | null;
  /** `tenant`: that principal is not charged, but the bucket and its tenant are. */
  payer?: 'tenant' | null;
  key?: string | null;
  /** The id of the version that was asked for, or `null`. */
  versionId?: string | null;
  /** What an administrative operation was about: `tenants/cms/principals/alice`. */
  target?: string | null;
  /** The change that was made, as `recordedChange` gives it. */
  change?: object | null;
  /** What the account, or the token, that it is about may use from now on. */
  limits?: Limits | null;
  /**
   * The part of a limit that an account reached: amounts in decimal, members in canonical order.
   */
  alarm?: { limit: string; meter: string; percent: number; used: string; window: string } | null;
  /** Bytes received and sent as body. */
  bytesIn: number;
  bytesOut: number;
  /** The object's size, ETag and SHA-256 (hex) where the operation made or read one. */
  sizeBytes?: number | null;
  etag?: string | null;
  sha256?: string | null;
  class?: string | null;
  /** `0-99` of a range read. */
  range?: string | null;
  /**
   * Where several reads are one record (docs/admin/record-reads.md): how many, when and where from.
   */
  folded?: FoldedReads | null;
  /** The time for which storage is charged: `FROM/TO`, RFC 3339. */
  period?: string | null;
  /** The storage used in that time, byte-milliseconds in decimal. */
  byteMs?: string | null;
  requestId: string;
  /** Client address. */
  source: string;
  status: number;
  /** The error code of a refusal. */
  error?: string | null;
}

export interface FoldedReads {
  reads: number;
  /** RFC 3339. */
  firstRead: string;
  lastRead: string;
  /** Client addresses. */
  sources: readonly string[];
  /** How many of the reads came from others than these; absent: none. */
  otherReads?: number;
}

/** The values that only the transaction knows. */
export interface RecordSeal {
  index: number;
  timeMs: number;
  storedBytes: number;
  storedObjects: number;
  /** Whether it made a version of its object, whose `seq` is the index. */
  makesVersion?: boolean | undefined;
  /** `seq` of the version that it ended. */
  supersededSeq?: number | undefined;
  /** The version that it made, changed or ended, where the bucket has or had versioning. */
  named?: { versionId: string | null; isMarker: boolean } | undefined;
  /** The version whose attributes it changed, and the SHA-256 of what they are now, hex. */
  amended?: { seq: number; attributes: string } | undefined;
  /** The bucket that it made or set up, and the SHA-256 of what is set of it now, hex. */
  configured?: { bucketId: number; settings: string } | undefined;
  /** The charge in picodollars. Null means that nobody was charged. */
  cost: bigint | null;
  /** Prefixes and writers with limits that were charged, or have more or less stored. */
  limited?: readonly LimitedEntry[] | undefined;
  /** What its bucket, the owner and the owner's tenant were charged besides, picodollars. */
  storageCost?: bigint | undefined;
  /** The same by the names of price books, where not all of it was by that of `priced`. */
  storageCosts?: ReadonlyMap<string, bigint> | undefined;
  /**
   * As which of S3's requests, of storage as none; and the name of the price book. Null: neither
   * was charged.
   */
  priced?: { price?: string; book: string } | null | undefined;
  /** What the stores were asked for it, and what the operator is billed for that, picodollars. */
  backend?: readonly BackendEntry[] | null | undefined;
}

/** As it is in the record: its members are in canonical order. */
export interface LimitedEntry {
  account: string;
  /** It was charged the request, and what that moved. */
  charged: boolean;
  storedBytes: number;
  storedObjects: number;
}

export interface BackendEntry extends StoreUse {
  /** Name of the price book. */
  book: string;
  cost: bigint;
}

/** The canonical text; absent members are left out. */
export function renderRecord(draft: RecordDraft, seal: RecordSeal): string {
  const record = membersOf(draft, seal);
  // What comes as its sender wrote it is not in order.
  return draft.limits || draft.change ? canonicalize(record) : JSON.stringify(record);
}

function membersOf(draft: RecordDraft, seal: RecordSeal): object {
  return {
    accessKeyId: draft.accessKeyId ?? undefined,
    action: draft.action,
    alarm: draft.alarm ?? undefined,
    amends: seal.amended && {
      attributes: seal.amended.attributes,
      version: seal.amended.seq,
    },
    backend: seal.backend?.map(renderBackend),
    backendCost: seal.backend ? formatUsd(sumCosts(seal.backend)) : undefined,
    bucket: draft.bucket ?? undefined,
    bucketOwner: draft.bucketOwner ?? undefined,
    bucketTenant: draft.bucketTenant ?? undefined,
    byteMs: draft.byteMs ?? undefined,
    bytesIn: draft.bytesIn,
    bytesOut: draft.bytesOut,
    change: draft.change ?? undefined,
    class: draft.class ?? undefined,
    configures: seal.configured && {
      bucket: seal.configured.bucketId,
      settings: seal.configured.settings,
    },
    cost: seal.cost === null ? undefined : formatUsd(seal.cost),
    error: draft.error ?? undefined,
    etag: draft.etag ?? undefined,
    evidence: draft.evidence,
    evidenceAt: draft.evidenceAt ?? undefined,
    evidenceHash: draft.evidenceHash ?? undefined,
    firstRead: draft.folded?.firstRead,
    index: seal.index,
    key: draft.key ?? undefined,
    keyThumbprint: draft.keyThumbprint ?? undefined,
    lastRead: draft.folded?.lastRead,
    limited: seal.limited,
    limits: draft.limits ?? undefined,
    marker: seal.named?.isMarker || undefined,
    otherReads: draft.folded?.otherReads,
    payer: draft.payer ?? undefined,
    period: draft.period ?? undefined,
    price: seal.priced?.price,
    priceBook: seal.priced?.book,
    principal: draft.principal,
    range: draft.range ?? undefined,
    reads: draft.folded?.reads,
    requestId: draft.requestId,
    sha256: draft.sha256 ?? undefined,
    size: draft.sizeBytes ?? undefined,
    source: draft.source,
    sources: draft.folded?.sources,
    status: draft.status,
    storageCost: seal.storageCost ? formatUsd(seal.storageCost) : undefined,
    storageCosts: seal.storageCosts && renderCosts(seal.storageCosts),
    storedBytes: seal.storedBytes,
    storedObjects: seal.storedObjects,
    supersedes: seal.supersededSeq,
    target: draft.target ?? undefined,
    tenant: draft.tenant,
    time: new Date(seal.timeMs).toISOString(),
    tokens: draft.tokens ?? undefined,
    version: seal.makesVersion ? seal.index : undefined,
    versionId: seal.named ? (seal.named.versionId ?? 'null') : (draft.versionId ?? undefined),
  };
}

/** In canonical order, which is that of the names. */
function renderCosts(costs: ReadonlyMap<string, bigint>): object {
  const names = [...costs.keys()].sort();
  return Object.fromEntries(names.map((name) => [name, formatUsd(costs.get(name) ?? 0n)]));
}

function renderBackend(entry: BackendEntry): object {
  const { cost, frees, gets, book, puts, receivedBytes, sentBytes, store } = entry;
  const priceBook = book;
  return { cost: formatUsd(cost), frees, gets, priceBook, puts, receivedBytes, sentBytes, store };
}

function sumCosts(entries: readonly BackendEntry[]): bigint {
  return entries.reduce((sum, { cost }) => sum + cost, 0n);
}
