// Of which things each change makes another state. Invariant: the compiler asks it of each kind of
// change, so that none is added of which the journals are silent.
import type { AuthzChange } from '../../authz/changes.ts';
import { defaultTenant, rootPrincipal } from '../../authz/identity-changes.ts';
import type { Tx } from '../../core/database.ts';
import type { Change } from '../commit.ts';
import type { Thing } from './identity-format.ts';

/** Whether journals tell of the change, be it an identity's or how reads of a bucket are recorded. */
export function isTold({ kind }: Change): boolean {
  return (
    kind === 'identity' ||
    kind === 'setLimits' ||
    kind === 'setAlarmHook' ||
    kind === 'setRecordReads'
  );
}

/**
 * Whether the answer waits for the journals. A token or a link that a lost database takes along is one
 * right less, and many are made.
 */
export function isWaitedFor(change: Change): boolean {
  if (change.kind !== 'identity') return isTold(change);
  return change.identity.type !== 'addToken' && change.identity.type !== 'addShare';
}

/** What the change is about; to be asked before it is applied. */
export async function thingsOf(tx: Tx, change: Change): Promise<Thing[]> {
  switch (change.kind) {
    case 'identity':
      return thingsOfAuthz(tx, change.identity);
    case 'setLimits':
      return [{ kind: 'limits', tenant: '', name: change.account }];
    case 'setAlarmHook':
      return [{ kind: 'webhook', tenant: change.tenant ?? '', name: '' }];
    default:
      return [];
  }
}

/** In whose name tokens are revoked along with a change; null: none are. */
export function revokedWith(change: Change): { tenant: string; principal: string } | null {
  if (change.kind !== 'identity') return null;
  const { identity } = change;
  switch (identity.type) {
    case 'updateAccessKey':
    case 'deleteAccessKey':
    case 'updatePublicKey':
    case 'deletePublicKey':
      return { tenant: identity.tenant, principal: identity.principal };
    case 'putRootKey':
      return { tenant: defaultTenant, principal: rootPrincipal };
    default:
      return null;
  }
}

async function thingsOfAuthz(tx: Tx, change: AuthzChange): Promise<Thing[]> {
  switch (change.type) {
    case 'createTenant':
    case 'updateTenant':
    // What is in it goes with it.
    case 'deleteTenant':
      return [{ kind: 'tenant', tenant: change.name, name: '' }];
    case 'createPrincipal':
    case 'updatePrincipal':
    case 'deletePrincipal':
      return [{ kind: 'principal', tenant: change.tenant, name: change.name }];
    case 'createGroup':
    case 'deleteGroup':
      return [{ kind: 'group', tenant: change.tenant, name: change.name }];
    case 'createAccessKey':
    case 'updateAccessKey':
    case 'createPublicKey':
    case 'updatePublicKey':
      return [{ kind: 'principal', tenant: change.tenant, name: change.principal }];
    case 'deleteAccessKey': {
      const sql = 'SELECT thumbprint FROM access_keys WHERE id = ?';
      const key = await tx.get<{ thumbprint: string | null }>(sql, change.id);
      return principalAndKey(change, key?.thumbprint ?? null);
    }
    case 'deletePublicKey':
      return principalAndKey(change, change.thumbprint);
    case 'putRootKey':
      return [
        { kind: 'tenant', tenant: defaultTenant, name: '' },
        { kind: 'principal', tenant: defaultTenant, name: rootPrincipal },
      ];
    case 'putGrant':
      return [{ kind: 'grant', tenant: change.tenant, name: change.grant.name }];
    case 'deleteGrant':
      return [{ kind: 'grant', tenant: change.tenant, name: change.name }];
    case 'putMount':
    case 'deleteMount':
      return [{ kind: 'mount', tenant: change.tenant, name: change.name }];
    case 'putIssuer':
    case 'deleteIssuer':
      return [{ kind: 'issuer', tenant: change.tenant, name: change.name }];
    case 'addToken':
    case 'addShare':
      return [{ kind: 'token', tenant: change.tenant, name: change.id }];
    case 'revokeToken':
      return [{ kind: 'revocation', tenant: change.tenant, name: change.id }];
  }
}

function principalAndKey(
  { tenant, principal }: { tenant: string; principal: string },
  thumbprint: string | null,
): Thing[] {
  const own: Thing = { kind: 'principal', tenant, name: principal };
  return thumbprint === null ? [own] : [own, { kind: 'publicKey', tenant, name: thumbprint }];
}
