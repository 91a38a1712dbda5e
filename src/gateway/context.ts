// What an operation sees: the request, who asks, the bucket, the gateway's rooms, what may be done
// (asked-rights.ts), and the one way to make a change. An operation returns its reply as a value; the pipeline sends it.
import type { ServerResponse } from 'node:http';
import type { RecordDraft } from '../audit/record.ts';
import type { Identity } from '../authz/identity.ts';
import { monotonicMs } from '../core/clock.ts';
import { type ErrorCode, IntegrityError, Refusal } from '../core/errors.ts';
import { localStore } from '../core/manifest.ts';
import type { RecordReads } from '../core/record-reads.ts';
import type { StageClock } from '../instruments/stage-clock.ts';
import { nameUses } from '../ledger/backend-upkeep.ts';
import type { Change, Commit, CommitResult } from '../ledger/commit.ts';
import type { Decision } from '../ledger/known-rights.ts';
import { bucketScope, tenantScope } from '../ledger/rights-epoch.ts';
import type { BackendBill } from '../quota/backend-cost.ts';
import type { Charge } from '../quota/charge.ts';
import type { BodyRoom } from '../quota/disk-room.ts';
import { StoreTallies, type StoreTally, type TakenUse } from '../tiering/stores/store-tally.ts';
import { AskedRights, type Places } from './asked-rights.ts';
import { isVersionId } from './asked-version.ts';
import { type Ask, Budget } from './budget.ts';
import type { Exchange } from './exchange.ts';
import { tellLimits } from './limit-headers.ts';
import { LimitAudience } from './limit-refusals.ts';
import type { Operation } from './operation.ts';
import { payersOf } from './payers.ts';
import { ProvenCommits, provenBy } from './proven-record.ts';
import { countPart, type Entered, enterAtRate } from './rate-gate.ts';
import type { S3Request } from './request.ts';
import type { Rooms } from './rooms.ts';
import type { TimedStream } from './shaped-body.ts';

export type { Reply } from './replies.ts';

/** Details of a record that only the operation knows. */
export type RecordDetail = Partial<
  Pick<RecordDraft, 'action' | 'key' | 'versionId' | 'target' | 'change' | 'sizeBytes' | 'etag'> &
    Pick<RecordDraft, 'sha256' | 'class' | 'range' | 'status'>
>;

/** What was committed. */
export type Committed = Extract<CommitResult, { ok: true }>;

/** Who asks, and what the request's names mean, as things are now. */
export type Now = Places & { who: Identity };

/** One for all: it crosses threads once for those that cross together. */
const noChange: Change = { kind: 'none' };

export class Context extends AskedRights {
  /** Counts the bytes of both bodies, too. */
  readonly exchange: Exchange;
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
  /** The disk's room for what is coming in; null: it takes none. */
  room: BodyRoom | null = null;
  /** Is its record one with others, which is still to come? */
  #isFolded = false;
  /** What the record of this operation shall say besides the obvious. */
  detail: RecordDetail = {};
  /** The epoch of rights by which it was decided. */
  #epoch: number;
  readonly #findAgain: () => Promise<Now>;
  /** What is decided anew. */
  #deciding: Promise<void> | null = null;
  #decidedMs = 0;

  /**
   * `epoch`: of the rights, as it was before anything was read to decide by. `findAgain`: who asks and
   * what the names mean as things are now.
   */
  constructor(
    given: { rooms: Rooms; request: S3Request; exchange: Exchange; who: Identity } & {
      epoch: number;
      findAgain: () => Promise<Now>;
    },
  ) {
    super(given);
    this.exchange = given.exchange;
    this.#epoch = given.epoch;
    this.#findAgain = given.findAgain;
  }

  get response(): ServerResponse {
    return this.exchange.response;
  }

  /** Where the time goes. */
  get clock(): StageClock {
    return this.exchange.clock;
  }

  /** Log index of the committed record; null while nothing was committed. */
  get index(): number | null {
    return this.exchange.index;
  }

  /** Is there a record of it, or will there be one that it has in common with others? */
  get isRecorded(): boolean {
    return this.index !== null || this.#isFolded;
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

  /**
   * The same, with a refusal as a value, for operations that read again and retry. Throws `Refusal`
   * where rights were taken away meanwhile that it needs. `decision`: of what one request decides
   * one by one.
   */
  async tryCommit(
    change: Change,
    detail: RecordDetail = {},
    decision: Decision = this.#decision,
  ): Promise<CommitResult> {
    const store = change.kind === 'createBucket' ? change.store : this.foundBucket?.store;
    const versioning = this.foundBucket?.versioning ?? 'Unversioned';
    if (store !== undefined) this.rooms.journals.admit(store, change, versioning);
    const told = { ...this.detail, ...detail };
    const charge = this.#charge(told.class);
    const record = this.draft(200, null, charge, told);
    const folds = change.kind === 'deleteObject' && this.#mustFold();
    const result = await this.#commit({ change, charge, record, folds }, decision);
    if (changesBucket(change)) this.rooms.buckets.forget(this.bucketTenant, this.bucketName);
    if (result.ok) this.rooms.ledger.rights.follow(result.epoch);
    if (result.ok && store !== undefined) this.#confirm(store, change, result);
    return result;
  }

  async #commit(
    { change, charge, record, folds }: Pick<Commit, 'change' | 'charge' | 'record' | 'folds'>,
    decision: Decision | null,
  ): Promise<CommitResult> {
    const asked = this.#tallies?.take();
    const { ledger } = this.rooms;
    const { signed } = this.who;
    if (signed) this.#proven ??= new ProvenCommits(ledger, signed);
    const before = this.clock.enter('commit');
    let result: CommitResult | null = null;
    try {
      const backend = this.#billOf(asked);
      const commit: Commit = { change, charge, record, folds, backend, epoch: undefined };
      this.#addConcerns(commit);
      const ways = this.#proven ?? ledger;
      result = await (decision
        ? ledger.rights.commit((one) => ways.commit(one), commit, decision)
        : ways.commit(commit));
      return result;
    } finally {
      this.clock.enter(before);
      const index = result?.index ?? null;
      if (index !== null) this.exchange.index = index;
      else if (result?.isFolded) this.#isFolded = true;
      else {
        this.#budget?.uncharge();
        if (asked) this.#tallies?.add(asked);
      }
    }
  }

  /** A copy depends on its source too. */
  #addConcerns(commit: Commit): void {
    const source = this.copied?.found;
    if (!source) return;
    const { tenant, name } = source;
    commit.concerns = [tenantScope(tenant), bucketScope(tenant, name)];
  }

  /** By what all that the request asks for was decided. */
  get #decision(): Decision {
    return { epoch: this.#epoch, again: () => this.decideAnew() };
  }

  /** The epoch of rights by which the request was decided. */
  get epoch(): number {
    return this.#epoch;
  }

  /**
   * While bytes come or go: null where no right was taken away since the request was decided, or that
   * was asked a moment ago. Else it is asked; rejects with `Refusal` where it may not go on.
   */
  reconsider(intervalMs = 0): Promise<unknown> | null {
    if (this.#epoch === this.rooms.ledger.rights.epoch) return null;
    if (intervalMs > 0 && monotonicMs() - this.#decidedMs < intervalMs) return null;
    return this.decideAnew();
  }

  /** The same of a download that is under way, where these are cut. */
  reconsiderDownload(): Promise<unknown> | null {
    return this.rooms.cutsRevoked ? this.reconsider() : null;
  }

  /** Decides by what is known now; gives the epoch of that. Rejects with `Refusal`. */
  async decideAnew(): Promise<number> {
    this.#deciding ??= this.#decideAgain().finally(() => {
      this.#deciding = null;
    });
    await this.#deciding;
    return this.#epoch;
  }

  async #decideAgain(): Promise<void> {
    const { epoch } = this.rooms.ledger.rights;
    this.#decidedMs = monotonicMs();
    await this.decideAgain(await this.#findAgain());
    this.#epoch = epoch;
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
    return this.rooms.readRecording.modeOf(this.bucketTenant, this.foundBucket);
  }

  /**
   * Must this read be recorded before its last byte is sent? Not where a stranger is refused: that it
   * took longer would tell them that there is such a bucket.
   */
  get isStrictRead(): boolean {
    const { method } = this.request;
    if (method !== 'GET' && method !== 'HEAD') return false;
    const mayKnow = this.#budget !== null || this.who.principal.tenant === this.bucketTenant;
    return mayKnow && this.#recordReads === 'strict';
  }

  /** Records an operation that changed nothing: a read, or a refusal. */
  record(status: number, error: string | null): Promise<unknown> | null {
    const charge = this.#pays(status, error) ? this.#charge(this.detail.class) : null;
    const { record, evidence } = provenBy(
      this.who.signed,
      this.draft(status, error, charge, this.detail),
    );
    const backend = this.#billOf(this.#tallies?.take());
    const commit: Commit = { change: noChange, charge, backend, record };
    if (evidence) commit.evidence = evidence;
    const { ledger } = this.rooms;
    const isPublicRead =
      error === null &&
      this.who.isAnonymous &&
      this.action === 's3:GetObject' &&
      this.#recordReads === 'aggregate';
    if (isPublicRead || (charge === null && this.#mustFold())) commit.folds = true;
    return ledger.record(commit);
  }

  /** Of what costs nothing: what is charged is bounded by that, and has a record of its own. */
  #mustFold(): boolean {
    return this.rooms.folding.mustFold(this.requester, this.tenant);
  }

  /**
   * Records what another tenant is to see of this. What the client signed is about more than that, and
   * is not theirs to see: it does not prove this record. Throws `Refusal` when it cannot.
   */
  async recordBesides(told: Partial<RecordDraft>): Promise<void> {
    const draft = this.draft(200, null, null, {});
    const evidence = this.who.signed ? 'shared-secret' : draft.evidence;
    const record = { ...draft, evidence, bytesIn: 0, bytesOut: 0, ...told };
    const result = await this.rooms.ledger.commit({ change: noChange, charge: null, record });
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
    const folds = charge === null && this.#mustFold();
    const result = await this.#commit({ change: noChange, charge, record, folds }, null);
    return result.ok ? null : result.code;
  }

  /**
   * Who asks may do it: from here on it costs. Sets aside what is known of it; throws `Refusal`
   * QuotaExceeded, SlowDown or ServiceUnavailable. The object is the budget's own from here on.
   */
  async openBudget({ price, reserves, resource }: Operation, ask: Ask): Promise<void> {
    const { rooms, who } = this;
    // Who asks for a new bucket by a name that is taken asks nothing of the bucket that has it.
    const bucket = resource === 'bucketName' ? null : this.foundBucket;
    const book = rooms.bookOf(bucket?.store ?? localStore);
    for (const { name, limits, expiresAtMs } of who.delegation?.accounts ?? []) {
      const { tenant, name: principal } = who.principal;
      if (!limits) continue;
      rooms.desk.introduce(name, { tenant, principal, expiresAtMs, limits });
    }
    const charged = payersOf(who, this.tenant, bucket);
    const audience = new LimitAudience(who, bucket, this.request.bucketName);
    this.#audience = audience;
    if (!rooms.rates.isEmpty) {
      const { exchange } = this;
      const terms = { who, waits: price === 'free', audience, exchange };
      this.#entered = await enterAtRate(rooms.rates, charged, terms);
    }
    this.#budget = new Budget(rooms.desk, { who: charged, price, book, audience });
    this.exchange.budget = this.#budget;
    if (reserves) this.#budget.expect(ask);
    else await this.#budget.reserve(ask);
  }

  /**
   * Has a part of what it asks for wait its turn, as a request of its own would, until `byMs` at most;
   * null: it may go on. Throws `Refusal` SlowDown.
   */
  countPart(byMs: number): Promise<void> | null {
    const { accounts = [] } = this.#entered ?? {};
    const { response, who } = this;
    const audience = () => this.#audience ?? new LimitAudience(who, null, null);
    const waitMsMax = Math.max(byMs - monotonicMs(), 0);
    return countPart(this.rooms.rates, accounts, { response, audience, waitMsMax });
  }

  /** What the bytes of both bodies have to go through; null: nothing slows them. */
  get shaped(): TimedStream | null {
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
    return this.#budget?.receive(this.exchange.bytesIn + bytes) ?? null;
  }

  /** Counts what a store over a network is asked for this operation. */
  tallyOf(store: number): StoreTally {
    this.#tallies ??= new StoreTallies(this.exchange.trace);
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
    const { bytesIn: ingressBytes, bytesOut: egressBytes } = this.exchange;
    return this.budget.charge({ ingressBytes, egressBytes }, storageClass ?? undefined);
  }

  /** Whom nothing was done for pays nothing, unless bytes were sent. */
  #pays(status: number, error: string | null): boolean {
    if (!this.#budget) return false;
    return this.exchange.bytesOut > 0 || (status < 500 && error !== 'QuotaExceeded');
  }

  /** Ends the connection of a client that is too slow while others wait for what it holds. */
  cut(): void {
    this.response.destroy();
  }

  /** What a record can say of the version that the request names: not what can be none. */
  get #askedVersion(): string | null {
    const { versionId } = this;
    return versionId !== undefined && isVersionId(versionId) ? versionId : null;
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
      bucket: this.found?.name ?? this.request.bucketName,
      bucketTenant: this.bucketTenant === tenant ? null : this.bucketTenant,
      key: this.request.key,
      versionId: this.#askedVersion,
      bucketOwner: charge?.who.bucket?.owner ?? null,
      bytesIn: charge?.transfer.ingressBytes ?? this.exchange.bytesIn,
      bytesOut: charge?.transfer.egressBytes ?? this.exchange.bytesOut,
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
