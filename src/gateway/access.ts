// May who asks do this? The one place where S3 operations are decided: by the grants, the bucket's
// policy and the requester's own rights, and then by what the request's credential leaves of them.
// Invariant: each decision is about the very bucket and key that are used afterwards.
import type { AccessRequest, RequestFacts } from '../authz/grants/access-request.ts';
import type { S3Action } from '../authz/grants/actions.ts';
import { type Decision, decideAccess } from '../authz/grants/decide.ts';
import { parsePolicy } from '../authz/grants/policy.ts';
import { type Rule, verdictOf } from '../authz/grants/rule.ts';
import type { Delegation, Identity } from '../authz/identity.ts';
import { writeRight } from '../authz/tokens/scope.ts';
import type { Bucket } from '../catalog/buckets.ts';
import { Refusal } from '../core/errors.ts';
import type { NamedBucket } from './bucket-lookup.ts';
import { namesOfBucket } from './bucket-lookup.ts';
import type { Rooms } from './context.ts';
import { isDelegated } from './delegated-rights.ts';
import { header, parameter, type S3Request } from './request.ts';

/** What is to be done, and with what. */
export interface Target {
  action: S3Action;
  /** The bucket as it was asked for, and as it was found; null: it is about none. */
  askedName: string | null;
  found: NamedBucket | null;
  key: string | null;
  /** Of a listing, the prefix that it shows. */
  listPrefix: string | null;
  /** Tags of the object that is there; asked for only where a rule depends on them. */
  loadTags?: () => Promise<ReadonlyMap<string, string>>;
}

const noTags: ReadonlyMap<string, string> = new Map();

export class Access {
  readonly #rooms: Pick<Rooms, 'grants'>;
  readonly #who: Identity;
  readonly #facts: RequestFacts;

  constructor(rooms: Pick<Rooms, 'grants'>, request: S3Request, who: Identity) {
    this.#rooms = rooms;
    this.#who = who;
    this.#facts = factsOf(request, who);
  }

  /** Throws `Refusal` AccessDenied unless who asks may do this. */
  async demand(target: Target): Promise<void> {
    const { delegation } = this.#who;
    if (delegation) checkScope(delegation, this.#who.principal.tenant, target);
    let request = this.#requestFor(target, target.loadTags ? undefined : noTags);
    let decision = this.#decide(request, target);
    if (decision.needsTags && target.loadTags) {
      request = this.#requestFor(target, await target.loadTags());
      decision = this.#decide(request, target);
    }
    if (!decision.allowed) throw new Refusal('AccessDenied', { cause: decision.reason });
    for (const policy of delegation?.policies ?? []) checkPolicy(policy, request);
  }

  /** The same as an answer. */
  async allows(target: Target): Promise<boolean> {
    try {
      await this.demand(target);
      return true;
    } catch (error) {
      if (error instanceof Refusal && error.code === 'AccessDenied') return false;
      throw error;
    }
  }

  /** Must a write of this key leave what is there? What a `create` scope allows never overwrites. */
  mustCreate(target: Target): boolean {
    const scope = this.#who.delegation?.scope;
    const { askedName, found, key } = target;
    if (!scope || askedName === null || !found || key === null) return false;
    const names = namesOfBucket(this.#who.principal.tenant, askedName, found);
    return !names.some((name) => writeRight(scope, name, key) === 'modify');
  }

  #decide(request: AccessRequest, { found }: Target): Decision {
    const policy = found?.bucket ? policyOf(found.bucket) : undefined;
    return decideAccess(this.#rooms.grants.index, request, policy);
  }

  #requestFor(target: Target, objectTags: RequestFacts['objectTags']): AccessRequest {
    const { principal, subjects, isAnonymous } = this.#who;
    const { found, action, key, listPrefix } = target;
    return {
      who: isAnonymous ? null : principal,
      subjects,
      action,
      tenant: found?.tenant ?? principal.tenant,
      bucket: found?.name ?? null,
      owner: found?.bucket?.owner ?? null,
      key,
      listPrefix,
      facts: { ...this.#facts, objectTags },
    };
  }
}

function factsOf(request: S3Request, who: Identity): RequestFacts {
  const versionId = parameter(request, 'versionId');
  return {
    timeMs: Date.now(),
    sourceAddress: request.source,
    isSecure: request.isSecure,
    headers: request.headers,
    query: request.query,
    versionId: versionId === undefined || versionId === 'null' ? null : versionId,
    copySource: header(request, 'x-amz-copy-source') ?? null,
    authentication: who.authentication,
    requestTags: noTags,
    objectTags: noTags,
  };
}

function checkScope({ scope }: Delegation, tenant: string, target: Target): void {
  if (scope === null) return;
  const { action, askedName, found, key, listPrefix } = target;
  const bucketNames = askedName === null || !found ? [] : namesOfBucket(tenant, askedName, found);
  if (isDelegated(scope, { action, bucketNames, key, listPrefix })) return;
  throw new Refusal('AccessDenied', {
    message: 'The scope of the token does not cover this request.',
  });
}

/** A session policy: what it does not allow, or denies, is refused. */
function checkPolicy(policy: readonly Rule[], request: AccessRequest): void {
  const applying = policy.filter((rule) => verdictOf(rule, request) === 'applies');
  if (applying.length > 0 && applying.every(({ effect }) => effect === 'allow')) return;
  throw new Refusal('AccessDenied', { message: 'The session policy does not allow this request.' });
}

/** A bucket that is cached keeps its policy compiled. */
const compiled = new WeakMap<Bucket, readonly Rule[]>();

/** The rules of a bucket's policy. */
export function policyOf(bucket: Bucket): readonly Rule[] | undefined {
  if (bucket.policy === null) return undefined;
  const kept = compiled.get(bucket);
  if (kept) return kept;
  const rules = parsePolicy(Buffer.from(bucket.policy), bucket);
  compiled.set(bucket, rules);
  return rules;
}
