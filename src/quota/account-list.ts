// Which accounts were ever charged, or have limits, by name, as far as the caller may see them.
// Tokens are not listed, since their limits are in their links, and neither are the accounts of
// what the stores cost.
import type { Reader } from '../core/database.ts';

/**
 * Which accounts are listed: those of a tenant, or of one of its principals and that principal's
 * buckets, with their prefixes and writers, and what it writes. Without either, all accounts.
 */
export interface AccountFilter {
  tenant?: string;
  principal?: string;
}

/** A range of names: from the first on, and before the second. */
export type NameRange = readonly [string, string];

/**
 * The names that the accounts of a tenant have, its principals', its buckets', and their prefixes'
 * and writers'; undefined: of all tenants. `;` is what comes after `:`, `0` after `/`, and `!`
 * before all that names have.
 */
export function namesOf(tenant: string | undefined): readonly NameRange[] {
  if (tenant === undefined) {
    const kinds = ['bucket', 'prefix', 'principal', 'tenant', 'writer'];
    return kinds.map((kind) => [`${kind}:`, `${kind};`]);
  }
  return [
    [`bucket:${tenant}/`, `bucket:${tenant}0`],
    [`prefix:${tenant}/`, `prefix:${tenant}0`],
    [`principal:${tenant}/`, `principal:${tenant}0`],
    [`tenant:${tenant}`, `tenant:${tenant}!`],
    [`writer:${tenant}/`, `writer:${tenant}0`],
  ];
}

/** What comes after a name in each of the ranges: values for `selectNames`. */
export function namesAfter(after: string, ranges: readonly NameRange[]): string[] {
  return ranges.flatMap(([from, end]) => [from > after ? from : `${after} `, end]);
}

/**
 * Rows of accounts in the ranges of `namesOf`, by name. Each range is searched by itself: as one
 * condition SQLite would look at everything that lies between them, which is other tenants'.
 */
export function selectNames(columns: string, condition = ''): string {
  const range = `account >= ? AND account < ? ${condition}`;
  const part = `SELECT ${columns} FROM quota_accounts WHERE ${range}`;
  return `${namesOf(undefined)
    .map(() => part)
    .join(' UNION ALL ')} ORDER BY account LIMIT ?`;
}

const isLimitedToo = 'AND limits IS NOT NULL';
const ofTenants = selectNames('account');
const limitedOfTenants = selectNames('account', isLimitedToo);
const ofPrincipal = `SELECT account FROM quota_accounts WHERE account > ? AND (account = ?
  OR account IN (SELECT 'bucket:' || tenant || '/' || name FROM buckets
    WHERE tenant = ? AND owner = ?)
  OR account IN (SELECT a.account FROM buckets AS b JOIN quota_accounts AS a
      ON a.account > 'prefix:' || b.tenant || '/' || b.name || '/'
        AND a.account < 'prefix:' || b.tenant || '/' || b.name || '0'
    WHERE b.tenant = ? AND b.owner = ?)
  OR account IN (SELECT a.account FROM buckets AS b JOIN quota_accounts AS a
      ON a.account > 'writer:' || b.tenant || '/' || b.name || '/'
        AND a.account < 'writer:' || b.tenant || '/' || b.name || '0'
    WHERE b.tenant = ? AND b.owner = ?)
  OR account IN (SELECT account FROM quota_accounts
    WHERE account > 'writer:' AND account < 'writer;'
      AND (account = 'writer' || ? OR substr(account, 0 - length(?)) = ?)))`;
const byName = 'ORDER BY account LIMIT ?';

/** At most `limit` names that come after `after`; `isLimited`: only of accounts with limits. */
export async function listAccounts(
  read: Reader,
  { tenant, principal }: AccountFilter,
  { after, limit, isLimited }: { after: string; limit: number; isLimited: boolean },
): Promise<string[]> {
  const rows = await find();
  return rows.map(({ account }) => account);

  function find(): Promise<{ account: string }[]> {
    if (tenant === undefined || principal === undefined) {
      const sql = isLimited ? limitedOfTenants : ofTenants;
      return read.all(sql, ...namesAfter(after, namesOf(tenant)), limit);
    }
    const sql = `${ofPrincipal} ${isLimited ? isLimitedToo : ''} ${byName}`;
    const owner = [tenant, principal];
    const id = `${tenant}/${principal}`;
    const owners = [...owner, ...owner, ...owner];
    const writer = [`:${id}`, `/${id}`, `/${id}`];
    return read.all(sql, after, `principal:${id}`, ...owners, ...writer, limit);
  }
}
