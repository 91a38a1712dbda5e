// Who may do what in the native API: one table, one decision. Invariant: what lies in another
// tenant is answered as if it did not exist, before anything is looked up, so neither the answer
// nor its time tells whether it does; and nobody but an operator can touch an operator or make one.
import type { Directory } from '../../authz/directory.ts';
import { Refusal } from '../../core/errors.ts';
import type { Principal, Role } from '../../core/principal.ts';

/** How far a role's right to an action goes. */
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
  'bursar:CreateToken': /*      */ ['all', 'tenant', 'self', 'self'],
  'bursar:ListTokens': /*       */ ['all', 'tenant', 'self', 'self'],
  'bursar:RevokeToken': /*      */ ['all', 'tenant', 'self', 'self'],
  'bursar:PutIssuer': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListIssuers': /*      */ ['all', 'tenant', 'none', 'none'],
  'bursar:GetIssuer': /*        */ ['all', 'tenant', 'none', 'none'],
  'bursar:DeleteIssuer': /*     */ ['all', 'tenant', 'none', 'none'],
  'bursar:ListKeys': /*         */ ['all', 'none', 'none', 'none'],
  'bursar:RotateKeys': /*       */ ['all', 'none', 'none', 'none'],
  'bursar:ListStores': /*       */ ['all', 'none', 'none', 'none'],
  'bursar:SearchRecords': /*    */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:ListUsage': /*        */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:GetUsage': /*         */ ['all', 'tenant', 'tenant', 'self'],
  'bursar:VerifyData': /*       */ ['all', 'tenant', 'none', 'none'],
} as const satisfies Record<string, readonly [Reach, Reach, Reach, Reach]>;

export type NativeAction = keyof typeof table;

const column: Record<Role, 0 | 1 | 2 | 3> = { operator: 0, admin: 1, auditor: 2, member: 3 };

/** The tenant and principal that a request's path names, where it names any. */
export interface Addressed {
  tenant: string | undefined;
  principal: string | undefined;
}

/**
 * How far `who` may go with an action on what the path names. Throws `NoSuchTenant` for another
 * tenant's things and `AccessDenied` for those of the own tenant that are out of reach.
 */
export function decide(who: Principal, action: NativeAction, addressed: Addressed): Reach {
  const reach = table[action][column[who.role]];
  if (reach === 'all') return reach;
  if (addressed.tenant !== undefined && addressed.tenant !== who.tenant) {
    throw new Refusal('NoSuchTenant');
  }
  if (reach === 'none') throw new Refusal('AccessDenied');
  if (reach === 'self' && addressed.principal !== undefined && addressed.principal !== who.name) {
    throw new Refusal('AccessDenied');
  }
  return reach;
}

/** Throws `AccessDenied` when one who is no operator would make, change or enter as an operator. */
export async function protectOperators(
  who: Principal,
  directory: Directory,
  addressed: Addressed,
): Promise<void> {
  if (who.role === 'operator') return;
  const { tenant, principal } = addressed;
  if (tenant === undefined || principal === undefined) return;
  const entry = await directory.readPrincipal(tenant, principal);
  if (entry?.role === 'operator') throw new Refusal('AccessDenied');
}

/** Throws `AccessDenied` when `who` may not give this role to anybody. */
export function checkGivenRole(who: Principal, role: Role | undefined): void {
  if (role === 'operator' && who.role !== 'operator') throw new Refusal('AccessDenied');
}
