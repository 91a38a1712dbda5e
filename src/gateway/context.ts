// What an operation sees: the request, who asks, the bucket, the gateway's rooms, and the one way
// to make a change. An operation returns its reply as a value; the pipeline sends it.
import type { ServerResponse } from 'node:http';
import type { RecordDraft } from '../audit/record.ts';
import type { S3Action } from '../authz/grants/actions.ts';
import type { Identity } from '../authz/identity.ts';
import type { Bucket } from '../catalog/buckets.ts';
import type { Lock } from '../catalog/object-lock.ts';
import { findNamed, type Tags, type Version } from '../catalog/versions.ts';
import { type ErrorCode, IntegrityError, Refusal } from '../core/errors.ts';
import { localStore } from '../core/manifest.ts';
import { principalId } from '../core/principal.ts';
import type { RecordReads } from '../core/record-reads.ts';
import { nameUses } from '../ledger/backend-upkeep.ts';
import type { Change, Commit, CommitResult } from '../ledger/commit.ts';
import type { BackendBill } from '../quota/backend-cost.ts';
import type { Charge } from '../quota/charge.ts';
import type { ShapedStream } from '../quota/rates.ts';
import { StoreTallies, type StoreTally, type TakenUse } from '../tiering/stores/store-tally.ts';
import { Access, type Target } from './access.ts';
import type { NamedBucket } from './bucket-lookup.ts';
import { type Ask, Budget } from './budget.ts';
import type { SourceName } from './copy-source.ts';
import { checkWritten } from './delegated-rights.ts';
import { tellLimits } from './limit-headers.ts';
import { LimitAudience } from './limit-refusals.ts';
import { noTags, tagsOf } from './object-tags.ts';
import type { Operation } from './operation.ts';
import { isOwnCopy } from './own-copy.ts';
import { payersOf } from './payers.ts';
import { ProvenCommits, provenBy } from './proven-record.ts';
import { type Entered, enterAtRate } from './rate-gate.ts';
import { parameter, type S3Request } from './request.ts';
import type { Rooms } from './rooms.ts';

export type { Reply } from './replies.ts';

/** Details of a record that only the operation knows. */
export type RecordDetail = Partial<
  Pick<RecordDraft, 'action' | 'key' | 'versionId' | 'target' | 'change' | 'sizeBytes' | 'etag'> &
    Pick<RecordDraft, 'sha256' | 'class' | 'range' | 'status'>
>;

/** What was committed. */
export type Committed = Extract<CommitResult, { ok: true }>;

/** What of the request's own bucket is meant. */
type About = Partial<Omit<Target, 'action' | 'askedName' | 'found'>>;

export class Context {
  readonly rooms: Rooms;
  readonly request: S3Request;
  readonly response: ServerResponse;
  readonly who: Identity;
  readonly #access: Access;
  /** IAM name of what is asked for, once the route is known. */
  action: S3Action | 's3:Unknown' = 's3:Unknown';
  #found: NamedBucket | null = null;
  #source: SourceName | null = null;
  /** What the request gives to the object that it writes. */
  tags: Tags = noTags;
  /** The version by whose tags the request was decided; null: there was none. */
  #tagged: Version | null | undefined;
  /** null until it was found that who asks may do it. */
  #budget: Budget | null = null;
  /** null: nobody concerned has a rate. */
  #entered: Entered | null = null;
  #audience: LimitAudience | null = null;
  /** Until this resolves, what was committed is not yet safe in its store. Null: it is. */
  #confirmation: Promise<unknown> | null = null;
  /** What stores over a network were asked, and no record says yet. Null: nothing. */
  #tallies: StoreTallies | null = null;
  /** null: nothing was committed of what the client signed with a key of its own. */
  #proven: ProvenCommits | null = null;
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

  /** What is written besides bytes: tags, and what a copy is made of. */
  bring(tags: Tags, source: SourceName | null): void {
    this.tags = tags;
    this.#source = source;
    this.#access.learn({ requestTags: new Map(tags), copySource: source && this.#nameOf(source) });
  }

  /** What the body of the request locks a version with: rules may depend on it. */
  learnLock(lock: Lock): void {
    this.#access.learn({ lock });
  }

  /** A source by the name that it has in the tenant of the bucket it is copied into. */
  #nameOf({ found: { tenant, name }, key }: SourceName): string {
    return tenant === this.bucketTenant ? `${name}/${key}` : `${tenant}:${name}/${key}`;
  }

  /** The source that the operation's route promises. */
  get source(): SourceName {
    if (!this.#source) throw new Error('this operation has no source');
    return this.#source;
  }

  get #bucket(): Bucket | null {
    return this.#found?.bucket ?? null;
  }

  /** The tenant in whose namespace the request's bucket is, or would be. */
  get bucketTenant(): string {
    return this.#found?.tenant ?? this.who.principal.tenant;
  }

  /** The bucket as the request named it, which is what its answer calls it. */
  get askedName(): string {
    if (this.request.bucketName === null) throw new Error('this operation has no bucket name');
    return this.request.bucketName;
  }

  /** The bucket's name in that namespace; the request may have used another. */
  get bucketName(): string {
    if (!this.#found) throw new Error('this operation has no bucket name');
    return this.#found.name;
  }

  /** The bucket that is asked for; null: it is not there, or the request is about none. */
  get foundBucket(): Bucket | null {
    return this.#bucket;
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

  /** The version of it that the request names; undefined: the newest. */
  get versionId(): string | undefined {
    return parameter(this.request, 'versionId');
  }

  /**
   * The tenant of who asks. Without credentials it is the bucket's: who lets everybody in pays for
   * everybody, and has it in the records.
   */
  get tenant(): string {
    return this.who.isAnonymous ? this.bucketTenant : this.who.principal.tenant;
  }

  /** `tenant/name` of who asks. */
  get requester(): string {
    const { isAnonymous, principal } = this.who;
    return isAnonymous ? principalId(this.tenant, principal.name) : principal.id;
  }

  /** Throws `Refusal` AccessDenied unless who asks may do this with the request's own bucket. */
  authorize(action: S3Action, about: About = {}): Promise<void> {
    return this.#access.demand(this.#targetOf(action, about));
  }

  /** The same with a key, the request's own; rules may depend on the tags of what is there. */
  authorizeKey(action: S3Action, about: About = {}): Promise<void> {
    return this.#access.demand(this.#keyTarget(action, about));
  }

  /** The same as an answer. */
  mayReachKey(action: S3Action, about: About = {}): Promise<boolean> {
    return this.mayReach(this.#keyTarget(action, about));
  }

  /** The same for tags that are written: who may only create may create with tags. */
  authorizeTags(): Promise<void> {
    return this.authorizeKey('s3:PutObjectTagging', { wanted: 'create' });
  }

  /**
   * Throws `Refusal` AccessDenied unless the version that is about to be read may be: by its own
   * tags, if by tags the request was decided.
   */
  async admitVersion(version: Version): Promise<void> {
    const tagged = this.#tagged;
    if (tagged === undefined) return;
    if (tagged?.seq === version.seq && tagged.attributes === version.attributes) return;
    const action = this.action as S3Action;
    await this.authorizeKey(action, this.#learnOf(action, async () => version));
  }

  #keyTarget(action: S3Action, about: About): Target {
    const key = about.key ?? this.key;
    const versionId = about.versionId ?? this.versionId;
    const load = async () => {
      const bucket = this.#bucket;
      const version = bucket ? await findNamed(this.rooms, bucket, { key, versionId }) : undefined;
      this.#tagged = version ?? null;
      return version;
    };
    return this.#targetOf(action, { key, ...this.#learnOf(action, load), ...about });
  }

  /** What a decision may depend on of the version that is there. */
  #learnOf(action: S3Action, load: () => Promise<Version | undefined>): About {
    const loadTags = async () => tagsOf(await load());
    if (action !== 's3:GetObject') return { loadTags };
    return { loadTags, isOwnCopy: async () => isOwnCopy(this, await load()) };
  }

  /**
   * The answer for a key that is not there, the request's own or another. As on S3, only who may
   * list where it would be learns that it is not.
   */
  async missingKey({ askedName, found, key } = this.#place): Promise<Refusal> {
    const place = { askedName, found, key: null, listPrefix: key, wanted: 'stat' } as const;
    if (!(await this.mayReach({ action: 's3:ListBucket', ...place }))) {
      return new Refusal('AccessDenied');
    }
    return new Refusal('NoSuchKey', { fields: { Key: key } });
  }

  get #place(): Pick<Target, 'askedName' | 'found'> & { key: string } {
    return { askedName: this.request.bucketName, found: this.#found, key: this.key };
  }

  /** The same for another bucket, as the request named it. */
  authorizeOther(target: Target): Promise<void> {
    return this.#access.demand(target);
  }

  /** The same as an answer. */
  mayReach(target: Target): Promise<boolean> {
    return this.#access.allows(target);
  }

  /** Must a write of the key leave what is there, because a token only lets its bearer create? */
  mustCreate(): boolean {
    return this.#access.mustCreate(this.#targetOf('s3:PutObject', { key: this.key }));
  }

  /** Throws `Refusal` AccessDenied unless the credential lets such an object be written. */
  checkWritten(written: { storageClass: string; sizeBytes: number }): void {
    if (this.who.delegation) checkWritten(this.who.delegation, written);
  }

  #targetOf(action: S3Action, about: About): Target {
    const askedName = this.request.bucketName;
    return { action, askedName, found: this.#found, key: null, listPrefix: null, ...about };
  }

  /** Makes a change durable together with its charge and record. Throws `Refusal` when refused. */
  async commit(change: Change, detail: RecordDetail = {}): Promise<Committed> {
    const result = await this.tryCommit(change, detail);
    if (!result.ok) throw this.failureOf(result);
    return result;
  }

  /** What a refused commit is thrown as: a damaged row counts as one. */
  failureOf({ code, fields = {}, shortage }: Extract<CommitResult, { ok: false }>): Error {
    if (shortage) return this.budget.refusalOf(shortage);
    if (code !== 'BursarIntegrityError') return new Refusal(code, { fields });
    return new IntegrityError('the stored row is not authentic');
  }

  /** The same, with a refusal as a value, for operations that read again and retry. */
  async tryCommit(change: Change, detail: RecordDetail = {}): Promise<CommitResult> {
    const store = change.kind === 'createBucket' ? change.store : this.#bucket?.store;
    const versioning = this.#bucket?.versioning ?? 'Unversioned';
    if (store !== undefined) this.rooms.journals.admit(store, change, versioning);
    const told = { ...this.detail, ...detail };
    const charge = this.#charge(told.class);
    const result = await this.#commit(change, charge, this.draft(200, null, charge, told));
    if (changesBucket(change)) this.rooms.buckets.forget(this.bucketTenant, this.bucketName);
    if (result.ok && store !== undefined) this.#confirm(store, change, result);
    return result;
  }

  async #commit(change: Change, charge: Charge | null, record: RecordDraft): Promise<CommitResult> {
    const asked = this.#tallies?.take();
    const { ledger } = this.rooms;
    const { signed } = this.who;
    if (signed) this.#proven ??= new ProvenCommits(ledger, signed);
    const backend = this.#billOf(asked);
    const result = await (this.#proven ?? ledger).commit({ change, charge, backend, record });
    if (result.index === null) {
      this.#budget?.uncharge();
      if (asked) this.#tallies?.add(asked);
    } else {
      this.index = result.index;
    }
    return result;
  }

  /**
   * Resolves when what was committed is safe in its store, and may be answered for; null: it is.
   * Rejects with `Refusal` ServiceUnavailable: it was committed, and the client does not know.
   */
  get confirmation(): Promise<unknown> | null {
    return this.#confirmation;
  }

  #confirm(store: number, change: Change, result: Extract<CommitResult, { ok: true }>): void {
    const confirmed = this.rooms.journals.confirm(store, change, result);
    if (!confirmed) return;
    const before = this.#confirmation;
    this.#confirmation = before ? Promise.all([before, confirmed]) : confirmed;
    // It is awaited at the end, and may fail before that.
    this.#confirmation.catch(() => {});
  }

  get #recordReads(): RecordReads {
    return this.rooms.readRecording.modeOf(this.bucketTenant, this.#bucket);
  }

  /** Must this read be recorded before its last byte is sent? */
  get isStrictRead(): boolean {
    const { method } = this.request;
    return (method === 'GET' || method === 'HEAD') && this.#recordReads === 'strict';
  }

  /** Records an operation that changed nothing: a read, or a refusal. */
  record(status: number, error: string | null): Promise<unknown> | null {
    const charge = this.#pays(status, error) ? this.#charge(this.detail.class) : null;
    const commit: Commit = {
      change: { kind: 'none' },
      charge,
      backend: this.#billOf(this.#tallies?.take()),
      ...provenBy(this.who.signed, this.draft(status, error, charge, this.detail)),
    };
    const { ledger } = this.rooms;
    const isFolded =
      error === null &&
      this.who.isAnonymous &&
      this.action === 's3:GetObject' &&
      this.#recordReads === 'aggregate';
    return isFolded ? ledger.recordFolded(commit) : ledger.record(commit);
  }

  /**
   * Records what another tenant is to see of this. What the client signed is about more than that, and
   * is not theirs to see: it does not prove this record. Throws `Refusal` when it cannot.
   */
  async recordBesides(told: Partial<RecordDraft>): Promise<void> {
    const draft = this.draft(200, null, null, {});
    const evidence = this.who.signed ? 'shared-secret' : draft.evidence;
    const record = { ...draft, evidence, bytesIn: 0, bytesOut: 0, ...told };
    const change = { kind: 'none' } as const;
    const result = await this.rooms.ledger.commit({ change, charge: null, record });
    if (!result.ok) throw new Refusal(result.code);
  }

  /** As `record`, durable before it resolves; gives why it could not be recorded, else null. */
  async recordNow(
    status: number,
    error: string | null,
    detail = this.detail,
  ): Promise<ErrorCode | null> {
    const charge = this.#pays(status, error) ? this.#charge(detail.class) : null;
    const record = this.draft(status, error, charge, detail);
    const result = await this.#commit({ kind: 'none' }, charge, record);
    return result.ok ? null : result.code;
  }

  /**
   * Who asks may do it: from here on it costs. Sets aside what is known of it; throws `Refusal`
   * QuotaExceeded, SlowDown or ServiceUnavailable.
   */
  async openBudget({ price, reserves, resource }: Operation, ask: Ask): Promise<void> {
    const { rooms, who } = this;
    // Who asks for a new bucket by a name that is taken asks nothing of the bucket that has it.
    const bucket = resource === 'bucketName' ? null : this.#bucket;
    const book = rooms.bookOf(bucket?.store ?? localStore);
    for (const { name, limits, expiresAtMs } of who.delegation?.accounts ?? []) {
      const { tenant, name: principal } = who.principal;
      if (!limits) continue;
      rooms.desk.introduce(name, { tenant, principal, expiresAtMs, limits });
      rooms.rates.introduce(name, limits);
    }
    const charged = payersOf(who, this.tenant, bucket);
    const audience = new LimitAudience(who, bucket, this.request.bucketName);
    this.#audience = audience;
    if (price !== 'free') {
      const { response } = this;
      this.#entered = enterAtRate(rooms.rates, charged, { audience, response });
    }
    this.#budget = new Budget(rooms.desk, { who: charged, price, book, audience });
    if (reserves) this.#budget.expect({ requests: 1, ...ask });
    else await this.#budget.reserve({ requests: 1, ...ask });
  }

  /** What the bytes of both bodies have to go through; null: nothing slows them. */
  get shaped(): ShapedStream | null {
    return this.#entered?.stream ?? null;
  }

  /** Adds to the headers of an answer what limits leave. */
  tellLimits(headers: Record<string, string>): void {
    const holds = this.#budget?.holds ?? [];
    if (!this.#audience || (holds.length === 0 && !this.#entered)) return;
    tellLimits(headers, {
      holds,
      rates: this.rooms.rates,
      ratedAccounts: this.#entered?.accounts ?? [],
      audience: this.#audience,
    });
  }

  /** What the operation may do; there is one from its admission on. */
  get budget(): Budget {
    if (!this.#budget) throw new Error('this operation was not admitted');
    return this.#budget;
  }

  /**
   * Waits where so many more bytes are more than was set aside; what is free may come in before it is
   * decided.
   */
  reserveReceived(bytes: number): Promise<void> | null {
    return this.#budget?.receive(this.bytesIn + bytes) ?? null;
  }

  /** Counts what a store over a network is asked for this operation. */
  tallyOf(store: number): StoreTally {
    this.#tallies ??= new StoreTallies();
    return this.#tallies.tallyOf(store);
  }

  /** Nothing is recorded any more: what the stores were asked after that is the gateway's own. */
  closeTallies(): void {
    if (this.#tallies) this.rooms.upkeep.add(this.#tallies.take());
  }

  #billOf(asked: TakenUse[] | undefined): BackendBill | null {
    if (!asked || asked.length === 0) return null;
    return { tenant: this.bucketTenant, uses: nameUses(asked, this.rooms) };
  }

  /** Before a failure is charged for: `Budget.reserveExpected`, of what was admitted. */
  reserveExpected(): Promise<void> | null {
    return this.#budget?.reserveExpected() ?? null;
  }

  /** Ends what is set aside and was not charged. */
  closeBudget(): void {
    this.#budget?.void();
  }

  #charge(storageClass?: string | null): Charge {
    const { bytesIn: ingressBytes, bytesOut: egressBytes } = this;
    return this.budget.charge({ ingressBytes, egressBytes }, storageClass ?? undefined);
  }

  /** Whom nothing was done for pays nothing, unless bytes were sent. */
  #pays(status: number, error: string | null): boolean {
    if (!this.#budget) return false;
    return this.bytesOut > 0 || (status < 500 && error !== 'QuotaExceeded');
  }

  /** Ends the connection of a client that is too slow while others wait for what it holds. */
  cut(): void {
    this.response.destroy();
  }

  private draft(
    status: number,
    error: string | null,
    charge: Charge | null,
    detail: RecordDetail,
  ): RecordDraft {
    const { principal, accessKeyId, keyThumbprint, delegation, evidence } = this.who;
    const { tenant } = this;
    return {
      action: this.action,
      tenant,
      principal: principal.name,
      accessKeyId,
      keyThumbprint,
      tokens: delegation?.ids ?? null,
      evidence,
      bucket: this.#found?.name ?? this.request.bucketName,
      bucketTenant: this.bucketTenant === tenant ? null : this.bucketTenant,
      key: this.request.key,
      bucketOwner: charge?.who.bucket?.owner ?? null,
      bytesIn: charge?.transfer.ingressBytes ?? this.bytesIn,
      bytesOut: charge?.transfer.egressBytes ?? this.bytesOut,
      requestId: this.request.id,
      source: this.request.source,
      status,
      error,
      ...detail,
    };
  }
}

const bucketChanges: ReadonlySet<Change['kind']> = new Set([
  'createBucket',
  'deleteBucket',
  'putBucketPolicy',
  'setVersioning',
  'putBucketSetting',
] as const);

function changesBucket({ kind }: Change): boolean {
  return bucketChanges.has(kind);
}
