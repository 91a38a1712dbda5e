// In whose name a request acts, and with how much of that principal's rights. Invariant: a
// delegation only ever narrows: what it allows its principal must be allowed as well.
import type { SignedEvidence } from '../core/evidence.ts';
import type { Principal } from '../core/principal.ts';
import type { Authentication } from './grants/access-request.ts';
import type { Rule } from './grants/rule.ts';
import { subjectsOf } from './grants/subjects.ts';
import type { Payload } from './signed-parts.ts';
import type { TokenAccount } from './tokens/chain.ts';
import type { ChainConditions } from './tokens/conditions.ts';
import type { Scope } from './tokens/scope.ts';

/**
 * What proves a request (docs/audit/records.md). `body-signed`, `headers-signed`: a signature that
 * only the client can make. `shared-secret`: authenticated, but the gateway could have made it too.
 * `none`: without credentials, or the gateway's own.
 */
export type Evidence = 'body-signed' | 'headers-signed' | 'shared-secret' | 'none';

/** A principal, with the names that rules have for it. */
export interface Actor {
  principal: Principal;
  /** `subjectsOf` it. */
  subjects: readonly string[];
}

/** Finds principals that can act. */
export interface Actors {
  /** The principal of this id (`tenant/name`); undefined: there is none, or it is not active. */
  findActor(id: string): Promise<Actor | undefined>;
}

/** What a credential leaves of its principal's rights. */
export interface Delegation {
  /** The ids of the chain, from its first link down: if one is revoked, so is this. */
  ids: readonly string[];
  /** null: everywhere that the principal may. */
  scope: Scope | null;
  conditions: ChainConditions;
  /** The accounts that are charged besides the principal's, from the first link down. */
  accounts: readonly TokenAccount[];
  /** Policies of temporary keys, each of which must allow. */
  policies: readonly (readonly Rule[])[];
  /** It is refused from this time on. */
  expiresAtMs: number;
  /** The id of a share link, under which downloads are counted. */
  shareId?: string;
}

export interface Identity extends Actor {
  isAnonymous: boolean;
  /** The access key that signed; null: none did. */
  accessKeyId: string | null;
  /** Thumbprint of the public key that verified the request; null: there is none. */
  keyThumbprint: string | null;
  /** null: everything that the principal may. */
  delegation: Delegation | null;
  evidence: Evidence;
  /** What was signed with keys of clients; absent: nothing was. */
  signed?: SignedEvidence | undefined;
  /** How it was authenticated, in the words of policies; null: anonymous. */
  authentication: Authentication | null;
  payload: Payload;
  presigned: boolean;
}

/** Its name is never given to a principal. */
export const anonymousName = 'anonymous';

/** A requester without credentials, in the tenant whose names are meant. */
export function anonymousIn(tenant: string): Identity {
  const principal: Principal = {
    tenant,
    name: anonymousName,
    id: `${tenant}/${anonymousName}`,
    kind: 'robot',
    role: 'member',
    membersCreateBuckets: false,
  };
  return {
    principal,
    subjects: subjectsOf(null, []),
    isAnonymous: true,
    accessKeyId: null,
    keyThumbprint: null,
    delegation: null,
    evidence: 'none',
    authentication: null,
    payload: { kind: 'unsigned' },
    presigned: false,
  };
}
