// May who asks do this? The one place where S3 operations are decided: by the grants, the bucket's
// policy and the requester's own rights, and then by what the request's credential leaves of them.
// Invariant: each decision is about the very bucket and key that are used afterwards.
import type { AccessRequest, RequestFacts } from '../../authz/grants/access-request.ts';
import { parseActions, type S3Action } from '../../authz/grants/actions.ts';
import {
  agreeOnAll,
  allowsEveryKey,
  couldBeAllowed,
  type Decision,
  decideAccess,
  decideBriefly,
} from '../../authz/grants/decide.ts';
import { parsePolicy } from '../../authz/grants/policy.ts';
import { type Rule, verdictOf } from '../../authz/grants/rule.ts';
import { anyone } from '../../authz/grants/subjects.ts';
import type { Delegation, Identity } from '../../authz/identity.ts';
import { type Wanted, writeRight } from '../../authz/tokens/scope.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import type { Tags } from '../../catalog/versions.ts';
import { type Acl, aclGives, type Permission } from '../../core/acl.ts';
import { Refusal } from '../../core/errors.ts';
import type { Exchange } from '../http/exchange.ts';
import type { RequestServices } from '../services.ts';
import type { NamedBucket } from './bucket-lookup.ts';
import { namesOfBucket } from './bucket-lookup.ts';
import { allowsAcls } from './buckets/acl.ts';
import { isShutOut } from './buckets/public-access.ts';
import { isDelegated } from './delegated-rights.ts';
import { requestedLock } from './objects/object-lock.ts';
import { parameter, type S3Request } from './request.ts';

/** What is to be done, and with what. */
export interface Target {
  action: S3Action;
  /** The bucket as it was asked for, and as it was found; null: it is about none. */
  askedName: string | null;
  found: NamedBucket | null;
  key: string | null;
  /** The version that is meant, where that is not what the request's `versionId` says. */
  versionId?: string | undefined;
  /** Of one in a list to delete: the entity tag that it must have; null: any, or none. */
  ifMatch?: string | null;
  /** One of many, which whoever asks decides again by itself. */
  isOneOfMany?: true;
  /** Of a listing, the prefix that it shows. */
  listPrefix: string | null;
  /** Tags of the object that is there; asked for only where a rule depends on them. */
  loadTags?: () => Promise<Tags>;
  /** What a scope must allow, where that is less than the action's name stands for. */
  wanted?: Wanted;
  /** Of an upload: who began it may list and abort it, unless a rule denies that. */
  isInitiator?: boolean;
  /** The access control list of the object that is there; of an action that it can give. */
  loadAcl?: () => Promise<Acl | undefined>;
  /** The list, or the tags, that are asked for are of an object which is written with them. */
  isWritten?: true;
  /** Of a read: whether it is of a copy that who asks has made, and may read the source of. */
  isOwnCopy?: () => Promise<boolean>;
}

/** What decisions depend on, of a request. */
export type AskedFacts = Pick<S3Request, 'source' | 'isSecure' | 'headers' | 'query'>;

const noTags: ReadonlyMap<string, string> = new Map();

type Told = Pick<Exchange, 'rule' | 'ruleTenant'>;

export class Access {
  readonly #services: Pick<RequestServices, 'buckets' | 'grants'>;
  #who: Identity;
  #facts: RequestFacts;
  /** Is told what let the request in, or refused it. */
  readonly #told: Told | null;
  /** What decided last. */
  #by = '';
  /** All that was demanded and allowed: what is done for the request rests on it. */
  readonly #allowed: { target: Target; facts: RequestFacts }[] = [];

  constructor(
    services: Pick<RequestServices, 'buckets' | 'grants'>,
    request: AskedFacts,
    who: Identity,
    told: Told | null = null,
  ) {
    this.#services = services;
    this.#told = told;
    this.#who = who;
    this.#facts = factsOf(request, who);
  }

  /** What only the operation knows of the request. */
  learn(
    facts: Partial<Pick<RequestFacts, 'requestTags' | 'copySource' | 'lock' | 'headers'>>,
  ): void {
    this.#facts = { ...this.#facts, ...facts };
  }

  /**
   * Throws `Refusal` AccessDenied unless who asks may do this, which is what the request asks.
   * Neither that nor its time tells whether the bucket is there.
   */
  async demand(target: Target): Promise<void> {
    const facts = this.#facts;
    try {
      const deciding = this.#demand(target, facts);
      if (deciding) await deciding;
    } catch (error) {
      this.#tell(target);
      const { found } = target;
      if (found) await this.#services.buckets.levelRefusal(found.tenant, found.name);
      throw error;
    }
    if (target.isOneOfMany) return;
    if (this.#allowed.length === 0) this.#tell(target);
    this.#allowed.push({ target, facts });
  }

  #tell({ found }: Target): void {
    if (!this.#told) return;
    this.#told.rule = this.#by;
    this.#told.ruleTenant = found?.tenant ?? this.#who.principal.tenant;
  }

  /** When what is decided began, by the clock. */
  get askedMs(): number {
    return this.#facts.timeMs;
  }

  /**
   * Demands again all that was allowed, of who asks as things are now. `placeOf`: a bucket as it is
   * now. Throws as `demand` does.
   */
  async demandAgain(
    who: Identity,
    placeOf: (found: Target['found']) => Target['found'],
  ): Promise<void> {
    this.#who = who;
    for (const { target, facts } of this.#allowed) {
      target.found = placeOf(target.found);
      await this.#demand(target, facts);
    }
  }

  /**
   * Whether who asks may do this, which the request does not ask. A promise only where that depends
   * on what is to be read: who asks for many need not wait for each.
   */
  allows(target: Target): boolean | Promise<boolean> {
    const { listPrefix } = target;
    const query = listPrefix === null ? [] : [['prefix', listPrefix] as const];
    try {
      const deciding = this.#demand(target, { ...this.#facts, query });
      return deciding === null ? true : deciding.then(() => true, isNotDenied);
    } catch (error) {
      return isNotDenied(error);
    }
  }

  /**
   * Whether who asks may surely do this with every key of the bucket, whatever its tags: no rule
   * that looks at these lets them, or might not. `target` names a key that nobody else does. What
   * the scope of a token leaves is not asked here.
   */
  allowsEveryKey(target: Target): boolean {
    const { index } = this.#services.grants;
    const request = this.#requestFor(target, { ...this.#facts, query: [] }, undefined);
    if (!allowsEveryKey(index, request, policyOf(target.found?.bucket))) return false;
    const policies = this.#who.delegation?.policies ?? [];
    return policies.every((policy) => agreeOnAll(policy, request));
  }

  /**
   * Could who asks do this in another request? Whatever the credential leaves them of their rights.
   */
  couldDo(target: Target): boolean {
    const request = this.#requestFor(target, this.#facts, undefined);
    return couldBeAllowed(this.#services.grants.index, request, policyOf(target.found?.bucket));
  }

  /**
   * Must a write of this key leave what is there? What a `create` scope allows never overwrites.
   */
  mustCreate(target: Target): boolean {
    const scope = this.#who.delegation?.scope;
    const { askedName, found, key } = target;
    if (!scope || askedName === null || !found || key === null) return false;
    const names = namesOfBucket(this.#who.principal.tenant, askedName, found);
    return !names.some((name) => writeRight(scope, name, key) === 'modify');
  }

  /** A promise only where that depends on what is to be read. */
  #demand(target: Target, facts: RequestFacts): Promise<void> | null {
    const { delegation, principal } = this.#who;
    if (delegation) {
      this.#by = 'token';
      checkScope(delegation, principal.tenant, target);
    }
    const { loadTags } = target;
    const request = this.#requestFor(target, facts, loadTags ? undefined : noTags);
    const { index } = this.#services.grants;
    const decision = decideBriefly(index, request, policyOf(target.found?.bucket));
    const policies = delegation?.policies ?? [];
    if (loadTags && (decision.needsTags || policies.some((one) => needsTags(one, request)))) {
      return this.#demandByTags(target, facts, loadTags);
    }
    this.#by = decision.by;
    if (!decision.allowed) return this.#admit(target, facts, decision);
    this.#checkPolicies(request);
    return null;
  }

  async #demandByTags(
    target: Target,
    facts: RequestFacts,
    loadTags: () => Promise<Tags>,
  ): Promise<void> {
    const tags = new Map(await loadTags());
    const request = this.#requestFor(target, facts, tags);
    const { index } = this.#services.grants;
    const decision = decideBriefly(index, request, policyOf(target.found?.bucket));
    this.#by = decision.by;
    await this.#admit(target, facts, decision, tags);
  }

  /**
   * Throws `Refusal` AccessDenied unless it is allowed; or else no rule denies it, and who asks has
   * made what it is about, or a list lets them in.
   */
  async #admit(
    target: Target,
    facts: RequestFacts,
    { allowed, by, reason }: Decision,
    tags?: RequestFacts['objectTags'],
  ): Promise<void> {
    const denied = new Refusal('AccessDenied', { cause: reason });
    if (!allowed) {
      if (by !== 'default') throw denied;
      if (await this.#isMakers(target)) this.#by = 'maker';
      else if (await this.#isListed(target)) this.#by = 'acl';
      else throw denied;
    }
    // What denies may depend on tags that were not needed until now.
    const loaded = tags ?? new Map((await target.loadTags?.()) ?? []);
    const request = this.#requestFor(target, facts, loaded);
    if (!allowed) {
      const { by: now } = this.#decideWholly(request, target);
      if (now !== 'default') {
        this.#by = now;
        throw denied;
      }
    }
    this.#checkPolicies(request);
  }

  /** Throws `Refusal` AccessDenied unless what narrows the credential allows it, too. */
  #checkPolicies(request: AccessRequest): void {
    const policies = this.#who.delegation?.policies ?? [];
    if (policies.length === 0) return;
    const by = this.#by;
    this.#by = 'session-policy';
    for (const policy of policies) checkPolicy(policy, request);
    this.#by = by;
  }

  /** Has who asks made what this is about? */
  async #isMakers({ isInitiator, isOwnCopy }: Target): Promise<boolean> {
    return isInitiator ?? (await isOwnCopy?.()) ?? false;
  }

  /** By all rules: `default` where none of them speaks of this. */
  #decideWholly(request: AccessRequest, { found }: Target): Decision {
    const { index } = this.#services.grants;
    return decideAccess(index, request, policyOf(found?.bucket));
  }

  async #isListed(target: Target): Promise<boolean> {
    const { principal, isAnonymous } = this.#who;
    const ignoresPublic = target.found?.bucket?.publicAccess?.ignorePublicAcls ?? false;
    return isListed(target, { id: isAnonymous ? null : principal.id, ignoresPublic });
  }

  #requestFor(
    target: Target,
    facts: RequestFacts,
    objectTags: RequestFacts['objectTags'],
  ): AccessRequest {
    const { principal, subjects, isAnonymous } = this.#who;
    const { found, action, key, listPrefix } = target;
    const who = isAnonymous ? null : principal;
    const { versionId = facts.versionId, ifMatch } = target;
    const { headers } = facts;
    return {
      who,
      subjects,
      action,
      tenant: found?.tenant ?? principal.tenant,
      bucket: found?.name ?? null,
      owner: found?.bucket?.owner ?? null,
      key,
      listPrefix,
      isShutOut: found?.bucket?.publicAccess ? isShutOut(found.bucket, who) : false,
      facts: {
        ...facts,
        versionId,
        objectTags,
        // In a list each has a condition of its own, as a header says it of one.
        headers: ifMatch === undefined ? headers : { ...headers, 'if-match': ifMatch ?? undefined },
      },
    };
  }
}

/** false: access is denied. Throws any other error. */
function isNotDenied(error: unknown): false {
  if (error instanceof Refusal && error.code === 'AccessDenied') return false;
  throw error;
}

// What permissions of lists stand for ("Access control list (ACL) overview" of the user guide).
const bucketPermissions: ReadonlyMap<S3Action, Permission> = new Map<S3Action, Permission>([
  ['s3:ListBucket', 'READ'],
  ['s3:ListBucketVersions', 'READ'],
  ['s3:ListBucketMultipartUploads', 'READ'],
  ['s3:PutObject', 'WRITE'],
  ['s3:DeleteObject', 'WRITE'],
  ['s3:GetBucketAcl', 'READ_ACP'],
  ['s3:PutBucketAcl', 'WRITE_ACP'],
]);
const objectPermissions: ReadonlyMap<S3Action, Permission> = new Map<S3Action, Permission>([
  ['s3:GetObject', 'READ'],
  ['s3:GetObjectVersion', 'READ'],
  ['s3:GetObjectAcl', 'READ_ACP'],
  ['s3:GetObjectVersionAcl', 'READ_ACP'],
  ['s3:PutObjectAcl', 'WRITE_ACP'],
  ['s3:PutObjectVersionAcl', 'WRITE_ACP'],
]);

type ListedTarget = Pick<Target, 'action' | 'found' | 'loadAcl' | 'isWritten'>;

/**
 * Does a list of the bucket, or of the object that is there, let somebody in? Not through a
 * snapshot, which has the lists of its time. Whom the bucket's list lets write says the list and
 * the tags of what they write.
 */
export async function isListed(
  { action, found, loadAcl, isWritten }: ListedTarget,
  who: Parameters<typeof aclGives>[2],
): Promise<boolean> {
  const bucket = found?.bucket;
  if (!bucket || found.at || !allowsAcls(bucket.ownership)) return false;
  const given = isWritten ? 'WRITE' : bucketPermissions.get(action);
  const permission = given ?? objectPermissions.get(action);
  if (!permission) return false;
  const acl = given ? bucket.publicAccess?.acl : await loadAcl?.();
  return aclGives(acl ?? [], permission, who);
}

function factsOf(request: AskedFacts, who: Identity): RequestFacts {
  return {
    timeMs: Date.now(),
    sourceAddress: request.source,
    isSecure: request.isSecure,
    headers: request.headers,
    query: request.query,
    versionId: request.query.length === 0 ? null : (parameter(request, 'versionId') ?? null),
    copySource: null,
    authentication: who.authentication,
    requestTags: noTags,
    objectTags: noTags,
    lock: requestedLock(request),
  };
}

function checkScope({ scope }: Delegation, tenant: string, target: Target): void {
  if (scope === null) return;
  const { askedName, found } = target;
  const bucketNames = askedName === null || !found ? [] : namesOfBucket(tenant, askedName, found);
  if (isDelegated(scope, { ...target, bucketNames })) return;
  throw new Refusal('AccessDenied', {
    message: 'The scope of the token does not cover this request.',
  });
}

function needsTags(policy: readonly Rule[], request: AccessRequest): boolean {
  return policy.some((rule) => verdictOf(rule, request) === 'needs tags');
}

/** A session policy: what it does not allow, or denies, is refused. */
function checkPolicy(policy: readonly Rule[], request: AccessRequest): void {
  const applying = policy.filter((rule) => verdictOf(rule, request) === 'applies');
  if (applying.length > 0 && applying.every(({ effect }) => effect === 'allow')) return;
  throw new Refusal('AccessDenied', { message: 'The session policy does not allow this request.' });
}

/** A bucket that is cached keeps its policy compiled. */
const compiled = new WeakMap<Bucket, readonly Rule[]>();

/**
 * The rules of a bucket's policy. Of one that is not understood, which no request can have stored,
 * they deny everything: what it restricted cannot be known. Who may replace it still may.
 */
export function policyOf(bucket: Bucket | undefined): readonly Rule[] | undefined {
  if (!bucket || bucket.policy === null) return undefined;
  const kept = compiled.get(bucket);
  if (kept) return kept;
  const rules = readStored(bucket, bucket.policy);
  compiled.set(bucket, rules);
  return rules;
}

function readStored(bucket: Bucket, text: string): readonly Rule[] {
  try {
    return parsePolicy(Buffer.from(text), bucket);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return denyAll(bucket);
  }
}

function denyAll({ tenant, name }: Bucket): readonly Rule[] {
  // All but nothing.
  const keys = [] as const;
  return [
    {
      source: 'policy',
      name: 'not-understood',
      effect: 'deny',
      subjects: { names: [anyone], isExcept: false },
      actions: parseActions(['s3:*']),
      resource: { form: 'patterns', tenant, bucket: name, hasBucket: false, keys, isExcept: true },
      conditions: [],
    },
  ];
}
