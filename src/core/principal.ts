// Who acts. Rooms pass this around as plain data.

export const roles = ['operator', 'admin', 'auditor', 'member'] as const;
export type Role = (typeof roles)[number];

export const principalKinds = ['person', 'robot'] as const;
export type PrincipalKind = (typeof principalKinds)[number];

export interface Principal {
  tenant: string;
  /** Unique in the tenant. */
  name: string;
  /** `tenant/name`, as accounts and records show it. */
  id: string;
  kind: PrincipalKind;
  role: Role;
  /** The tenant's setting: may its members create buckets? */
  membersCreateBuckets: boolean;
}

/** `cms/alice`. */
export function principalId(tenant: string, name: string): string {
  return `${tenant}/${name}`;
}
