// Native API: who may do what with buckets and objects. Invariants: of another tenant's principals
// nothing is looked up, not even whether they are there; and an owner who is no admin is told of
// itself what it would find by asking for it, and of others what the bucket's policy and lists say.
import type { AccessRequest } from '../../authz/grants/access-request.ts';
import { isListing, levelsOf, type S3Action } from '../../authz/grants/actions.ts';
import { GrantIndex } from '../../authz/grants/grant-index.ts';
import { Refusal } from '../../core/errors.ts';
import { lookUpBucket, type NamedBucket } from '../s3/bucket-lookup.ts';
import { isShutOut } from '../s3/buckets/public-access.ts';
import { type Asker, explainRequest, payersOf } from '../s3/explained-access.ts';
import {
  type Explanation,
  factsFor,
  invalid,
  mayLookInto,
  type Question,
  refuseInvented,
  shownToOwner,
} from './explain-question.ts';
import { administers } from './rights.ts';
import type { Call } from './route.ts';

export async function explainS3(
  call: Call,
  question: Question,
  actor: Asker,
  action: S3Action,
): Promise<Explanation> {
  const { request, found } = await requestFor(call, question, actor, action);
  const bucket = found?.bucket;
  const isAdmins = administers(call.who, request.tenant);
  const isSeen = isAdmins || actor.principal.id === call.who.id;
  const index = isSeen ? call.deps.grants.index : noGrants;
  const { verdict, considered: all } = await explainRequest(call.deps, index, request, found);
  const isLeftOpen = !isSeen && !verdict.allowed && verdict.by === 'default';
  const told = isLeftOpen ? { ...verdict, reason: notByPolicy } : verdict;
  const considered = isAdmins ? all : shownToOwner(all);
  const warnings = isSeen ? [] : [notLookedAt];
  if (!bucket) return { ...told, considered, chargedTo: [], warnings };
  const payers = payersOf(actor, request, bucket, call.deps.limitedAccounts);
  // Whether another writer has limits is not the owner's to know.
  const shown = isSeen ? payers : payers.filter((account) => !account.startsWith('writer:'));
  return { ...told, considered, chargedTo: shown, warnings };
}

const noGrants = new GrantIndex();
const notByPolicy = 'neither the policy of the bucket nor its lists allow it';
const notLookedAt =
  'roles, groups and the grants of the tenant were not looked at: these are its admins’ to see';

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
          `for one of ${own} write ${own}:${asked}.` +
          (isAnonymous ? ' Name a principal to ask of somebody who has credentials.' : '');
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

function owns({ who }: Call, found: NamedBucket | null): boolean {
  return found?.tenant === who.tenant && found.bucket?.owner === who.name;
}
