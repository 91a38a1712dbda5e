// What would become of a request of S3, and who would pay for it, without its being made.
// Invariant: it is decided as requests are, by the same functions, with the rules, lists and block
// that the caller says count.
import type { AccessRequest } from '../../authz/grants/access-request.ts';
import type { S3Action } from '../../authz/grants/actions.ts';
import { type Considered, decideAccess, explainAccess } from '../../authz/grants/decide.ts';
import type { GrantIndex } from '../../authz/grants/grant-index.ts';
import type { Actor } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { type Catalog, findNamedEvenly } from '../../catalog/versions.ts';
import { principalId } from '../../core/principal.ts';
import { accountsOf } from '../../quota/charge.ts';
import type { LimitedAccounts } from '../../quota/limited-accounts.ts';
import { isListed, policyOf } from './access.ts';
import type { NamedBucket } from './bucket-lookup.ts';
import { aclOf } from './objects/object-attributes.ts';

/** Who would ask. */
export interface Asker extends Actor {
  isAnonymous: boolean;
}

export interface Verdict {
  allowed: boolean;
  /** The rule or right that decides. */
  by: string;
  reason: string;
}

type Found = NamedBucket & { bucket?: Bucket };

/** How it would be decided by grants of an index, and what of a bucket that was found counts. */
export async function explainRequest(
  catalog: Catalog,
  index: GrantIndex,
  request: AccessRequest,
  found: Found | null,
): Promise<{ verdict: Verdict; considered: readonly Considered[] }> {
  const bucket = found?.bucket;
  const policy = bucket && policyOf(bucket);
  const { decision, considered } = explainAccess(index, request, policy);
  const { allowed, by, reason } = decision;
  const decided: Verdict = { allowed, by, reason };
  if (!bucket) return { verdict: decided, considered };
  const isOpen = () => decideAccess(index, { ...request, isShutOut: false }, policy).allowed;
  const whole =
    allowed || by !== 'default' || decision.needsTags
      ? decided
      : ((await explainLists(catalog, found, request)) ??
        (request.isShutOut && isOpen() ? shutOut : decided));
  return { verdict: explainPayer(whole, request, bucket), considered };
}

const block = 'public-access-block';
const shutOut: Verdict = {
  allowed: false,
  by: block,
  reason: 'RestrictPublicBuckets: what lets everybody in lets in the own tenant alone',
};

/** What the lists of the bucket, or of the object, say; null: they let nobody in here. */
async function explainLists(
  catalog: Catalog,
  found: Found,
  { action, key, who }: AccessRequest,
): Promise<Verdict | null> {
  const { bucket } = found;
  if (!bucket) return null;
  const loadAcl = async () => {
    if (key === null) return undefined;
    return aclOf((await findNamedEvenly(catalog, bucket, { key })).version);
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

/** Each account that pays for the request, but for tokens. */
export function payersOf(
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
