// Who asks for what, and what of it they may do: the request, the bucket that it means, and the one way
// to a decision. Invariant: what is decided of a version is decided of the very one that is read.
import type { S3Action } from '../authz/grants/actions.ts';
import type { Identity } from '../authz/identity.ts';
import type { Bucket } from '../catalog/buckets.ts';
import type { Lock } from '../catalog/object-lock.ts';
import { type EvenlyFound, findNamedEvenly, type Tags, type Version } from '../catalog/versions.ts';
import { Refusal } from '../core/errors.ts';
import { principalId } from '../core/principal.ts';
import { Access, type Target } from './access.ts';
import type { NamedBucket } from './bucket-lookup.ts';
import type { SourceName } from './copy-source.ts';
import { checkWritten } from './delegated-rights.ts';
import { noTags, tagsOf } from './object-tags.ts';
import { isOwnCopy } from './own-copy.ts';
import { parameter, type S3Request } from './request.ts';
import type { Rooms } from './rooms.ts';

/** What the names of a request mean. */
export interface Places {
  /** Its bucket; null: it is about none. */
  found: NamedBucket | null;
  /** What it copies; null: nothing. */
  source: SourceName | null;
}

/** What of the request's own bucket is meant. */
type About = Partial<Omit<Target, 'action' | 'askedName' | 'found'>>;

const nothing: EvenlyFound = { version: undefined, tags: noTags };

export class AskedRights {
  readonly rooms: Rooms;
  readonly request: S3Request;
  #who: Identity;
  readonly #access: Access;
  /** IAM name of what is asked for, once the route is known. */
  action: S3Action | 's3:Unknown' = 's3:Unknown';
  /** The bucket that is meant; null: none. */
  protected found: NamedBucket | null = null;
  #source: SourceName | null = null;
  /** What the request gives to the object that it writes. */
  tags: Tags = noTags;
  /** The version by whose tags the request was decided; null: there was none. */
  #tagged: Version | null | undefined;
  /** The version that is read. */
  #read: Version | undefined;

  constructor(given: { rooms: Rooms; request: S3Request; who: Identity }) {
    this.rooms = given.rooms;
    this.request = given.request;
    this.#who = given.who;
    this.#access = new Access(given.rooms, given.request, given.who);
  }

  /** Who asks, as things were when that was last decided. */
  get who(): Identity {
    return this.#who;
  }

  /** When what it asks for was first decided, by the clock. */
  get askedMs(): number {
    return this.#access.askedMs;
  }

  /**
   * Decides again all that was decided, of who asks and of the buckets as they are now. Throws
   * `Refusal` AccessDenied, or NoSuchBucket where a name means another bucket than it did.
   */
  async decideAgain(now: Places & { who: Identity }): Promise<void> {
    const { who, found, source } = now;
    const before = { found: this.found, source: this.#source };
    checkSame(before.found, found, this.request.bucketName);
    checkSame(before.source?.found ?? null, source?.found ?? null, before.source?.askedName);
    this.#who = who;
    this.found = found;
    if (source) this.#source = source;
    await this.#access.demandAgain(who, (place) => {
      if (place === before.found) return found;
      return place === before.source?.found ? (source?.found ?? null) : place;
    });
  }

  /** What is asked for and about which bucket; null when it is about none. */
  concern(action: S3Action, found: NamedBucket | null): void {
    this.action = action;
    this.found = found;
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

  /** What is copied; null: nothing. */
  protected get copied(): SourceName | null {
    return this.#source;
  }

  /** The source that the operation's route promises. */
  get source(): SourceName {
    if (!this.#source) throw new Error('this operation has no source');
    return this.#source;
  }

  /** The tenant in whose namespace the request's bucket is, or would be. */
  get bucketTenant(): string {
    return this.found?.tenant ?? this.who.principal.tenant;
  }

  /** The bucket as the request named it, which is what its answer calls it. */
  get askedName(): string {
    if (this.request.bucketName === null) throw new Error('this operation has no bucket name');
    return this.request.bucketName;
  }

  /** The bucket's name in that namespace; the request may have used another. */
  get bucketName(): string {
    if (!this.found) throw new Error('this operation has no bucket name');
    return this.found.name;
  }

  /** The bucket that is asked for; null: it is not there, or the request is about none. */
  get foundBucket(): Bucket | null {
    return this.found?.bucket ?? null;
  }

  /** The bucket that the operation's route promises. */
  get bucket(): Bucket {
    const bucket = this.foundBucket;
    if (!bucket) throw new Error('this operation has no bucket');
    return bucket;
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

  /** In whose name memory is taken. */
  get party(): { tenant: string; principal: string } {
    return { tenant: this.tenant, principal: this.requester };
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

  /** The same where what is done rests on it, so that it is decided again with the rest. */
  async reliesOnKey(action: S3Action, about: About = {}): Promise<boolean> {
    const target = this.#keyTarget(action, about);
    const isAllowed = await this.mayReach(target);
    if (isAllowed) await this.#access.demand(target);
    return isAllowed;
  }

  /** The same for tags that are written: who may only create may create with tags. */
  authorizeTags(): Promise<void> {
    return this.authorizeKey('s3:PutObjectTagging', { wanted: 'create' });
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
    const key = about.key ?? this.key;
    target.key = key;
    // Who brings the version has said how to learn of it.
    if (about.loadTags) return target;
    const versionId = about.versionId ?? this.versionId;
    const load = async () => {
      const read = this.#read;
      if (read?.key === key) return { version: read, tags: tagsOf(read) };
      const bucket = this.foundBucket;
      const wanted = { key, versionId };
      const found = bucket ? await findNamedEvenly(this.rooms, bucket, wanted) : nothing;
      this.#tagged = found.version ?? null;
      return found;
    };
    return Object.assign(target, this.#learnOf(action, key, load));
  }

  /** What a decision may depend on of the version that is there. */
  #learnOf(action: S3Action, key: string, load: () => Promise<EvenlyFound>): About {
    const loadTags = async () => (await load()).tags;
    if (action !== 's3:GetObject') return { loadTags };
    return { loadTags, isOwnCopy: () => isOwnCopy(this, key, load) };
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
    return { askedName: this.request.bucketName, found: this.found, key: this.key };
  }

  /** The same for another bucket, as the request named it. */
  authorizeOther(target: Target): Promise<void> {
    return this.#access.demand(target);
  }

  /** The same as an answer. */
  mayReach(target: Target): Promise<boolean> {
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
    const askedName = this.request.bucketName;
    return { action, askedName, found: this.found, key: null, listPrefix: null, ...about };
  }
}

/** A bucket that is gone may not be replaced by another one of its name under a request's hands. */
function checkSame(
  before: NamedBucket | null,
  now: NamedBucket | null,
  asked: string | null | undefined,
): void {
  if (!before?.bucket || now?.bucket?.id === before.bucket.id) return;
  throw new Refusal('NoSuchBucket', { fields: { BucketName: asked ?? '' } });
}
