// Who may do what in the native API: one table of what roles may, and the grants that take from it
// or add to it. Invariants: what lies in another tenant is answered as if it did not exist, before
// it is looked up, so neither the answer nor its time tells whether it does; nobody but an
// operator can touch an operator or make one; and who is no admin makes, changes and enters as
// nobody but members, and says nothing of roles, groups and administration, whatever grants say.

import type { AccessRequest, RequestFacts } from '../../authz/grants/access-request.ts';
import type { BursarAction } from '../../authz/grants/actions.ts';
import { decideAccess } from '../../authz/grants/decide.ts';
import type { GrantIndex } from '../../authz/grants/grant-index.ts';
import type { Delegation } from '../../authz/identity.ts';
import { coversAdministration } from '../../authz/tokens/scope.ts';
import { Refusal } from '../../core/errors.ts';
import type { Principal, Role } from '../../core/principal.ts';
import type { Directory } from '../../state/directory.ts';
import type { Identity } from './deps.ts';

/** How far a right to an action goes. */
export type Reach = 'all' | 'tenant' | 'self' | 'none';

// Columns:                         operator  admin     auditor   member
const table = {
  'bursar:CreateTenant': /*     */ ['all', 'none', 'none', 'none'],
  'bursar:ListTenants': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetTenant': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:UpdateTenant': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteTenant': /*     */ ['all', 'none', 'none', 'none'],
  'bursar:CreatePrincipal': /*  */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListPrincipals': /*   */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetPrincipal': /*     */ ['all', 'tenant', 'self', 'self'],
  'bursar:UpdatePrincipal': /*  */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeletePrincipal': /*  */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListHoldings': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:CreateGroup': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListGroups': /*       */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetGroup': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteGroup': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:CreateAccessKey': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:ListAccessKeys': /*   */ ['all', 'tenant', 'self', 'self'],
  'bursar:GetAccessKey': /*     */ ['all', 'tenant', 'self', 'self'],
  'bursar:UpdateAccessKey': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:DeleteAccessKey': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:CreatePublicKey': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:ListPublicKeys': /*   */ ['all', 'tenant', 'self', 'self'],
  'bursar:GetPublicKey': /*     */ ['all', 'tenant', 'self', 'self'],
  'bursar:UpdatePublicKey': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:DeletePublicKey': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:CreateToken': /*      */ ['self', 'self', 'self', 'self'],
  'bursar:ListTokens': /*       */ ['all', 'tenant', 'self', 'self'],
  'bursar:RevokeToken': /*      */ ['all', 'tenant', 'self', 'self'],
  'bursar:CreateShare': /*      */ ['self', 'self', 'none', 'self'],
  'bursar:ListShares': /*       */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:RevokeShare': /*      */ ['all', 'tenant', 'none', 'self'],
  'bursar:TransferShare': /*    */ ['all', 'tenant', 'none', 'none'],
  'bursar:PutIssuer': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListIssuers': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetIssuer': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteIssuer': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:CreateClass': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListClasses': /*      */ ['all', 'tenant', 'tenant', 'tenant'],
  'bursar:GetClass': /*         */ ['all', 'tenant', 'tenant', 'tenant'],
  'bursar:DeleteClass': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListKeys': /*         */ ['all', 'none', 'none', 'none'],
  'bursar:RotateKeys': /*       */ ['all', 'none', 'none', 'none'],
  'bursar:GetClock': /*         */ ['all', 'none', 'none', 'none'],
  'bursar:GetHealth': /*        */ ['all', 'none', 'none', 'none'],
  'bursar:ConfirmClock': /*     */ ['all', 'none', 'none', 'none'],
  'bursar:RotateLogKey': /*     */ ['all', 'none', 'none', 'none'],
  'bursar:RevokeLogKey': /*     */ ['all', 'none', 'none', 'none'],
  'bursar:ListStores': /*       */ ['all', 'none', 'none', 'none'],
  'bursar:DrillStore': /*       */ ['all', 'none', 'none', 'none'],
  'bursar:ListStoreCosts': /*   */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:ListPriceBooks': /*   */ ['all', 'all', 'all', 'all'],
  'bursar:GetMetrics': /*       */ ['all', 'none', 'none', 'none'],
  'bursar:PutGrant': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListGrants': /*       */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetGrant': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteGrant': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:PutMount': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListMounts': /*       */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetMount': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteMount': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:PutOwnMount': /*      */ ['all', 'tenant', 'none', 'self'],
  'bursar:ListOwnMounts': /*    */ ['all', 'tenant', 'none', 'self'],
  'bursar:GetOwnMount': /*      */ ['all', 'tenant', 'none', 'self'],
  'bursar:DeleteOwnMount': /*   */ ['all', 'tenant', 'none', 'self'],
  'bursar:ListAliases': /*      */ ['all', 'tenant', 'none', 'self'],
  'bursar:CreateSnapshot': /*   */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListSnapshots': /*    */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:GetSnapshot': /*      */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:DeleteSnapshot': /*   */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetBucket': /*        */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:UpdateBucket': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:ChangeOwner': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:TransferUpload': /*   */ ['all', 'tenant', 'none', 'none'],
  'bursar:PutUndelete': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteUndelete': /*   */ ['all', 'tenant', 'none', 'none'],
  'bursar:Undelete': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:PurgeHeld': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListLocks': /*        */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:ListUses': /*         */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:ListInventories': /*  */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:RunInventory': /*     */ ['all', 'tenant', 'none', 'none'],
  // Members about buckets of their own.
  'bursar:Explain': /*          */ ['all', 'tenant', 'none', 'self'],
  'bursar:WhoAmI': /*           */ ['self', 'self', 'self', 'self'],
  'bursar:GetRecipe': /*        */ ['all', 'self', 'self', 'self'],
  'bursar:ListWork': /*         */ ['all', 'self', 'self', 'self'],
  'bursar:LeaseWork': /*        */ ['all', 'self', 'self', 'self'],
  'bursar:UpdateWork': /*       */ ['all', 'self', 'self', 'self'],
  'bursar:ListCopies': /*       */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:RetryCopies': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:ReadChanges': /*      */ ['all', 'self', 'self', 'self'],
  'bursar:SearchRecords': /*    */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:GetRequest': /*       */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:ExportRecords': /*    */ ['all', 'tenant', 'tenant', 'none'],
  'bursar:EraseRecords': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetReceipt': /*       */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:GetLog': /*           */ ['all', 'all', 'all', 'all'],
  'bursar:ListUsage': /*        */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:GetUsage': /*         */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:PutLimit': /*         */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListLimits': /*       */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:GetLimit': /*         */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:DeleteLimit': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:ReconcileLimit': /*   */ ['all', 'none', 'none', 'none'],
  'bursar:PutAlarmHook': /*     */ ['all', 'tenant', 'self', 'self'],
  'bursar:GetAlarmHook': /*     */ ['all', 'tenant', 'self', 'self'],
  'bursar:DeleteAlarmHook': /*  */ ['all', 'tenant', 'self', 'self'],
  'bursar:PutTarget': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListTargets': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetTarget': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteTarget': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:ResendToTarget': /*   */ ['all', 'tenant', 'none', 'none'],
  'bursar:VerifyData': /*       */ ['all', 'tenant', 'none', 'none'],
} as const satisfies Record<BursarAction, readonly [Reach, Reach, Reach, Reach]>;

export type NativeAction = BursarAction;

const column: Record<Role, 0 | 1 | 2 | 3> = { operator: 0, admin: 1, auditor: 2, member: 3 };

/**
 * Rights that no grant gives: who has one can enter as others, change who is in which group, or
 * take what is another's for their own, and would have all rights that way; and who erases records
 * takes away what proves what they did.
 */
const ofRolesOnly: ReadonlySet<BursarAction> = new Set<BursarAction>([
  'bursar:ChangeOwner',
  'bursar:TransferShare',
  'bursar:TransferUpload',
  'bursar:DeleteGroup',
  'bursar:PutIssuer',
  'bursar:EraseRecords',
  'bursar:PurgeHeld',
]);

/**
 * What the owner of a bucket may do with it whatever its role, as with all else that is in it: it
 * pays for what is held, and could delete the bucket.
 */
const ofBucketOwners: ReadonlySet<BursarAction> = new Set<BursarAction>([
  'bursar:CreateSnapshot',
  'bursar:ListSnapshots',
  'bursar:GetSnapshot',
  'bursar:DeleteSnapshot',
  'bursar:GetBucket',
  'bursar:PutUndelete',
  'bursar:DeleteUndelete',
  'bursar:Undelete',
  'bursar:ListLocks',
  'bursar:ListUses',
  'bursar:ListInventories',
  'bursar:RunInventory',
]);

/** Whether it matters to a decision about the action whose the bucket is. */
export function mayBeOwners(action: BursarAction): boolean {
  return ofBucketOwners.has(action);
}

/** What a credential without administration in its scope is good for: itself. */
const ofEveryCredential: ReadonlySet<BursarAction> = new Set<BursarAction>([
  'bursar:WhoAmI',
  'bursar:RevokeToken',
  'bursar:GetReceipt',
  // It shows nothing but what the credential may list and read.
  'bursar:ReadChanges',
  'bursar:GetRecipe',
  'bursar:ListWork',
  // They do nothing but what the credential may write.
  'bursar:LeaseWork',
  'bursar:UpdateWork',
]);

/** The tenant and principal that a request's path names, where it names any. */
export interface Addressed {
  tenant: string | undefined;
  principal: string | undefined;
  /** What part of a bucket it is about; absent: no bucket, or all of it. */
  part?: BucketPart | undefined;
}

/** One key of a bucket, or all that begin with a prefix. */
export type BucketPart = { bucket: string } & ({ key: string } | { prefix: string });

export interface Asked {
  who: Pick<Identity, 'principal' | 'subjects' | 'delegation'>;
  action: BursarAction;
  addressed: Addressed;
  /** Of the bucket that the call is about, in its tenant; null: nobody, or it does not matter. */
  owner: string | null;
  facts: RequestFacts;
}

/**
 * How far who asks may go with an action on what the path names. Throws `NoSuchTenant` for another
 * tenant's things and `AccessDenied` for those of the own tenant that are out of reach.
 */
export function decide(asked: Asked, index: GrantIndex): Reach {
  const { action, addressed } = asked;
  const { principal, delegation } = asked.who;
  const isNarrowed = delegation !== null && !mayAdminister(delegation);
  if (isNarrowed && !ofEveryCredential.has(action)) {
    throw new Refusal('AccessDenied', {
      message: 'The token does not cover the native API: its scope has no bursar.admin:/.',
    });
  }
  const { reach, isSeen, by } = reachOf(asked, index);
  if (reach === 'none') {
    if (!isSeen) throw new Refusal('NoSuchTenant');
    const message = by === 'role' ? `Access Denied: ${whoMay(action)}` : undefined;
    throw new Refusal('AccessDenied', message === undefined ? {} : { message });
  }
  if (isNarrowed) return 'self';
  const isOther = addressed.principal !== undefined && addressed.principal !== principal.name;
  if (reach === 'self' && isOther) throw new Refusal('AccessDenied');
  return reach;
}

/** Whose roles let them do it, in words: what the documents say to everybody. */
function whoMay(action: BursarAction): string {
  const row: readonly Reach[] = table[action];
  const names = (Object.keys(column) as Role[]).filter((role) => row[column[role]] !== 'none');
  const who = names.map((role) => `${role}s`).join(' and ');
  return `${action} is what ${who} may, and whom a grant lets.`;
}

/**
 * Decides by role and grants. `isSeen`: whether the caller may know of the tenant that the path
 * names.
 */
export function reachOf(
  { who: { principal, subjects }, action, addressed, owner, facts }: Asked,
  index: GrantIndex,
): { reach: Reach; isSeen: boolean; by: string } {
  const row: readonly Reach[] = table[action];
  const tenant = addressed.tenant ?? principal.tenant;
  const isSeen = principal.role === 'operator' || tenant === principal.tenant;
  const byRole = isSeen ? (row[column[principal.role]] as Reach) : 'none';
  const request = requestOf(principal, subjects, action, { ...addressed, tenant }, facts);
  const ruled = decideAccess(index, request);
  const isRule = ruled.by.startsWith('grant:');
  if (isRule && !ruled.allowed) return { reach: 'none', isSeen, by: ruled.by };
  const isLifted =
    isRule &&
    row[column.admin] === 'tenant' &&
    !ofRolesOnly.has(action) &&
    (byRole === 'none' || byRole === 'self');
  if (isLifted) return { reach: 'tenant', isSeen, by: ruled.by };
  const isOwner = tenant === principal.tenant && owner === principal.name && mayBeOwners(action);
  return byRole === 'none' && isOwner
    ? { reach: 'tenant', isSeen, by: 'owner' }
    : { reach: byRole, isSeen, by: 'role' };
}

/** What the rules are asked about an action of the native API. */
export function requestOf(
  who: Principal,
  subjects: readonly string[],
  action: BursarAction,
  { tenant, part }: { tenant: string; part?: BucketPart | undefined },
  facts: RequestFacts,
): AccessRequest {
  const place = {
    bucket: part?.bucket ?? null,
    key: part && 'key' in part ? part.key : null,
    listPrefix: part && 'prefix' in part ? part.prefix : null,
  };
  return { who, subjects, action, tenant, owner: null, ...place, facts };
}

/**
 * Whether the credential lets its principal use the native API. Session policies do not matter
 * here.
 */
export function mayAdminister({ scope, policies, shareId }: Delegation): boolean {
  if (policies.length > 0 || shareId !== undefined) return false;
  return scope === null || coversAdministration(scope);
}

/** By role, that is; what others may do in a tenant they may by its grants. */
export function administers(who: Principal, tenant: string): boolean {
  return who.role === 'operator' || (who.role === 'admin' && who.tenant === tenant);
}

/**
 * Throws `AccessDenied` when the caller would change, or act as, a principal with a higher role.
 */
export async function protectOthers(
  who: Principal,
  directory: Directory,
  { tenant, principal }: Addressed,
): Promise<void> {
  if (who.role === 'operator' || tenant === undefined || principal === undefined) return;
  if (tenant === who.tenant && principal === who.name) return;
  const role = (await directory.readPrincipal(tenant, principal))?.role;
  if (role === undefined || role === 'member') return;
  if (role === 'operator' || !administers(who, tenant)) throw new Refusal('AccessDenied');
}

/**
 * Throws `AccessDenied` when `who` may not give anybody in the tenant this role or these groups.
 */
export function checkGiven(
  who: Principal,
  tenant: string,
  { role, groups }: { role: Role | undefined; groups: readonly string[] | undefined },
): void {
  if (who.role === 'operator') return;
  const isPlain = role === undefined && groups === undefined;
  if (role === 'operator' || !(isPlain || administers(who, tenant))) {
    throw new Refusal('AccessDenied');
  }
}
