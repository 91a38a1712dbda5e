// What every kind of change to this room's tables consists of. Invariants: a refused change writes
// nothing, and after `check` no write can fail on a constraint, because the transaction is shared
// with other requests' changes.
import type { Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Role } from '../core/principal.ts';

export interface Steps<C> {
  /** The reason to refuse, if there is one. */
  check(tx: Tx, change: C): Promise<ErrorCode | undefined>;
  /** `seq`: the log index of its record. */
  write(tx: Tx, change: C, timeMs: number, seq: number): Promise<void>;
}

/** Steps for each type of a family of changes. */
export type StepsOf<C extends { type: string }> = {
  [T in C['type']]: Steps<Extract<C, { type: T }>>;
};

export async function tenantExists(tx: Tx, name: string): Promise<boolean> {
  return (await tx.get('SELECT 1 FROM tenants WHERE name = ?', name)) !== undefined;
}

/** What is missing: the thing itself or already the tenant around it. */
export async function missing(tx: Tx, tenant: string, code: ErrorCode): Promise<ErrorCode> {
  return (await tenantExists(tx, tenant)) ? code : 'NoSuchTenant';
}

/** The role of a principal; undefined: there is none of this name. */
export async function roleOf(tx: Tx, tenant: string, name: string): Promise<Role | undefined> {
  const row = await tx.get<{ role: Role }>(
    'SELECT role FROM principals WHERE tenant = ? AND name = ?',
    tenant,
    name,
  );
  return row?.role;
}
