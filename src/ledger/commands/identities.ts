// The commands that change who there is and what they may.
import { type AddShare, addShare } from './add-share.ts';
import { type AddToken, addToken } from './add-token.ts';
import { type CreateAccessKey, createAccessKey } from './create-access-key.ts';
import { type CreateGroup, createGroup } from './create-group.ts';
import { type CreatePrincipal, createPrincipal } from './create-principal.ts';
import { type CreatePublicKey, createPublicKey } from './create-public-key.ts';
import { type CreateTenant, createTenant } from './create-tenant.ts';
import { type DeleteAccessKey, deleteAccessKey } from './delete-access-key.ts';
import { type DeleteGrant, deleteGrant } from './delete-grant.ts';
import { type DeleteGroup, deleteGroup } from './delete-group.ts';
import { type DeleteIssuer, deleteIssuer } from './delete-issuer.ts';
import { type DeleteMount, deleteMount } from './delete-mount.ts';
import { type DeletePrincipal, deletePrincipal } from './delete-principal.ts';
import { type DeletePublicKey, deletePublicKey } from './delete-public-key.ts';
import { type DeleteTenant, deleteTenant } from './delete-tenant.ts';
import type { IdentityCommand } from './identity-command.ts';
import { type PutGrant, putGrant } from './put-grant.ts';
import { type PutIssuer, putIssuer } from './put-issuer.ts';
import { type PutMount, putMount } from './put-mount.ts';
import { type PutRootKey, putRootKey } from './put-root-key.ts';
import { type RevokeToken, revokeToken } from './revoke-token.ts';
import { type UpdateAccessKey, updateAccessKey } from './update-access-key.ts';
import { type UpdatePrincipal, updatePrincipal } from './update-principal.ts';
import { type UpdatePublicKey, updatePublicKey } from './update-public-key.ts';
import { type UpdateTenant, updateTenant } from './update-tenant.ts';

export type IdentityChange =
  | CreateTenant
  | UpdateTenant
  | DeleteTenant
  | CreatePrincipal
  | UpdatePrincipal
  | DeletePrincipal
  | CreateGroup
  | DeleteGroup
  | CreateAccessKey
  | UpdateAccessKey
  | DeleteAccessKey
  | PutRootKey
  | PutGrant
  | DeleteGrant
  | PutMount
  | DeleteMount
  | PutIssuer
  | DeleteIssuer
  | CreatePublicKey
  | UpdatePublicKey
  | DeletePublicKey
  | AddToken
  | RevokeToken
  | AddShare;

export const identityCommands: {
  readonly [K in IdentityChange['kind']]: IdentityCommand<Extract<IdentityChange, { kind: K }>>;
} = {
  createTenant,
  updateTenant,
  deleteTenant,
  createPrincipal,
  updatePrincipal,
  deletePrincipal,
  createGroup,
  deleteGroup,
  createAccessKey,
  updateAccessKey,
  deleteAccessKey,
  putRootKey,
  putGrant,
  deleteGrant,
  putMount,
  deleteMount,
  putIssuer,
  deleteIssuer,
  createPublicKey,
  updatePublicKey,
  deletePublicKey,
  addToken,
  revokeToken,
  addShare,
};

export function identityCommandOf(change: IdentityChange): IdentityCommand<IdentityChange> {
  return identityCommands[change.kind] as IdentityCommand<IdentityChange>;
}
