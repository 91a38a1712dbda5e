// Native API: who may do what, and which rule says so. Invariants: it decides as requests are
// decided, by the same functions; only the admins of the tenant whose rules these are can ask, and
// the owner of a bucket about it; of another tenant's principals nothing is looked up, not even
// whether they are there.
import { isIP } from 'node:net';
import type { AccessRequest } from '../../authz/grants/access-request.ts';
import {
  type BursarAction,
  isAction,
  isOfPart,
  levelsOf,
  type S3Action,
} from '../../authz/grants/actions.ts';
import { explainAccess } from '../../authz/grants/decide.ts';
import { subjectsOf } from '../../authz/grants/subjects.ts';
import { anonymousIn } from '../../authz/identity.ts';
import { Refusal } from '../../core/errors.ts';
import { defaultTenant } from '../../core/principal.ts';
import type { Asker } from '../s3/explained-access.ts';
import {
  type Explanation,
  factsFor,
  invalid,
  mayLookInto,
  type Question,
  questionSchema,
  refuseInvented,
  shownToOwner,
} from './explain-question.ts';
import { explainS3 } from './explain-s3.ts';
import { administers, mayBeOwners, type Reach, reachOf, requestOf } from './rights.ts';
import { type Call, routeTable } from './route.ts';
import { answerObject, text } from './schemas.ts';

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
      const [level] = levelsOf(action);
      const answer =
        level === 'tenant'
          ? await explainNative(call, question, actor, action as BursarAction)
          : await explainS3(call, question, actor, action as S3Action);
      return { answer };
    },
  },
]);

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
