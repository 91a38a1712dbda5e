// May this request be granted? Pure. Invariants: what no rule and no right of one's own allows is
// denied; a rule that denies wins over every rule and right that allows, except that who could
// write the denial can always take it back.
import type { AccessRequest } from './access-request.ts';
import type { Action } from './actions.ts';
import type { GrantIndex } from './grant-index.ts';
import { isPublic } from './policy.ts';
import {
  appliesToAll,
  failedCondition,
  fullName,
  isForAnyone,
  mayApply,
  type Rule,
  type Verdict,
  verdictOf,
} from './rule.ts';

export interface Decision {
  allowed: boolean;
  /**
   * Who or what decided: the name of a rule, `owner`, `admin`, `role`, or `default`, what holds
   * for everybody where no rule speaks.
   */
  by: string;
  /** For the record and for explanations, never for who was denied. */
  reason: string;
  /**
   * A rule asks for the object's tags, and they could change the decision: load them and ask again.
   * Until then it is denied.
   */
  needsTags: boolean;
}

/** A rule that was looked at, and whether it applied. */
export interface Considered {
  name: string;
  effect: Rule['effect'];
  verdict: Verdict;
  /** The first condition that did not hold. */
  condition: string | undefined;
}

const noRules: readonly Rule[] = [];

/** Decides by the grants, by the policy of the bucket, and by what a requester may without them. */
export function decideAccess(
  index: GrantIndex,
  request: AccessRequest,
  policy: readonly Rule[] = noRules,
): Decision {
  return decide(index, request, policy, false);
}

/**
 * The same, but the policy of a bucket is not read for whom it cannot allow anything and nothing
 * else does: they are refused as if there were none, so that the time does not tell that there is.
 * By `default`, that is, even where a rule of the policy denies it.
 */
export function decideBriefly(
  index: GrantIndex,
  request: AccessRequest,
  policy: readonly Rule[] = noRules,
): Decision {
  return decide(index, request, policy, true);
}

function decide(
  index: GrantIndex,
  request: AccessRequest,
  policy: readonly Rule[],
  isBrief: boolean,
): Decision {
  const own = ownRight(request);
  if (own === noData || (own === notPublic && isBrief)) return own;
  const found: Weighed = { denied: null, allowed: null, mayDeny: false, mayAllow: false };
  const mayBeGranted = index.count > 0 && !(own && grantActions.has(request.action));
  if (mayBeGranted) weigh(index.propose(request), request, found);
  const mayMatter = own !== null || found.allowed !== null || found.mayAllow || !isBrief;
  if (
    (mayMatter || allowsAny(policy, request.subjects)) &&
    !(own && policyActions.has(request.action))
  ) {
    weigh(countedOf(policy, request), request, found);
  }
  const { denied, allowed, mayDeny, mayAllow } = found;
  if (denied) return decision(false, fullName(denied), 'a rule denies it');
  // A list may let everybody in all the same, as to the list of what they write.
  if (own === notPublic) return own;
  const isAllowed = own?.allowed === true || allowed !== null;
  if (!isAllowed && !mayAllow) return own ?? nothingAllows;
  if (!isAllowed || mayDeny) return tagsDecision;
  if (own?.allowed) return own;
  return decision(true, fullName(allowed as Rule), 'a rule allows it');
}

/**
 * Could who asks be allowed this, with whatever headers and at whatever time: do they have a right
 * of their own to it, or does a rule allow it on some condition? What denies does not count.
 */
export function couldBeAllowed(
  index: GrantIndex,
  request: AccessRequest,
  policy: readonly Rule[] = noRules,
): boolean {
  const own = ownRight(request);
  if (own) return own.allowed;
  const allows = (rule: Rule) =>
    rule.effect === 'allow' && couldApply.has(verdictOf(rule, request));
  return index.propose(request).some(allows) || countedOf(policy, request).some(allows);
}

const couldApply: ReadonlySet<Verdict> = new Set<Verdict>([
  'applies',
  'needs tags',
  'a condition does not hold',
]);

/**
 * Is this allowed of every key of the bucket, whatever its tags? `request` is about a key that
 * nobody names, its tags not loaded. A rule that looks at keys or tags allows nothing here; and one
 * that might deny a key denies.
 */
export function allowsEveryKey(
  index: GrantIndex,
  request: AccessRequest,
  policy: readonly Rule[] = noRules,
): boolean {
  const own = ownRight(request);
  if (own?.allowed === false || index.deniesParts(request)) return false;
  const rules = [...index.propose(request), ...countedOf(policy, request)];
  const isCounted = (rule: Rule) => !(request.isShutOut && isForAnyone(rule));
  if (own === null) return agreeOnAll(rules, request, isCounted);
  return !rules.some((rule) => rule.effect === 'deny' && mayApply(rule, request));
}

/** Do rules allow this of every key, and might none of them deny one? `request`: as there. */
export function agreeOnAll(
  rules: readonly Rule[],
  request: AccessRequest,
  isCounted: (allowing: Rule) => boolean = () => true,
): boolean {
  let isAllowed = false;
  for (const rule of rules) {
    if (rule.effect === 'deny') {
      if (mayApply(rule, request)) return false;
    } else isAllowed ||= isCounted(rule) && appliesToAll(rule, request);
  }
  return isAllowed;
}

/** The decision, and every rule that was looked at for it. */
export function explainAccess(
  index: GrantIndex,
  request: AccessRequest,
  policy: readonly Rule[] = noRules,
): { decision: Decision; considered: Considered[] } {
  // The index may propose a grant once for each of its subjects.
  const rules = new Map([...index.propose(request), ...policy].map((one) => [fullName(one), one]));
  const considered = [...rules].map(([name, rule]) => ({
    name,
    effect: rule.effect,
    verdict: verdictOf(rule, request),
    condition: failedCondition(rule, request),
  }));
  return { decision: decideAccess(index, request, policy), considered };
}

/** As on S3, a policy that lets everybody in lets in no other either whom it is not to let in. */
function countedOf(policy: readonly Rule[], { isShutOut }: AccessRequest): readonly Rule[] {
  return isShutOut && isPublic(policy) ? policy.filter(({ effect }) => effect === 'deny') : policy;
}

/** Of a policy, whom its statements that allow something name; null: everybody but somebody. */
const allowedBy = new WeakMap<readonly Rule[], ReadonlySet<string> | null>();

/** Does the policy allow any of these anything? */
function allowsAny(policy: readonly Rule[], subjects: readonly string[]): boolean {
  let allowed = allowedBy.get(policy);
  if (allowed === undefined) {
    const allowing = policy.filter(({ effect }) => effect === 'allow').map((rule) => rule.subjects);
    const isOpen = allowing.some(({ isExcept }) => isExcept);
    allowed = isOpen ? null : new Set(allowing.flatMap(({ names }) => names));
    allowedBy.set(policy, allowed);
  }
  const names = allowed;
  return names === null || subjects.some((subject) => names.has(subject));
}

interface Weighed {
  denied: Rule | null;
  allowed: Rule | null;
  /** Would a rule do so with the right tags? */
  mayDeny: boolean;
  mayAllow: boolean;
}

function weigh(rules: readonly Rule[], request: AccessRequest, found: Weighed): void {
  for (const rule of rules) {
    const denies = rule.effect === 'deny';
    if (denies ? found.denied : found.allowed) continue;
    if (!denies && request.isShutOut && isForAnyone(rule)) continue;
    const verdict = verdictOf(rule, request);
    if (verdict === 'applies') {
      if (denies) found.denied = rule;
      else found.allowed = rule;
    } else if (verdict === 'needs tags') {
      if (denies) found.mayDeny = true;
      else found.mayAllow = true;
    }
  }
}

// What a requester may without any rule ---------------------------------------------------------

/** Whoever may write a bucket's policy can always read, replace and delete it, whatever it says. */
const policyActions: ReadonlySet<Action> = new Set<Action>([
  's3:GetBucketPolicy',
  's3:PutBucketPolicy',
  's3:DeleteBucketPolicy',
]);

/** And whoever may write a tenant's grants can always take them back. */
const grantActions: ReadonlySet<Action> = new Set<Action>([
  'bursar:PutGrant',
  'bursar:ListGrants',
  'bursar:GetGrant',
  'bursar:DeleteGrant',
]);

/** What rules can let everybody do. All else needs to know who asks. */
const publicActions: ReadonlySet<Action> = new Set<Action>([
  's3:GetBucketAcl',
  's3:GetBucketLocation',
  's3:ListBucket',
  's3:ListBucketMultipartUploads',
  's3:ListBucketVersions',
  's3:GetObject',
  's3:GetObjectAcl',
  's3:GetObjectAttributes',
  's3:GetObjectTagging',
  's3:GetObjectVersion',
  's3:GetObjectVersionAcl',
  's3:GetObjectVersionAttributes',
  's3:GetObjectVersionTagging',
  's3:PutObject',
  's3:PutObjectTagging',
  's3:PutObjectVersionTagging',
  's3:DeleteObject',
  's3:DeleteObjectTagging',
  's3:DeleteObjectVersion',
  's3:DeleteObjectVersionTagging',
  's3:AbortMultipartUpload',
  's3:ListMultipartUploadParts',
]);

const noData = decision(false, 'role', 'auditors have no data');
const notPublic = decision(false, 'default', 'nothing lets everybody do this');
const admin = decision(true, 'admin', 'an admin of the tenant');
const owner = decision(true, 'owner', 'the owner of the bucket');
const everyMember = decision(true, 'default', 'every member of the tenant may');
const noBucket = decision(true, 'default', 'there is no bucket to protect');
const noCreation = decision(false, 'default', 'members may not create buckets');
const nothingAllows = decision(false, 'default', 'nothing allows it');
const tagsDecision: Decision = {
  ...decision(false, 'default', 'a rule depends on the tags of the object'),
  needsTags: true,
};

/** null: what rules allow, and nothing else. */
function ownRight({
  who,
  action,
  tenant,
  bucket,
  owner: ownerName,
}: AccessRequest): Decision | null {
  if (who === null) return publicActions.has(action) ? null : notPublic;
  const isS3 = action.startsWith('s3:');
  if (who.role === 'auditor' && isS3) return noData;
  if (who.role === 'operator' && !isS3) return admin;
  if (tenant !== who.tenant) return null;
  if (who.role === 'operator' || who.role === 'admin') return admin;
  if (!isS3) return null;
  if (action === 's3:ListAllMyBuckets') return everyMember;
  if (action === 's3:CreateBucket') return who.membersCreateBuckets ? everyMember : noCreation;
  if (ownerName === who.name) return owner;
  return ownerName === null && bucket !== null ? noBucket : null;
}

function decision(allowed: boolean, by: string, reason: string): Decision {
  return { allowed, by, reason, needsTags: false };
}
