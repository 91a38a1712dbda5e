// Which accounts have limits, by name, as far as who asks may see them. Tokens are not among them:
// their limits are in their links.
import type { Reader } from '../core/database.ts';

/** Of a tenant, or a principal of it and its buckets; without either, of all. */
export interface LimitedFilter {
  tenant?: string;
  principal?: string;
}

const select = 'SELECT account FROM quota_accounts WHERE limits IS NOT NULL AND account > ?';
const order = 'ORDER BY account LIMIT ?';

/** At most `limit` names that come after `after`. */
export async function listLimited(
  read: Reader,
  { tenant, principal }: LimitedFilter,
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const rows = await find();
  return rows.map(({ account }) => account);

  function find(): Promise<{ account: string }[]> {
    if (tenant === undefined) {
      const sql = `${select} AND (account < 'token:' OR account > 'token;') ${order}`;
      return read.all(sql, after, limit);
    }
    if (principal === undefined) {
      const sql = `${select} AND (account = ? OR account BETWEEN ? AND ? OR account BETWEEN ? AND ?)
        ${order}`;
      // '0' is what comes after '/'.
      const within = (kind: string) => [`${kind}:${tenant}/`, `${kind}:${tenant}0`] as const;
      return read.all(
        sql,
        ...[after, `tenant:${tenant}`, ...within('bucket'), ...within('principal'), limit],
      );
    }
    const sql = `${select} AND (account = ? OR account IN (
      SELECT 'bucket:' || tenant || '/' || name FROM buckets WHERE tenant = ? AND owner = ?))
      ${order}`;
    return read.all(sql, after, `principal:${tenant}/${principal}`, tenant, principal, limit);
  }
}
