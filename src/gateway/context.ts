// What an operation sees: the request, who asks, the bucket, the gateway's rooms, and the one way
// to make a change. An operation returns its reply as a value; the pipeline sends it.
import type { ServerResponse } from 'node:http';
import type { RecordDraft } from '../audit/record.ts';
import type { S3Action } from '../authz/grants/actions.ts';
import type { GrantBook } from '../authz/grants/grant-book.ts';
import type { Identity } from '../authz/identity.ts';
import type { MountBook } from '../authz/mount-book.ts';
import type { BucketCache } from '../catalog/bucket-cache.ts';
import type { Bucket } from '../catalog/buckets.ts';
import type { Reader } from '../core/database.ts';
import { IntegrityError, Refusal } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Change, CommitResult, Transfer } from '../ledger/commit.ts';
import type { IntentPool } from '../ledger/intent-pool.ts';
import type { Journals } from '../ledger/journal/journals.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Reservations } from '../quota/reservations.ts';
import type { ObjectReader } from '../tiering/object-reader.ts';
import type { ObjectWriter } from '../tiering/object-writer.ts';
import type { ReadLeases } from '../tiering/read-leases.ts';
import { Access, type Target } from './access.ts';
import type { NamedBucket } from './bucket-lookup.ts';
import type { S3Request } from './request.ts';
import type { StoreList } from './store-list.ts';

/** The rooms as the S3 operations use them. */
export interface Rooms {
  /** Committed state, read-only. */
  read: Reader;
  keyring: Keyring;
  buckets: BucketCache;
  grants: GrantBook;
  mounts: MountBook;
  ledger: Ledger;
  journals: Journals;
  /** Ids for extents that are about to be written. */
  intents: IntentPool;
  writer: ObjectWriter;
  reader: ObjectReader;
  leases: ReadLeases;
  reservations: Reservations;
  stores: StoreList;
  region: string;
  domains: readonly string[];
}

/** An answer. `stream` gives verified bytes that are valid until the next is asked for. */
export interface Reply {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer | AsyncGenerator<Buffer, void, void> | null;
}

/** Details of a record that only the operation knows. */
export type RecordDetail = Partial<
  Pick<RecordDraft, 'key' | 'sizeBytes' | 'etag' | 'sha256' | 'class' | 'range' | 'status'>
>;

export class Context {
  readonly rooms: Rooms;
  readonly request: S3Request;
  readonly response: ServerResponse;
  readonly who: Identity;
  readonly #access: Access;
  /** IAM name of what is asked for, once the route is known. */
  action: S3Action | 's3:Unknown' = 's3:Unknown';
  #found: NamedBucket | null = null;
  #isCharged = false;
  /** Until this resolves, what was committed is not yet safe in its store. Null: it is. */
  #confirmation: Promise<unknown> | null = null;
  /** What the record of this operation shall say besides the obvious. */
  detail: RecordDetail = {};
  /** Body bytes received so far. */
  bytesIn = 0;
  /** Body bytes sent so far. */
  bytesOut = 0;
  /** Log index of the committed record; null while nothing was committed. */
  index: number | null = null;

  constructor(given: {
    rooms: Rooms;
    request: S3Request;
    response: ServerResponse;
    who: Identity;
  }) {
    this.rooms = given.rooms;
    this.request = given.request;
    this.response = given.response;
    this.who = given.who;
    this.#access = new Access(given.rooms, given.request, given.who);
  }

  /** What is asked for and about which bucket; null when it is about none. */
  concern(action: S3Action, found: NamedBucket | null): void {
    this.action = action;
    this.#found = found;
  }

  get #bucket(): Bucket | null {
    return this.#found?.bucket ?? null;
  }

  /** The tenant in whose namespace the request's bucket is, or would be. */
  get bucketTenant(): string {
    return this.#found?.tenant ?? this.who.principal.tenant;
  }

  /** The bucket's name in that namespace; the request may have used another. */
  get bucketName(): string {
    if (!this.#found) throw new Error('this operation has no bucket name');
    return this.#found.name;
  }

  /** The bucket that the operation's route promises. */
  get bucket(): Bucket {
    if (!this.#bucket) throw new Error('this operation has no bucket');
    return this.#bucket;
  }

  /** The key that the operation's route promises. */
  get key(): string {
    if (this.request.key === null) throw new Error('this operation has no key');
    return this.request.key;
  }

  /** `tenant/name` of who asks. */
  get requester(): string {
    return this.who.principal.id;
  }

  /** Throws `Refusal` AccessDenied unless who asks may do this with the request's own bucket. */
  authorize(
    action: S3Action,
    about: Partial<Pick<Target, 'key' | 'listPrefix' | 'loadTags'>> = {},
  ): Promise<void> {
    return this.#access.demand(this.#targetOf(action, about));
  }

  /** The same for another bucket, as the request named it. */
  authorizeOther(target: Target): Promise<void> {
    return this.#access.demand(target);
  }

  /** The same as an answer. */
  mayReach(target: Target): Promise<boolean> {
    return this.#access.allows(target);
  }

  /** Must a write of this key leave what is there, because a token only lets it create? */
  mustCreate(key: string): boolean {
    return this.#access.mustCreate(this.#targetOf('s3:PutObject', { key }));
  }

  #targetOf(
    action: S3Action,
    about: Partial<Pick<Target, 'key' | 'listPrefix' | 'loadTags'>>,
  ): Target {
    const askedName = this.request.bucketName;
    return { action, askedName, found: this.#found, key: null, listPrefix: null, ...about };
  }

  /** Makes a change durable together with its charge and record. Throws `Refusal` when refused. */
  async commit(change: Change, detail: RecordDetail = {}): Promise<{ timeMs: number }> {
    const result = await this.tryCommit(change, detail);
    if (!result.ok) throw failureOf(result);
    return result;
  }

  /** The same, with a refusal as a value, for operations that read again and retry. */
  async tryCommit(change: Change, detail: RecordDetail = {}): Promise<CommitResult> {
    // A request that commits several changes is charged as one, with the first.
    const first = !this.#isCharged;
    this.#isCharged = true;
    const transfer = {
      requests: first ? 1 : 0,
      ingressBytes: first ? this.bytesIn : 0,
      egressBytes: 0,
    };
    const store = change.kind === 'createBucket' ? change.store : this.#bucket?.store;
    if (store !== undefined) this.rooms.journals.admit(store, change);
    const result = await this.rooms.ledger.commit({
      change,
      charged: this.charged(),
      transfer,
      record: this.draft(200, null, transfer, { ...this.detail, ...detail }),
    });
    if (change.kind === 'createBucket' || change.kind === 'deleteBucket') {
      this.rooms.buckets.forget();
    }
    if (result.index !== null) this.index = result.index;
    if (result.ok && store !== undefined) this.#confirm(store, change, result.index);
    return result;
  }

  /**
   * Resolves when what was committed is safe in its store, and may be answered for; null: it is.
   * Rejects with `Refusal` ServiceUnavailable: it was committed, and the client does not know.
   */
  get confirmation(): Promise<unknown> | null {
    return this.#confirmation;
  }

  #confirm(store: number, change: Change, seq: number): void {
    const confirmed = this.rooms.journals.confirm(store, change, seq);
    if (!confirmed) return;
    const before = this.#confirmation;
    this.#confirmation = before ? Promise.all([before, confirmed]) : confirmed;
    // It is awaited at the end, and may fail before that.
    this.#confirmation.catch(() => {});
  }

  /** Records an operation that changed nothing: a read, or a refusal. */
  record(status: number, error: string | null): Promise<unknown> | null {
    const transfer = { requests: 1, ingressBytes: this.bytesIn, egressBytes: this.bytesOut };
    return this.rooms.ledger.record({
      change: { kind: 'none' },
      charged: this.charged(),
      transfer,
      record: this.draft(status, error, transfer, this.detail),
    });
  }

  /** Ends the connection of a client that is too slow while others wait for what it holds. */
  cut(): void {
    this.response.destroy();
  }

  charged(): { tenant: string; principal: string; bucket: Bucket | null } {
    const { tenant, name } = this.who.principal;
    return { tenant, principal: name, bucket: this.#bucket };
  }

  private draft(
    status: number,
    error: string | null,
    transfer: Transfer,
    detail: RecordDetail,
  ): RecordDraft {
    const { principal, accessKeyId, keyThumbprint, delegation, evidence } = this.who;
    const isForeign = this.#found !== null && this.#found.tenant !== principal.tenant;
    return {
      action: this.action,
      tenant: principal.tenant,
      principal: principal.name,
      accessKeyId,
      keyThumbprint,
      tokens: delegation?.ids ?? null,
      evidence,
      bucket: this.#found?.name ?? this.request.bucketName,
      bucketTenant: isForeign ? this.bucketTenant : null,
      key: this.request.key,
      bytesIn: transfer.ingressBytes,
      bytesOut: transfer.egressBytes,
      requestId: this.request.id,
      source: this.request.source,
      status,
      error,
      ...detail,
    };
  }
}

/** What a refused commit is thrown as: a damaged row counts as one. */
export function failureOf(refused: Extract<CommitResult, { ok: false }>): Error {
  const { code, fields = {} } = refused;
  if (code === 'BursarIntegrityError') return new IntegrityError('the stored row is not authentic');
  return new Refusal(code, { fields });
}
