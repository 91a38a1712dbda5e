// Who asks for what, and what of it they may do: the request, the bucket that it means, and the one
// way to a decision. Invariant: what is decided of a version is decided of the very one that is
// read.
import type { S3Action } from '../../authz/grants/actions.ts';
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import type { Lock } from '../../catalog/object-lock.ts';
import type { EvenlyFound, Tags, Version } from '../../catalog/versions.ts';
import { monotonicMs } from '../../core/clock.ts';
import { type ErrorCode, Refusal } from '../../core/errors.ts';
import { principalId } from '../../core/principal.ts';
import { type RecordReads, recordReadsDefault } from '../../core/record-reads.ts';
import type { StageClock } from '../../instruments/stage-clock.ts';
import type { Commit, CommitResult } from '../../ledger/commit.ts';
import type { Decision } from '../../ledger/known-rights.ts';
import { parseQuery, type Query } from '../../search/query.ts';
import type { Exchange } from '../http/exchange.ts';
import type { RequestServices } from '../services.ts';
import { Access, type Target } from './access.ts';
import { findBucket, type NamedBucket } from './bucket-lookup.ts';
import { findSource, type SourceName } from './copy-source.ts';
import { checkWritten } from './delegated-rights.ts';
import { aclOf, noTags, tagsOf } from './objects/object-attributes.ts';
import { classHeader, findClass } from './objects/written-class.ts';
import type { AnyOperation } from './operation.ts';
import { isOwnCopy } from './own-copy.ts';
import { ProvenCommits, provenBy } from './proven-record.ts';
import { isRead, parameter, type S3Request } from './request.ts';
import { draftOf, noChange } from './request-record.ts';
import { findEvenly, type ShownSnapshot } from './snapshot-mount.ts';
import type { Identified, Recorded, Resource } from './stages.ts';

/** What of the request's own bucket is meant. */
type About = Partial<Omit<Target, 'action' | 'askedName' | 'found'>>;

const nothing: EvenlyFound = { version: undefined, tags: noTags };

export class AskedRequest implements Recorded {
  readonly services: RequestServices;
  request: S3Request;
  readonly exchange: Exchange;
  /** Where the time goes. */
  readonly clock: StageClock;
  readonly #identified: Pick<Identified, 'renew'>;
  readonly #access: Access;
  /** Who asks, as things were when that was last decided. */
  who: Identity;
  /**
   * The tenant of who asks. Without credentials it is the bucket's: who lets everybody in pays for
   * everybody, and has it in the records.
   */
  tenant: string;
  /** `tenant/name` of who asks. */
  requester: string;
  /** IAM name of what is asked for, once the route is known. */
  action: S3Action | 's3:Unknown' = 's3:Unknown';
  /** What its record calls that. */
  recordedAs: string = this.action;
  #resource: Resource = 'service';
  /** The bucket as the request named it, which is what its answer calls it. */
  readonly askedName: string | null;
  /** The bucket that is meant; null: none. */
  found: NamedBucket | null = null;
  /** The bucket's name in its tenant's namespace; the request may have used another. */
  bucketName: string | null = null;
  /** The tenant in whose namespace the request's bucket is, or would be. */
  bucketTenant: string;
  /** The bucket that is asked for; null: it is not there, or the request is about none. */
  bucket: Bucket | null = null;
  key: string | null;
  /** The version of it that the request names; undefined: the newest. */
  readonly versionId: string | undefined;
  /** What is copied; null: nothing. */
  source: SourceName | null = null;
  /** What the request gives to the object that it writes. */
  tags: Tags = noTags;
  /** The bytes of its body, without frames, as the pipeline found its headers to say. */
  bodyBytes = 0;
  /** The version by whose tags the request was decided; null: there was none. */
  #tagged: Version | null | undefined;
  /** The version that is read. */
  #read: Version | undefined;
  /** The epoch of rights by which it was decided. */
  #epoch: number;
  /** What is decided anew. */
  #deciding: Promise<void> | null = null;
  #decidedMs = 0;
  #where: Query | null = null;
  /** null: nothing was committed of what the client signed with a key of its own. */
  #proven: ProvenCommits | null = null;

  /** `epoch`: of the rights, as it was before anything was read to decide by. */
  constructor(
    services: RequestServices,
    exchange: Exchange,
    identified: Identified,
    epoch: number,
  ) {
    const { request, who } = identified;
    this.services = services;
    this.request = request;
    this.exchange = exchange;
    this.clock = exchange.clock;
    this.#identified = identified;
    this.#epoch = epoch;
    this.who = who;
    this.tenant = who.principal.tenant;
    this.requester = who.principal.id;
    this.bucketTenant = who.principal.tenant;
    this.askedName = request.bucketName;
    this.key = request.key;
    this.versionId = request.query.length === 0 ? undefined : parameter(request, 'versionId');
    this.#access = new Access(services, request, who, exchange);
  }

  /** What is asked for. */
  concern({ action, versionAction, resource, recordedAs }: AnyOperation): void {
    this.action = versionAction && this.versionId !== undefined ? versionAction : action;
    this.recordedAs = recordedAs ?? this.action;
    this.#resource = resource;
  }

  /** What its names mean; null where it is about no bucket. */
  place(found: NamedBucket | null): void {
    const { isAnonymous, principal } = this.who;
    this.found = found;
    this.bucket = found?.bucket ?? null;
    this.bucketName = found?.name ?? null;
    this.bucketTenant = found?.tenant ?? principal.tenant;
    if (this.request.headers[classHeader] !== undefined) this.#learnClass();
    if (!isAnonymous) return;
    this.tenant = this.bucketTenant;
    this.requester = principalId(this.tenant, principal.name);
  }

  /** Rules are asked of the class that is meant: another alias of it gets around none. */
  #learnClass(): void {
    const { request, services } = this;
    const found = findClass(services, this.bucketTenant, request);
    if (found) this.#access.learn({ headers: { ...request.headers, [classHeader]: found.name } });
  }

  /**
   * Another key of its bucket is asked for in its place, as the bucket's website says. That has to
   * be decided.
   */
  turnTo(request: S3Request): void {
    this.request = request;
    this.key = request.key;
  }

  /** The snapshot that the bucket's name stands for; undefined: the bucket as it is. */
  get at(): ShownSnapshot | undefined {
    return this.found?.at;
  }

  /**
   * The query that the bucket's name stands for; null: all of it. Throws `Refusal` InvalidInput for
   * one that another release took.
   */
  get where(): Query | null {
    const { where } = this.found ?? {};
    if (where === undefined) return null;
    this.#where ??= parseQuery(where, this.askedMs);
    return this.#where;
  }

  /** When it was asked, by the clock. */
  get askedMs(): number {
    return this.#access.askedMs;
  }

  /** The epoch of rights by which the request was decided. */
  get epoch(): number {
    return this.#epoch;
  }

  /**
   * While bytes come or go: null where no right was taken away since the request was decided, or
   * that was asked a moment ago. Else it is asked; rejects with `Refusal` where it may not go on.
   */
  reconsider(intervalMs = 0): Promise<unknown> | null {
    if (this.#epoch === this.services.ledger.rights.epoch) return null;
    if (intervalMs > 0 && monotonicMs() - this.#decidedMs < intervalMs) return null;
    return this.decideAnew();
  }

  /** The same of a download that is under way, where these are cut. */
  reconsiderDownload(): Promise<unknown> | null {
    return this.services.cutsRevoked ? this.reconsider() : null;
  }

  /** Decides by what is known now; gives the epoch of that. Rejects with `Refusal`. */
  async decideAnew(): Promise<number> {
    this.#deciding ??= this.#decideAgain().finally(() => {
      this.#deciding = null;
    });
    await this.#deciding;
    return this.#epoch;
  }

  /**
   * Decides again all that was decided, of who asks and of the buckets as they are now. Throws
   * `Refusal` AccessDenied, or NoSuchBucket where a name means another bucket than it did.
   */
  async #decideAgain(): Promise<void> {
    const { epoch } = this.services.ledger.rights;
    this.#decidedMs = monotonicMs();
    const who = await this.#identified.renew(this.#access.askedMs);
    const { services, request } = this;
    const found = await findBucket(services, request, this.who, this.#resource);
    const source = await findSource(services, request, this.who, this.#resource);
    const before = { found: this.found, source: this.source };
    checkSame(before.found, found, this.askedName);
    checkSame(before.source?.found ?? null, source?.found ?? null, before.source?.askedName);
    this.who = who;
    this.place(found);
    if (source) this.source = source;
    await this.#access.demandAgain(who, (place) => {
      if (place === before.found) return found;
      return place === before.source?.found ? (source?.found ?? null) : place;
    });
    this.#epoch = epoch;
  }

  /**
   * To be called after something was read as of a snapshot. What a deleted snapshot held is let go
   * of soon, and from then on a read finds an older version, or none: what was read is good if the
   * snapshot was there afterwards. Throws `Refusal` NoSuchBucket.
   */
  async checkShown(): Promise<void> {
    const { services, request, who, found, source } = this;
    const following = services.ledger.follow();
    if (following) await following;
    if (found?.at) {
      checkSame(found, await findBucket(services, request, who, this.#resource), this.askedName);
    }
    if (source?.found.at) {
      const now = await findSource(services, request, who, this.#resource);
      checkSame(source.found, now?.found ?? null, source.askedName);
    }
  }

  /** What is written besides bytes: tags, and what a copy is made of. */
  bring(tags: Tags, source: SourceName | null): void {
    this.tags = tags;
    this.source = source;
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

  /** Throws `Refusal` AccessDenied unless who asks may do this with the request's own bucket. */
  authorize(action: S3Action, about: About = {}): Promise<void> {
    return this.#access.demand(this.#targetOf(action, about));
  }

  /** The same with a key, the request's own; rules may depend on the tags of what is there. */
  authorizeKey(action: S3Action, about: About = {}): Promise<void> {
    return this.#access.demand(this.#keyTarget(action, about));
  }

  /** The same as an answer. */
  mayReachKey(action: S3Action, about: About = {}): boolean | Promise<boolean> {
    return this.mayReach(this.#keyTarget(action, about));
  }

  /** The same where what is done rests on it, so that it is decided again with the rest. */
  async reliesOnKey(action: S3Action, about: About = {}): Promise<boolean> {
    const target = this.#keyTarget(action, about);
    const isAllowed = await this.mayReach(target);
    if (isAllowed) await this.#access.demand(target);
    return isAllowed;
  }

  /** The same for tags that are written: who may only create may create with tags. */
  authorizeTags(): Promise<void> {
    return this.authorizeKey('s3:PutObjectTagging', { wanted: 'create', isWritten: true });
  }

  /**
   * Null: the version that is about to be read may be. Otherwise that is decided by its own tags,
   * since by tags the request was; rejects with `Refusal` AccessDenied.
   */
  admitVersion(version: Version): Promise<void> | null {
    this.#read = version;
    const tagged = this.#tagged;
    if (tagged === undefined) return null;
    if (tagged?.seq === version.seq && tagged.attributes === version.attributes) return null;
    const action = this.action as S3Action;
    return this.authorizeKey(
      action,
      this.#learnOf(action, version.key, async () => ({ version, tags: tagsOf(version) })),
    );
  }

  #keyTarget(action: S3Action, about: About): Target {
    const target = this.#targetOf(action, about);
    const key = about.key ?? this.key ?? '';
    target.key = key;
    // Who brings the version has said how to learn of it.
    if (about.loadTags) return target;
    const versionId = about.versionId ?? this.versionId;
    const load = async () => {
      const read = this.#read;
      if (read?.key === key) return { version: read, tags: tagsOf(read) };
      const { bucket } = this;
      const wanted = { key, versionId };
      const found = bucket ? await findEvenly(this.services, bucket, wanted, this.at) : nothing;
      this.#tagged = found.version ?? null;
      return found;
    };
    return Object.assign(target, this.#learnOf(action, key, load));
  }

  /** What a decision may depend on of the version that is there. */
  #learnOf(action: S3Action, key: string, load: () => Promise<EvenlyFound>): About {
    const loadTags = async () => (await load()).tags;
    const loadAcl = async () => aclOf((await load()).version);
    if (action !== 's3:GetObject') return { loadTags, loadAcl };
    return { loadTags, loadAcl, isOwnCopy: () => isOwnCopy(this, key, load) };
  }

  /**
   * The answer for a key that is not there, the request's own or another. As on S3, only who may
   * list where it would be learns that it is not.
   */
  async missingKey(
    { askedName, found, key }: Pick<Target, 'askedName' | 'found' | 'key'> = this,
  ): Promise<Refusal> {
    const place = { askedName, found, key: null, listPrefix: key, wanted: 'stat' } as const;
    const action = found?.at ? 's3:ListBucketVersions' : 's3:ListBucket';
    if (!(await this.mayReach({ action, ...place }))) {
      return new Refusal('AccessDenied');
    }
    return new Refusal('NoSuchKey', { fields: { Key: key ?? '' } });
  }

  /** The same for another bucket, as the request named it. */
  authorizeOther(target: Target): Promise<void> {
    return this.#access.demand(target);
  }

  /** The same as an answer. */
  mayReachEveryKey(target: Target): boolean {
    return this.#access.allowsEveryKey(target);
  }

  mayReach(target: Target): boolean | Promise<boolean> {
    return this.#access.allows(target);
  }

  /** Could who asks write this key of the request's own bucket, if not as the request is? */
  couldWrite(key: string): boolean {
    return this.#access.couldDo(this.#targetOf('s3:PutObject', { key }));
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
    return {
      action,
      askedName: this.askedName,
      found: this.found,
      key: null,
      listPrefix: null,
      ...about,
    };
  }

  /** Is there a record of it? */
  get isRecorded(): boolean {
    return this.exchange.index !== null;
  }

  /**
   * Must this read be recorded before its last byte is sent? Not where a stranger is refused: that
   * it took longer would tell them that there is such a bucket.
   */
  get isStrictRead(): boolean {
    const mayKnow = this.who.principal.tenant === this.bucketTenant;
    return isRead(this.request) && mayKnow && this.recordReads === 'strict';
  }

  /** How reads of its bucket are recorded. */
  get recordReads(): RecordReads {
    const ofTenant = this.services.readRecording.tenants.get(this.bucketTenant);
    return this.bucket?.recordReads ?? ofTenant ?? recordReadsDefault;
  }

  /** Shall a record of what costs nothing be one with others? What is charged has its own. */
  mustFold(): boolean {
    return this.services.folding.mustFold(this.requester, this.tenant);
  }

  /** Records that it was refused before anything was set aside for it. */
  record(status: number, error: string | null): Promise<unknown> | null {
    const { record, evidence } = provenBy(this.who.signed, draftOf(this, { status, error }));
    const commit: Commit = { change: noChange, charge: null, backend: null, record };
    if (evidence) commit.evidence = evidence;
    if (this.mustFold()) commit.folds = true;
    return this.services.ledger.record(commit);
  }

  /** The same, durable before it resolves; gives why it could not be recorded, else null. */
  async recordNow(status: number, error: string | null): Promise<ErrorCode | null> {
    const record = draftOf(this, { status, error });
    const before = this.clock.enter('commit');
    try {
      const folds = this.mustFold();
      const result = await this.commit({ change: noChange, charge: null, record, folds }, null);
      if (result.index !== null) this.exchange.index = result.index;
      return result.ok ? null : result.code;
    } finally {
      this.clock.enter(before);
    }
  }

  /**
   * Commits what is done for the request; where `decision` says by what that was decided, it is
   * decided again when it is outdated.
   */
  commit(commit: Commit, decision: Decision | null): Promise<CommitResult> {
    const { ledger } = this.services;
    if (this.who.signed) this.#proven ??= new ProvenCommits(ledger, this.who.signed);
    const ways = this.#proven ?? ledger;
    if (!decision) return ways.commit(commit);
    return ledger.rights.commit((one) => ways.commit(one), commit, decision);
  }
}

/**
 * A bucket that is gone may not be replaced by another one of its name under a request's hands, nor
 * one snapshot by another.
 */
function checkSame(
  before: NamedBucket | null,
  now: NamedBucket | null,
  asked: string | null | undefined,
): void {
  const isSame =
    now?.bucket?.id === before?.bucket?.id &&
    now?.at?.seq === before?.at?.seq &&
    now?.where === before?.where;
  if (!before?.bucket || isSame) return;
  throw new Refusal('NoSuchBucket', { fields: { BucketName: asked ?? '' } });
}
