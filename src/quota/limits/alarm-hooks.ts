// Where alarms are told: a webhook of a tenant gets the alarms of its accounts, that of the gateway
// those of all. Invariant: a secret is kept sealed, and given out once, when it is made.
import type { Reader, Tx } from '../../core/database.ts';

export const alarmHookSchema = `
CREATE TABLE alarm_hooks (
  scope TEXT PRIMARY KEY,          -- gateway, or tenant:T
  tenant TEXT REFERENCES tenants(name) ON DELETE CASCADE,
  url TEXT NOT NULL,
  sealed_secret BLOB NOT NULL,     -- what messages are signed with
  created_ms INTEGER NOT NULL
) WITHOUT ROWID;
`;

export interface AlarmHook {
  /** null: the gateway's. */
  tenant: string | null;
  /** `https:`, or the address of `mailto:`. */
  url: string;
  sealedSecret: Uint8Array;
  createdMs: number;
}

/** Puts a webhook in the place of what there was; null: none is told any more. */
export interface SetAlarmHook {
  tenant: string | null;
  hook: { url: string; sealedSecret: Uint8Array } | null;
}

/** Where a webhook's URL leads, without what of it may be a secret; undefined: it is none. */
export function originOf(url: string): string | undefined {
  if (!URL.canParse(url)) return undefined;
  const { protocol, pathname, origin } = new URL(url);
  return protocol === 'mailto:' ? `mailto:${pathname.replace(/^.*@/, '')}` : origin;
}

/** What its secret is sealed for. */
export function hookContext(tenant: string | null): string {
  return `alarm-hook ${scopeOf(tenant)}`;
}

/** `gateway` or `tenant:cms`. */
export function scopeOf(tenant: string | null): string {
  return tenant === null ? 'gateway' : `tenant:${tenant}`;
}

/** The webhook of a tenant, or of the gateway; undefined: there is none. */
export function readAlarmHook(read: Reader, tenant: string | null): Promise<AlarmHook | undefined> {
  return read.get<AlarmHook>(
    `SELECT tenant, url, sealed_secret AS sealedSecret, created_ms AS createdMs
       FROM alarm_hooks WHERE scope = ?`,
    scopeOf(tenant),
  );
}

/** False: there is no such tenant, or nothing to remove. */
export async function setAlarmHook(
  tx: Tx,
  { tenant, hook }: SetAlarmHook,
  timeMs: number,
): Promise<boolean> {
  const scope = scopeOf(tenant);
  if (!hook) {
    const { changes } = await tx.run('DELETE FROM alarm_hooks WHERE scope = ?', scope);
    return changes > 0;
  }
  const isThere =
    tenant === null || (await tx.get('SELECT 1 FROM tenants WHERE name = ?', tenant)) !== undefined;
  if (!isThere) return false;
  const { url, sealedSecret } = hook;
  const sql = 'INSERT OR REPLACE INTO alarm_hooks VALUES (?, ?, ?, ?, ?)';
  await tx.run(sql, scope, tenant, url, sealedSecret, timeMs);
  return true;
}
