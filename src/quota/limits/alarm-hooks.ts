// Where alarms are told: a webhook of a tenant gets the alarms of its accounts, one of a principal
// those of its own, that of the gateway those of all. Invariant: a secret is kept sealed, and given
// out once, when it is made.
import type { Reader, Tx } from '../../core/database.ts';

export const alarmHookSchema = `
CREATE TABLE alarm_hooks (
  scope TEXT PRIMARY KEY,          -- gateway, tenant:T, or principal:T/P
  tenant TEXT REFERENCES tenants(name) ON DELETE CASCADE,
  url TEXT NOT NULL,
  sealed_secret BLOB NOT NULL,     -- what messages are signed with
  created_ms INTEGER NOT NULL
) WITHOUT ROWID;
`;

/** Whose alarms are told. */
export interface HookOf {
  /** null: everybody's, to the operator. */
  tenant: string | null;
  /** null: those of the whole tenant. */
  principal: string | null;
}

export interface AlarmHook extends HookOf {
  /** `https:`, or the address of `mailto:`. */
  url: string;
  sealedSecret: Uint8Array;
  createdMs: number;
}

/** Puts a webhook in the place of what there was; null: none is told any more. */
export interface SetAlarmHook extends HookOf {
  hook: { url: string; sealedSecret: Uint8Array } | null;
}

/** Where a webhook's URL leads, without what of it may be a secret; undefined: it is none. */
export function originOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const { protocol, pathname, origin } = new URL(url);
  return protocol === 'mailto:' ? `mailto:${pathname.replace(/^.*@/, '')}` : origin;
}

/** What its secret is sealed for. */
export function hookContext(of: HookOf): string {
  return `alarm-hook ${scopeOf(of)}`;
}

/** `gateway`, `tenant:cms` or `principal:cms/alice`. */
export function scopeOf({ tenant, principal }: HookOf): string {
  if (tenant === null) return 'gateway';
  return principal === null ? `tenant:${tenant}` : `principal:${tenant}/${principal}`;
}

/** The webhook of a principal, a tenant or the gateway; undefined: there is none. */
export async function readAlarmHook(read: Reader, of: HookOf): Promise<AlarmHook | undefined> {
  const row = await read.get<Omit<AlarmHook, 'principal'>>(
    `SELECT tenant, url, sealed_secret AS sealedSecret, created_ms AS createdMs
       FROM alarm_hooks WHERE scope = ?`,
    scopeOf(of),
  );
  return row && { ...row, principal: of.principal };
}

/** False: there is no such tenant or principal, or nothing to remove. */
export async function setAlarmHook(
  tx: Tx,
  { tenant, principal, hook }: SetAlarmHook,
  timeMs: number,
): Promise<boolean> {
  const scope = scopeOf({ tenant, principal });
  if (!hook) {
    const { changes } = await tx.run('DELETE FROM alarm_hooks WHERE scope = ?', scope);
    return changes > 0;
  }
  if (!(await isOwnerThere(tx, { tenant, principal }))) return false;
  const { url, sealedSecret } = hook;
  const sql = 'INSERT OR REPLACE INTO alarm_hooks VALUES (?, ?, ?, ?, ?)';
  await tx.run(sql, scope, tenant, url, sealedSecret, timeMs);
  return true;
}

async function isOwnerThere(tx: Tx, { tenant, principal }: HookOf): Promise<boolean> {
  if (tenant === null) return true;
  const found =
    principal === null
      ? await tx.get('SELECT 1 FROM tenants WHERE name = ?', tenant)
      : await tx.get('SELECT 1 FROM principals WHERE tenant = ? AND name = ?', tenant, principal);
  return found !== undefined;
}

/** What was told to a principal goes with it. */
export async function deleteHookOf(tx: Tx, tenant: string, principal: string): Promise<void> {
  await tx.run('DELETE FROM alarm_hooks WHERE scope = ?', scopeOf({ tenant, principal }));
}
