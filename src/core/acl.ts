// Access control lists as buckets and objects keep them: who has which permission. The owner has
// every right whether a list says so or not.

export const permissions = ['FULL_CONTROL', 'READ', 'WRITE', 'READ_ACP', 'WRITE_ACP'] as const;
export type Permission = (typeof permissions)[number];

/** S3's groups: everybody, whoever comes with credentials, and S3's own log delivery. */
export const groups = ['AllUsers', 'AuthenticatedUsers', 'LogDelivery'] as const;
export type Group = (typeof groups)[number];

/** The grantee, a group or a principal as `tenant/name`, and what it may. */
export type AclGrant = readonly [grantee: string, permission: Permission];
export type Acl = readonly AclGrant[];

/** Does the list let everybody do something, or everybody who is known? Then it is public. */
export function isPublicAcl(acl: Acl): boolean {
  return acl.some(([grantee]) => isPublicGroup(grantee));
}

/**
 * Does the list give this permission to a requester? `id`: `tenant/name`; null: it came without
 * credentials. `ignoresPublic`: what is given to the public does not count.
 */
export function aclGives(
  acl: Acl,
  wanted: Permission,
  { id, ignoresPublic }: { id: string | null; ignoresPublic: boolean },
): boolean {
  return acl.some(([grantee, permission]) => {
    if (permission !== wanted && permission !== 'FULL_CONTROL') return false;
    if (isPublicGroup(grantee)) {
      return !ignoresPublic && (grantee === 'AllUsers' || id !== null);
    }
    return grantee === id;
  });
}

/** No principal has such a name, since theirs have a slash. */
function isPublicGroup(grantee: string): boolean {
  return grantee === 'AllUsers' || grantee === 'AuthenticatedUsers';
}
