// Native API: who may do what, and which rule says so. Invariants: it decides as requests are
// decided, by the same functions; only the admins of the tenant whose rules these are can ask, and
// the owner of a bucket about it; of another tenant's principals nothing is looked up, not even
// whether they are there; and an owner who is no admin is told of itself what it would find by
// asking for it, and of others what the bucket's policy and lists say.
import { isIP } from 'node:net';
import type { AccessRequest, RequestFacts } from '../../authz/grants/access-request.ts';
import {
  type Action,
  type BursarAction,
  isAction,
  isListing,
  isOfPart,
  levelsOf,
  type S3Action,
} from '../../authz/grants/actions.ts';
import {
  type Considered,
  type Decision,
  decideAccess,
  explainAccess,
} from '../../authz/grants/decide.ts';
import { GrantIndex } from '../../authz/grants/grant-index.ts';
import { subjectsOf } from '../../authz/grants/subjects.ts';
import { type Actor, anonymousIn } from '../../authz/identity.ts';
import { renderScope } from '../../authz/tokens/scope.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { findNamedEvenly } from '../../catalog/versions.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { defaultTenant, principalId } from '../../core/principal.ts';
import { accountsOf } from '../../quota/charge.ts';
import type { LimitedAccounts } from '../../quota/limited-accounts.ts';
import { isListed, policyOf } from '../s3/access.ts';
import { lookUpBucket, type NamedBucket } from '../s3/bucket-lookup.ts';
import { isShutOut } from '../s3/buckets/public-access.ts';
import { aclOf } from '../s3/objects/object-attributes.ts';
import type { Identity } from './deps.ts';
import { administers, mayBeOwners, type Reach, reachOf, requestOf } from './rights.ts';
import { type Call, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  closedObject,
  groups,
  type Json,
  kind,
  name,
  role,
  text,
  textOrNull,
  time,
} from './schemas.ts';

const tags = {
  type: 'object',
  additionalProperties: { type: 'string' },
  maxProperties: 50,
} as const;

interface Explanation {
  allowed: boolean;
  by: string;
  reason: string;
  considered: readonly object[];
  chargedTo: readonly string[];
  warnings: readonly string[];
}

const questionSchema = closedObject(
  {
    principal: {
      type: 'string',
      pattern: '^[^/]{1,63}/[^/]{1,63}$',
      description: '`cms/alice`; absent: who comes without credentials.',
    },
    groups: { ...groups, description: "Of another tenant's principal: the groups it is in." },
    action: text('`s3:GetObject`, `bursar:ListPrincipals`'),
    resource: text(
      '`bucket/key`, `tenant:bucket/key`, as the principal would name it; of a listing ' +
        'with its prefix; of a `bursar:` action the tenant, or of one about snapshots ' +
        '`tenant:bucket/prefix`.',
      { maxLength: 1200 },
    ),
    source: text('From this address; absent: from yours.'),
    secure: boolean('Over TLS? Absent: as this call.'),
    time: { ...time, description: 'At this time; absent: now.' },
    objectTags: { ...tags, description: 'Tags of the object that is there.' },
    requestTags: { ...tags, description: 'Tags that the request brings.' },
  },
  ['action'],
);
type Question = Json<typeof questionSchema>;

export const explainRoutes = routeTable([
  {
    method: 'POST',
    url: '/_/v1/explain',
    action: 'bursar:Explain',
    isReading: true,
    summary: 'Say whether a principal may do something, and which rule or right decides.',
    body: questionSchema,
    answer: answerObject({
      allowed: { type: 'boolean' },
      by: text(
        '`grant:NAME`, `policy:SID`, `acl`, `owner`, `admin`, `role`, `inactive`, ' +
          '`public-access-block`, `requester-pays`, or `default`: what holds for everybody.',
      ),
      reason: { type: 'string' },
      chargedTo: {
        type: 'array',
        items: { type: 'string' },
        description: 'Of what is about a bucket: the accounts that pay for it, but for tokens.',
      },
      considered: {
        type: 'array',
        description: 'The rules that were looked at.',
        items: {
          type: 'object',
          required: ['name', 'effect', 'verdict'],
          properties: {
            name: { type: 'string' },
            effect: { type: 'string' },
            verdict: { type: 'string' },
            condition: text('The first that does not hold.'),
          },
        },
      },
      warnings: {
        type: 'array',
        items: { type: 'string' },
        description: 'What was not looked at, since it is not the caller’s to know. In words.',
      },
    }),
    run: async (call) => {
      const question = call.body as Question;
      const { action } = question;
      if (!isAction(action)) throw invalid('action', `There is no action ${action}`);
      const { source } = question;
      if (source !== undefined && isIP(source) === 0) {
        throw invalid('source', `The source ${source} is no address`);
      }
      const actor = await findActor(call, question);
      if (actor === 'inactive') {
        const reason = 'the principal is not active';
        const none = { considered: [], chargedTo: [], warnings: [] };
        return { answer: { allowed: false, by: 'inactive', reason, ...none } };
      }
      return { answer: await explain(call, question, actor, action) };
    },
  },
]);

function invalid(field: string, message: string): Refusal {
  return new Refusal('InvalidInput', { message, fields: { field: `body.${field}` } });
}

interface Asker extends Actor {
  isAnonymous: boolean;
}

/**
 * The principal in question. Where the caller may not know the facts, those in the question are
 * taken.
 */
async function findActor(call: Call, question: Question): Promise<Asker | 'inactive'> {
  const { principal: id, groups: inGroups = [] } = question;
  if (id === undefined) return anonymousIn(defaultTenant);
  const [tenant = '', name = ''] = id.split('/');
  if (id === call.who.id) {
    if (inGroups.length > 0) throw invalid('groups', `The groups of ${id} are known`);
    return { principal: call.who, subjects: call.identity.subjects, isAnonymous: false };
  }
  if (!administers(call.who, tenant)) {
    const principal = { ...anonymousIn(tenant).principal, name, id };
    return { principal, subjects: subjectsOf(principal, inGroups), isAnonymous: false };
  }
  if (inGroups.length > 0) throw invalid('groups', `The groups of ${id} are known`);
  const actor = await call.deps.directory.findActor(id);
  if (actor) return { ...actor, isAnonymous: false };
  if (await call.deps.directory.readPrincipal(tenant, name)) return 'inactive';
  const tenantEntry = await call.deps.directory.readTenant(tenant);
  if (tenantEntry)
    throw new Refusal('NoSuchPrincipal', { message: `There is no principal ${id}.` });
  throw new Refusal('NoSuchTenant', { message: `There is no tenant ${tenant}.` });
}

async function explain(
  call: Call,
  question: Question,
  actor: Asker,
  action: Action,
): Promise<Explanation> {
  const [level] = levelsOf(action);
  if (level === 'tenant') return explainNative(call, question, actor, action as BursarAction);
  const { request, found } = await requestFor(call, question, actor, action as S3Action);
  const bucket = found?.bucket;
  const isAdmins = administers(call.who, request.tenant);
  const isSeen = isAdmins || actor.principal.id === call.who.id;
  const index = isSeen ? call.deps.grants.index : noGrants;
  const policy = bucket && policyOf(bucket);
  const { decision: decided, considered: all } = explainAccess(index, request, policy);
  const isLeftOpen = !isSeen && !decided.allowed && decided.by === 'default';
  const decision = isLeftOpen ? { ...decided, reason: notByPolicy } : decided;
  const considered = isAdmins ? all : shownToOwner(all);
  const warnings = isSeen ? [] : [notLookedAt];
  if (!bucket) return { ...explanationOf(decision), considered, chargedTo: [], warnings };
  const isOpen = () => decideAccess(index, { ...request, isShutOut: false }, policy).allowed;
  const whole =
    decision.allowed || decision.by !== 'default' || decision.needsTags
      ? explanationOf(decision)
      : ((await explainLists(call, found, request)) ??
        (request.isShutOut && isOpen() ? shutOut : explanationOf(decision)));
  const verdict = explainPayer(whole, request, bucket);
  const { limitedAccounts } = call.deps;
  const payers = chargedTo(actor, request, bucket, limitedAccounts);
  // Whether another writer has limits is not the owner's to know.
  const shown = isSeen ? payers : payers.filter((account) => !account.startsWith('writer:'));
  return { ...verdict, considered, chargedTo: shown, warnings };
}

const noGrants = new GrantIndex();
const notByPolicy = 'neither the policy of the bucket nor its lists allow it';
const notLookedAt =
  'roles, groups and the grants of the tenant were not looked at: these are its admins’ to see';

/** Grants that do not apply are the admins' to see. */
function shownToOwner(considered: readonly Considered[]): readonly Considered[] {
  return considered.filter(({ name: rule, verdict }) => {
    return verdict === 'applies' || !rule.startsWith('grant:');
  });
}

type Verdict = Omit<Explanation, 'considered' | 'chargedTo' | 'warnings'>;

/** Each account that pays for the request, but for tokens. */
function chargedTo(
  { principal, isAnonymous }: Asker,
  asked: AccessRequest,
  bucket: Bucket,
  limitedAccounts: LimitedAccounts,
) {
  const { tenant: home, name, owner } = bucket;
  const tenant = isAnonymous ? home : principal.tenant;
  const isAlone =
    bucket.publicAccess?.requesterPays === true && tenant !== home && readsOnly(asked.action);
  const isTenants = bucket.publicAccess?.tenantPays === true && readsOnly(asked.action);
  const spared = isTenants && ({ payer: 'tenant' } as const);
  const about = isAlone ? null : { tenant: home, name, owner, ...spared };
  const isUnder = about !== null && asked.key !== null;
  const writer = asked.action === 's3:PutObject' ? principalId(tenant, principal.name) : null;
  const limited = isUnder
    ? limitedAccounts.of({ tenant: home, bucket: name, key: asked.key, writer })
    : undefined;
  const who = { tenant, principal: principal.name, tokens: [], bucket: about, limited };
  return accountsOf(who);
}

function readsOnly(action: string): boolean {
  return /^s3:(?:Get|List|Head)/.test(action);
}

function explanationOf({ allowed, by, reason }: Decision): Verdict {
  return { allowed, by, reason };
}

const block = 'public-access-block';
const shutOut: Verdict = {
  allowed: false,
  by: block,
  reason: 'RestrictPublicBuckets: what lets everybody in lets in the own tenant alone',
};

/** What the lists of the bucket, or of the object, say; null: they let nobody in here. */
async function explainLists(
  { deps }: Call,
  found: NamedBucket & { bucket?: Bucket },
  { action, key, who }: AccessRequest,
): Promise<Verdict | null> {
  const { bucket } = found;
  if (!bucket) return null;
  const loadAcl = async () => {
    if (key === null) return undefined;
    return aclOf((await findNamedEvenly(deps, bucket, { key })).version);
  };
  const target = { action: action as S3Action, found, loadAcl };
  const id = who?.id ?? null;
  if (!(await isListed(target, { id, ignoresPublic: false }))) return null;
  const ignoresPublic = bucket.publicAccess?.ignorePublicAcls ?? false;
  if (await isListed(target, { id, ignoresPublic })) {
    return { allowed: true, by: 'acl', reason: 'an access control list allows it' };
  }
  const reason = 'IgnorePublicAcls: what lists give to everybody does not count';
  return { allowed: false, by: block, reason };
}

/** The same where who asks would have to pay. */
function explainPayer(
  verdict: Verdict,
  { who, tenant }: AccessRequest,
  { publicAccess }: Bucket,
): Verdict {
  if (!verdict.allowed || !publicAccess?.requesterPays || who?.tenant === tenant) return verdict;
  if (who) {
    const condition = 'if the request says that its requester pays (x-amz-request-payer)';
    return { ...verdict, reason: `${verdict.reason}, ${condition}` };
  }
  const reason = 'requesters pay, and without credentials nobody is known who could';
  return { allowed: false, by: 'requester-pays', reason };
}

/** The request that would be decided, and its bucket, where there is one. */
async function requestFor(
  call: Call,
  question: Question,
  actor: Asker,
  action: S3Action,
): Promise<{ request: AccessRequest; found: NamedBucket | null }> {
  const { principal, subjects, isAnonymous } = actor;
  const [level] = levelsOf(action);
  const { resource = '' } = question;
  const slash = resource.indexOf('/');
  const asked = slash < 0 ? resource : resource.slice(0, slash);
  const rest = slash < 0 ? '' : resource.slice(slash + 1);
  const isList = isListing(action);
  if ((level === 'service') !== (asked === '')) {
    const name = level === 'service' ? 'a bucket' : 'no bucket';
    throw invalid('resource', `The resource of ${action} names ${name}`);
  }
  if ((level === 'object') !== (rest !== '') && !isList) {
    const name = level === 'object' ? 'no key' : 'a key';
    throw invalid('resource', `The resource of ${action} names ${name}`);
  }
  // Only admins of the other tenant may learn what names stand for in its namespace.
  const own = call.who.tenant;
  const isKnown = administers(call.who, principal.tenant);
  const isNamed = isKnown || asked.includes(':') || principal.tenant === own;
  // Names of somebody's own are theirs and the admins' to know.
  const namer = isKnown || principal.id === call.who.id ? principal : { tenant: principal.tenant };
  const [, named = own] = /^([^:]*):/.exec(asked) ?? [];
  const isLookedUp = asked !== '' && isNamed && mayLookInto(call, named);
  const found = isLookedUp ? await lookUpBucket(call.deps, namer, asked) : null;
  const tenant = found?.tenant ?? (asked.includes(':') ? named : principal.tenant);
  const isAdmins = administers(call.who, tenant);
  if (!isAdmins && !owns(call, found)) {
    if (found) await call.deps.buckets.levelRefusal(found.tenant, found.name);
    const message =
      isNamed || asked === ''
        ? 'What decides there only the owner of the bucket and the admins of its tenant can see.'
        : `${asked} is taken as ${principal.id} names it, for a bucket of ${principal.tenant}: ` +
          `for one of ${own} write ${own}:${asked}.`;
    throw new Refusal('AccessDenied', { message });
  }
  if (!isAdmins) refuseInvented(question);
  const listPrefix = isList ? rest : null;
  const who = isAnonymous ? null : principal;
  const request: AccessRequest = {
    ...{ who, subjects, action, tenant, isShutOut: isShutOut(found?.bucket, who) },
    ...{ bucket: found?.name ?? null, owner: found?.bucket?.owner ?? null },
    ...{ key: level === 'object' ? rest : null, listPrefix },
    facts: factsFor(call, question, listPrefix),
  };
  return { request, found };
}

/** What lies in other tenants is refused before it is looked up. */
function mayLookInto({ who }: Call, tenant: string): boolean {
  return tenant === who.tenant || administers(who, tenant);
}

function owns({ who }: Call, found: NamedBucket | null): boolean {
  return found?.tenant === who.tenant && found.bucket?.owner === who.name;
}

/** `cms:raw/2026/`: the keys of a bucket that begin with a prefix. */
const partForm = /^(?<tenant>[^:/]+):(?<bucket>[^/]+)(?:\/(?<prefix>.*))?$/s;

/** For the native API: the rights of the role, and what grants add to them and take away. */
async function explainNative(
  call: Call,
  question: Question,
  actor: Asker,
  action: BursarAction,
): Promise<Explanation> {
  const resource = question.resource ?? actor.principal.tenant;
  const isPlace = isOfPart(action) || mayBeOwners(action);
  const ofPart = isPlace ? partForm.exec(resource)?.groups : undefined;
  const { tenant = resource, bucket, prefix = '' } = ofPart ?? {};
  const part = bucket === undefined ? undefined : { bucket, prefix };
  const { directory, grants } = call.deps;
  const { principal, subjects, isAnonymous } = actor;
  const isAdmins = administers(call.who, tenant);
  const isOfBucket = mayLookInto(call, tenant) && bucket !== undefined && mayBeOwners(action);
  const owner = isOfBucket ? ((await call.deps.buckets.find(tenant, bucket))?.owner ?? null) : null;
  const isOwners = tenant === call.who.tenant && owner === call.who.name;
  if (!isAdmins && !(isOwners && principal.id === call.who.id)) {
    if (tenant !== call.who.tenant) throw new Refusal('NoSuchTenant');
    if (isOfBucket) await call.deps.buckets.levelRefusal(tenant, bucket);
    const message =
      'That only admins can ask, and the owner of a bucket of itself, as of TENANT:BUCKET.';
    throw new Refusal('AccessDenied', { message });
  }
  if (!isAdmins) refuseInvented(question);
  if (!(await directory.readTenant(tenant))) throw new Refusal('NoSuchTenant');
  const none = { chargedTo: [], warnings: [] };
  if (isAnonymous) {
    const reason = 'the native API takes nobody without credentials';
    return { allowed: false, by: 'default', reason, considered: [], ...none };
  }
  const facts = factsFor(call, question, null);
  const who = { principal, subjects, delegation: null };
  const addressed = { tenant, principal: undefined, part };
  const { reach, by } = reachOf({ who, action, addressed, owner, facts }, grants.index);
  const request: AccessRequest = requestOf(principal, subjects, action, addressed, facts);
  const { considered: all } = explainAccess(grants.index, request);
  const considered = isAdmins ? all : shownToOwner(all);
  const isDenied = reach === 'none' && by !== 'role';
  const allowedWords = by === 'owner' ? 'the owner of the bucket' : reachWords[reach];
  const reason = isDenied ? 'a rule denies it' : allowedWords;
  return { allowed: reach !== 'none', by, reason, considered, ...none };
}

const reachWords: Record<Reach, string> = {
  all: 'in every tenant',
  tenant: 'in the whole tenant',
  self: 'on what is its own',
  none: 'nothing allows it',
};

/** By what is not so, whoever is no admin could find out from where and when grants deny. */
function refuseInvented({ source, secure, time }: Question): void {
  const given = Object.entries({ source, secure, time }).find(([, value]) => value !== undefined);
  if (given)
    throw invalid(given[0], 'Only admins can ask what would be elsewhere or at other times');
}

function factsFor(call: Call, question: Question, listPrefix: string | null): RequestFacts {
  const { source, secure, time: at, objectTags, requestTags = {} } = question;
  return {
    timeMs: at === undefined ? Date.now() : Date.parse(at),
    sourceAddress: source ?? call.origin.source,
    isSecure: secure ?? call.origin.isSecure,
    headers: {},
    query: listPrefix === null ? [] : [['prefix', listPrefix]],
    versionId: null,
    copySource: null,
    authentication: null,
    requestTags: new Map(Object.entries(requestTags)),
    objectTags: objectTags && new Map(Object.entries(objectTags)),
  };
}

// Native API: who one is to the gateway, for every credential, however little else it allows.

export const whoAmIRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/whoami',
    action: 'bursar:WhoAmI',
    summary: 'In whose name, by what proof and with how much of its rights one acts.',
    answer: answerObject({
      tenant: name,
      principal: name,
      kind,
      role,
      groups: { type: 'array', items: name },
      evidence: { type: 'string' },
      accessKeyId: textOrNull('The access key that signed.'),
      keyThumbprint: textOrNull('Of the public key that verified the request (RFC 7638).'),
      mayCreateBuckets: boolean('By role and tenant, that is; grants and denials may differ.'),
      delegation: {
        type: ['object', 'null'],
        description: 'What a token, or a temporary key, leaves; null: all that the principal may.',
        required: ['ids', 'scope', 'hasPolicies', 'expiresAt'],
        properties: {
          ids: {
            type: 'array',
            items: { type: 'string' },
            description: 'The `jti`s of the chain, from its first link down.',
          },
          scope: textOrNull('null: wherever the principal may.'),
          hasPolicies: boolean('Do session policies narrow it further?'),
          expiresAt: time,
        },
      },
    }),
    run: async ({ identity }) => ({ answer: show(identity) }),
  },
]);

function show({ principal, subjects, delegation, ...proof }: Identity): object {
  const { tenant, name: own, kind: ownKind, role: ownRole, membersCreateBuckets } = principal;
  const group = `group:${tenant}/`;
  return {
    ...{ tenant, principal: own, kind: ownKind, role: ownRole },
    groups: subjects.filter((one) => one.startsWith(group)).map((one) => one.slice(group.length)),
    evidence: proof.evidence,
    accessKeyId: proof.accessKeyId,
    keyThumbprint: proof.keyThumbprint,
    mayCreateBuckets: ownRole === 'member' ? membersCreateBuckets : ownRole !== 'auditor',
    delegation: delegation && {
      ids: delegation.ids,
      scope: delegation.scope && renderScope(delegation.scope),
      hasPolicies: delegation.policies.length > 0,
      expiresAt: isoTime(delegation.expiresAtMs),
    },
  };
}
