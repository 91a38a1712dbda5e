// Which accounts were ever charged, or have limits, by name, as far as who asks may see them. Tokens
// are not among them: their limits are in their links. Nor is what the stores cost.
import type { Reader } from '../core/database.ts';

/** Of a tenant, or a principal of it and its buckets; without either, of all. */
export interface AccountFilter {
  tenant?: string;
  principal?: string;
}

/** One text for each way to ask, so that statements can be kept. */
function textOf(where: string, isLimited: boolean): string {
  const limited = isLimited ? 'AND limits IS NOT NULL' : '';
  return `SELECT account FROM quota_accounts WHERE account > ? ${limited} AND (${where})
    ORDER BY account LIMIT ?`;
}

/** The kinds of accounts; `;` is what comes after `:`, and `0` what comes after `/`. */
const ofAll = `(account > 'bucket:' AND account < 'bucket;')
  OR (account > 'principal:' AND account < 'principal;')
  OR (account > 'tenant:' AND account < 'tenant;')`;
const ofTenant = 'account = ? OR account BETWEEN ? AND ? OR account BETWEEN ? AND ?';
const ofPrincipal = `account = ? OR account IN (
  SELECT 'bucket:' || tenant || '/' || name FROM buckets WHERE tenant = ? AND owner = ?)`;

/** At most `limit` names that come after `after`; `isLimited`: only of accounts with limits. */
export async function listAccounts(
  read: Reader,
  { tenant, principal }: AccountFilter,
  { after, limit, isLimited }: { after: string; limit: number; isLimited: boolean },
): Promise<string[]> {
  const rows = await find();
  return rows.map(({ account }) => account);

  function find(): Promise<{ account: string }[]> {
    if (tenant === undefined) return read.all(textOf(ofAll, isLimited), after, limit);
    if (principal === undefined) {
      const within = (kind: string) => [`${kind}:${tenant}/`, `${kind}:${tenant}0`] as const;
      return read.all(
        textOf(ofTenant, isLimited),
        ...[after, `tenant:${tenant}`, ...within('bucket'), ...within('principal'), limit],
      );
    }
    return read.all(
      textOf(ofPrincipal, isLimited),
      ...[after, `principal:${tenant}/${principal}`, tenant, principal, limit],
    );
  }
}
