// A request that may be done, and for which what it may use is set aside: what operations see of
// it, and the one way to make a change. An operation returns its reply as a value; the pipeline
// sends it.
import type { ServerResponse } from 'node:http';
import type { RecordDraft } from '../../audit/record.ts';
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import type { UsedVersion } from '../../catalog/tiers.ts';
import type { PutObject } from '../../catalog/version-changes.ts';
import type { Tags } from '../../catalog/versions.ts';
import { monotonicMs } from '../../core/clock.ts';
import { type ErrorCode, IntegrityError, Refusal } from '../../core/errors.ts';
import { localStore } from '../../core/manifest.ts';
import type { StageClock } from '../../instruments/stage-clock.ts';
import { nameUses } from '../../ledger/backend-upkeep.ts';
import type { Change } from '../../ledger/commands/index.ts';
import type { Commit, CommitResult } from '../../ledger/commit.ts';
import type { Decision } from '../../ledger/known-rights.ts';
import { bucketScope, tenantScope } from '../../ledger/scopes.ts';
import type { BackendBill } from '../../quota/backend-cost.ts';
import type { Charge } from '../../quota/charge.ts';
import type { BodyRoom } from '../../quota/disk-room.ts';
import type { PriceBook, RestoreTier } from '../../quota/prices/price-book.ts';
import type { ObjectSink } from '../../tiering/object-writer.ts';
import { StoreTallies, type StoreTally, type TakenUse } from '../../tiering/stores/store-tally.ts';
import type { Exchange } from '../http/exchange.ts';
import type { TimedStream } from '../http/shaped-body.ts';
import type { RequestServices } from '../services.ts';
import type { AskedRequest } from './asked.ts';
import type { Budget } from './budget.ts';
import { tellLimits } from './limit-headers.ts';
import { answeringStore, standardClass, storageBooksOf } from './objects/written-class.ts';
import { provenBy } from './proven-record.ts';
import { countPart, type Entered } from './rate-gate.ts';
import { isRead, type S3Request } from './request.ts';
import { draftOf, noChange, type RecordDetail } from './request-record.ts';
import type { Recorded } from './stages.ts';

const noStores: readonly number[] = [];

/** What was committed. */
export type Committed = Extract<CommitResult, { ok: true }>;

/** As it was admitted. Of what may change since then, `asked` knows the newest. */
export class ReservedRequest implements Recorded {
  readonly services: RequestServices;
  readonly request: S3Request;
  /** Counts the bytes of both bodies, too. */
  readonly exchange: Exchange;
  /** Where the time goes. */
  readonly clock: StageClock;
  /** What it asks for, and the one way to a decision. */
  readonly asked: AskedRequest;
  readonly who: Identity;
  readonly tenant: string;
  readonly requester: string;
  readonly askedName: string | null;
  readonly bucketName: string | null;
  readonly bucketTenant: string;
  readonly bucket: Bucket | null;
  readonly key: string | null;
  readonly versionId: string | undefined;
  readonly tags: Tags;
  /** The bytes of its body, without frames, as its headers say. */
  readonly bodyBytes: number;
  readonly response: ServerResponse;
  /** What it may use. */
  readonly budget: Budget;
  /** What the bytes of both bodies have to go through; null: nothing slows them. */
  readonly shaped: TimedStream | null;
  /** null: nobody concerned has a rate. */
  readonly #entered: Entered | null;
  /** The disk's room for what is coming in; null: it takes none. */
  room: BodyRoom | null = null;
  /** Where bytes of its own go that are not committed yet; null: it has none. */
  sink: ObjectSink | null = null;
  /** What it reads of a class with tiers; null: nothing. */
  used: UsedVersion | null = null;
  /** What the record of this operation shall say besides the obvious. */
  detail: RecordDetail = {};
  /**
   * Resolves when what was committed is safe in its store, and may be answered for; null: it is.
   * Rejects with `Refusal` ServiceUnavailable: it was committed, and the client does not know.
   */
  confirmation: Promise<unknown> | null = null;
  /** What stores over a network were asked, and no record says yet. Null: nothing. */
  #tallies: StoreTallies | null = null;
  /** Where bytes of its own go besides the bucket's store; null: nowhere. */
  #otherStore: number | null = null;
  /** Is its record one with others, which is still to come? */
  #isFolded = false;

  constructor(asked: AskedRequest, budget: Budget, entered: Entered | null) {
    this.services = asked.services;
    this.request = asked.request;
    this.exchange = asked.exchange;
    this.clock = asked.clock;
    this.asked = asked;
    this.who = asked.who;
    this.tenant = asked.tenant;
    this.requester = asked.requester;
    this.askedName = asked.askedName;
    this.bucketName = asked.bucketName;
    this.bucketTenant = asked.bucketTenant;
    this.bucket = asked.bucket;
    this.key = asked.key;
    this.versionId = asked.versionId;
    this.tags = asked.tags;
    this.bodyBytes = asked.bodyBytes;
    this.budget = budget;
    this.#entered = entered;
    this.response = asked.exchange.response;
    this.shaped = entered?.stream ?? null;
    asked.exchange.budget = budget;
  }

  get isRecorded(): boolean {
    return this.exchange.index !== null || this.#isFolded;
  }

  get isStrictRead(): boolean {
    return isRead(this.request) && this.asked.recordReads === 'strict';
  }

  /** Says in what class something stays, and so by what it is charged as long as it is there. */
  keepIn(storageClass: string): void {
    const { bucket, services, budget } = this;
    if (storageClass === standardClass || !bucket) return;
    budget.storageBooks = storageBooksOf(services, bucket, storageClass);
    const found = services.classes.named(bucket.tenant, storageClass);
    if (found) budget.storageMinimum = found.definition.minimum;
  }

  /** Says where bytes of a class go. */
  writeTo(store: number, storageClass: string): void {
    if (storageClass === standardClass) return;
    const { bucket } = this;
    this.keepIn(storageClass);
    const book = this.#bookIn(bucket, store);
    if (book) this.budget.priceBy(book);
    if (store !== bucket?.store && store !== localStore) this.#otherStore = store;
  }

  /**
   * Says which class of which bucket it reads, and so by what its request and the bytes are priced;
   * of a copy only the bytes. What a tier of a restore brings is priced by that.
   */
  readFrom(
    bucket: Bucket,
    storageClass: string,
    { isCopy = false, tier }: { isCopy?: boolean; tier?: RestoreTier } = {},
  ): void {
    const of = isCopy ? bucket : this.bucket;
    const isOwn = storageClass !== standardClass;
    if (!isOwn && !isCopy) return;
    const store = answeringStore(this.services, bucket, storageClass);
    const book = this.#bookIn(of, store, tier);
    if (isCopy) this.budget.priceSourceBy(book ?? this.services.bookOf(bucket.store));
    else if (book) this.budget.priceBy(book);
  }

  /** What has a class of its store's server is priced by that, in the book of the bucket. */
  #bookIn(bucket: Bucket | null, store: number, tier?: RestoreTier): PriceBook | null {
    const { bookOf, stores, priceBooks } = this.services;
    const { storageClass } = stores.declaredOf(store);
    if (!bucket || storageClass === null || storageClass === standardClass) return null;
    return priceBooks.inClass(bookOf(bucket.store), storageClass, tier);
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
    if (code === 'NoSuchKey') return new Refusal(code, { fields: { Key: this.request.key ?? '' } });
    if (code !== 'BursarIntegrityError') return new Refusal(code, { fields });
    return new IntegrityError('the stored row is not authentic');
  }

  /**
   * The same, with a refusal as a value, for operations that read again and retry. Throws `Refusal`
   * where rights were taken away meanwhile that it needs. `decision`: of what one request decides
   * one by one.
   */
  async tryCommit(
    change: Change,
    detail: RecordDetail = {},
    decision: Decision = { epoch: this.asked.epoch, again: () => this.asked.decideAnew() },
  ): Promise<CommitResult> {
    const { asked, services } = this;
    this.#checkPayer();
    const again = async () => {
      const epoch = await decision.again();
      this.#checkPayer();
      return epoch;
    };
    const { bucket } = asked;
    const store = change.kind === 'createBucket' ? change.store : bucket?.store;
    const versioning = bucket?.versioning ?? 'Unversioned';
    // The local store has no journal.
    const isTold = store !== undefined && store !== localStore;
    if (isTold) services.journals.admit(store, change, versioning);
    const told = { ...this.detail, ...detail };
    const charge = this.#charge(told.class);
    const record = draftOf(asked, { status: 200, error: null }, charge, told);
    const folds = change.kind === 'deleteObject' && asked.mustFold();
    const decided = { epoch: decision.epoch, again };
    const result = await this.#commit({ change, charge, record, folds }, decided);
    if (!result.ok) return result;
    this.sink = null;
    if (isTold) this.#confirm(store, change, result);
    // What was written elsewhere counts where that place was ours a moment before.
    for (const other of this.#othersOf(change)) this.#await(services.journals.owned(other));
    return result;
  }

  /** The stores besides the bucket's where bytes of the change went. */
  #othersOf(change: Change): Iterable<number> {
    const { places, extentIds = [] } = change as Partial<PutObject>;
    if (places) return new Set(places.flat());
    // What only shares bytes, or joins parts, has written nothing there.
    return this.#otherStore === null || extentIds.length === 0 ? noStores : [this.#otherStore];
  }

  /**
   * What it may use was set aside by whom the bucket belonged to, and is charged to none else.
   * Throws `Refusal` SlowDown where that has changed: asked for again, it is the new owner's.
   */
  #checkPayer(): void {
    const { owner } = this.budget;
    if (owner === null || this.asked.bucket?.owner === owner) return;
    const message = 'The bucket was given to another owner meanwhile. Try again.';
    throw new Refusal('SlowDown', { message });
  }

  async #commit(
    { change, charge, record, folds }: Pick<Commit, 'change' | 'charge' | 'record' | 'folds'>,
    decision: Decision | null,
  ): Promise<CommitResult> {
    const { asked, clock } = this;
    const uses = this.#tallies?.take();
    const commit: Commit = { change, charge, record, folds, backend: null, epoch: undefined };
    if (uses) commit.backend = this.#billOf(uses);
    if (this.used && record.error === null) commit.used = this.used;
    // A copy depends on its source too.
    const source = asked.source?.found;
    if (source) {
      commit.concerns = [tenantScope(source.tenant), bucketScope(source.tenant, source.name)];
    }
    const before = clock.enter('commit');
    let result: CommitResult | null = null;
    try {
      result = await asked.commit(commit, decision);
      return result;
    } finally {
      clock.enter(before);
      const index = result?.index ?? null;
      if (index !== null) this.exchange.index = index;
      else if (result?.isFolded) this.#isFolded = true;
      else {
        this.budget.uncharge();
        if (uses) this.#tallies?.add(uses);
      }
    }
  }

  #confirm(store: number, change: Change, result: Extract<CommitResult, { ok: true }>): void {
    this.#await(this.services.journals.confirm(store, change, result));
  }

  /** It is answered for only after this. */
  #await(confirmed: Promise<unknown> | null): void {
    if (!confirmed) return;
    const before = this.confirmation;
    this.confirmation = before ? Promise.all([before, confirmed]) : confirmed;
    // It is awaited at the end, and may fail before that.
    this.confirmation.catch(() => {});
  }

  record(status: number, error: string | null): Promise<unknown> | null {
    const { asked, detail } = this;
    const charge = this.#pays(status, error) ? this.#charge(detail.class) : null;
    const draft = draftOf(asked, { status, error }, charge, detail);
    const { signed } = asked.who;
    const { record, evidence } = signed ? provenBy(signed, draft) : { record: draft };
    const uses = this.#tallies?.take();
    const backend = uses ? this.#billOf(uses) : null;
    const commit: Commit = { change: noChange, charge, backend, record };
    if (evidence) commit.evidence = evidence;
    if (this.used && error === null && this.exchange.bytesOut > 0) commit.used = this.used;
    const isPublicRead =
      error === null &&
      asked.who.isAnonymous &&
      asked.action === 's3:GetObject' &&
      asked.recordReads === 'aggregate';
    if (isPublicRead || (charge === null && asked.mustFold())) commit.folds = true;
    return this.services.ledger.record(commit);
  }

  async recordNow(
    status: number,
    error: string | null,
    detail = this.detail,
  ): Promise<ErrorCode | null> {
    const charge = this.#pays(status, error) ? this.#charge(detail.class) : null;
    const record = draftOf(this.asked, { status, error }, charge, detail);
    const folds = charge === null && this.asked.mustFold();
    const result = await this.#commit({ change: noChange, charge, record, folds }, null);
    return result.ok ? null : result.code;
  }

  /**
   * Records what another tenant is to see of this. What the client signed is about more than that,
   * and is not theirs to see: it does not prove this record. Throws `Refusal` when it cannot.
   */
  async recordBesides(told: Partial<RecordDraft>): Promise<void> {
    const draft = draftOf(this.asked, { status: 200, error: null });
    const evidence = this.who.signed ? 'shared-secret' : draft.evidence;
    const record = { ...draft, evidence, bytesIn: 0, bytesOut: 0, ...told };
    const result = await this.services.ledger.commit({ change: noChange, charge: null, record });
    if (!result.ok) throw new Refusal(result.code);
  }

  /**
   * Has a part of what it asks for wait its turn, as a request of its own would, until `byMs` at
   * most; null: it may go on. Throws `Refusal` SlowDown.
   */
  countPart(byMs: number): Promise<void> | null {
    const { accounts = [] } = this.#entered ?? {};
    const { response } = this;
    const { audience } = this.budget;
    const waitMsMax = Math.max(byMs - monotonicMs(), 0);
    return countPart(this.services.rates, accounts, { response, audience, waitMsMax });
  }

  /** Adds to the headers of an answer what limits leave. */
  tellLimits(headers: Record<string, string>): void {
    const { who, budget } = this;
    const { payers, holds, audience } = budget;
    if (holds.length === 0 && !this.#entered) return;
    const { rates, leaseHolder } = this.services;
    const ratedAccounts = this.#entered?.accounts ?? [];
    const { edition } = leaseHolder;
    tellLimits(headers, { who, payers, holds, edition, rates, ratedAccounts, audience });
  }

  /** Counts what a store over a network is asked for this operation. */
  tallyOf(store: number): StoreTally {
    this.#tallies ??= new StoreTallies(this.exchange.trace);
    return this.#tallies.tallyOf(store);
  }

  /** Nothing is recorded any more: what the stores were asked after that is the gateway's own. */
  closeTallies(): void {
    if (this.#tallies) this.services.upkeep.add(this.#tallies.take());
  }

  #billOf(uses: TakenUse[]): BackendBill | null {
    if (uses.length === 0) return null;
    return { tenant: this.bucketTenant, uses: nameUses(uses, this.services) };
  }

  #charge(storageClass?: string | null): Charge {
    const { bytesIn: ingressBytes, bytesOut: egressBytes } = this.exchange;
    return this.budget.charge({ ingressBytes, egressBytes }, storageClass ?? undefined);
  }

  /** Whom nothing was done for pays nothing, unless bytes were sent. */
  #pays(status: number, error: string | null): boolean {
    return this.exchange.bytesOut > 0 || (status < 500 && error !== 'QuotaExceeded');
  }

  /** Ends the connection of a client that is too slow while others wait for what it holds. */
  cut(): void {
    this.response.destroy();
  }
}
