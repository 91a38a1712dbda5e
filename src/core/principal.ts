// The principal that acts. Rooms pass it around as plain data.

/** The tenant of the gateway itself: requests without credentials and the first operator. */
export const defaultTenant = 'default';
/** The principal in it to whom the root key belongs. */
export const rootPrincipal = 'admin';

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
  /** The tenant's setting of whether its members may create buckets. */
  membersCreateBuckets: boolean;
}

/** `cms/alice`. */
export function principalId(tenant: string, name: string): string {
  return `${tenant}/${name}`;
}
