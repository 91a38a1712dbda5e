// Which limits of an account bind nothing, whoever asks for what, and why: what they count is never
// there, or another account that counts all of it has a limit that is reached no later.
import { findBucket, listOwned } from '../../catalog/buckets.ts';
import type { Reader } from '../../core/database.ts';
import { isLevel, type Meter, perWindow } from '../../core/quota-terms.ts';
import { type Account, accountName, parseAccount } from '../../quota/accounts.ts';
import { readAccountState } from '../../quota/leases/account-tables.ts';
import type { LimitedAccounts } from '../../quota/limited-accounts.ts';
import type { LimitSet } from '../../quota/limits/limit-set.ts';

export async function warnOf(
  read: Reader,
  name: string,
  { caps }: LimitSet,
  limited: LimitedAccounts,
): Promise<string[]> {
  const account = parseAccount(name);
  if (!account || account.kind === 'token') return [];
  const warnings = await warnOfNothingCounted(read, account, new Set(caps.map((cap) => cap.meter)));
  for (const { whole, counts } of await wholesOf(read, account, limited)) {
    const state = await readAccountState(read, whole);
    for (const { meter, window, amount } of caps.filter((cap) => counts(cap.meter))) {
      const first = state?.limits?.caps.find((cap) => cap.meter === meter && cap.window === window);
      if (!first || first.amount > amount) continue;
      const what = `the limit of ${name} on ${meter}${perWindow(window)} binds nothing`;
      warnings.push(`${what}: that of ${whole} is not above it, and counts all of it.`);
    }
  }
  return warnings;
}

/** An account that counts all of what another does, and of which meters that is true. */
interface Whole {
  whole: string;
  counts(meter: Meter): boolean;
}

const all = () => true;
const isFlow = (meter: Meter) => !isLevel(meter);

async function wholesOf(
  read: Reader,
  account: Exclude<Account, { kind: 'token' }>,
  limited: LimitedAccounts,
): Promise<Whole[]> {
  const { kind, tenant } = account;
  const ofTenant = { whole: `tenant:${tenant}`, counts: all };
  switch (kind) {
    case 'tenant':
      return [];
    case 'principal':
      return [ofTenant];
    case 'bucket': {
      const owner = (await findBucket(read, tenant, account.name))?.owner;
      // Flows have other payers where readers or the tenant pay.
      const ofOwner = { whole: `principal:${tenant}/${owner}`, counts: isLevel };
      return owner === undefined ? [ofTenant] : [ofOwner, ofTenant];
    }
    case 'prefix': {
      const outer = limited.under(tenant, account.bucket, account.prefix) ?? [];
      const others = outer.filter((one) => one !== accountName(account));
      const wholes = [`bucket:${tenant}/${account.bucket}`, ...others];
      return [...wholes.map((whole) => ({ whole, counts: all })), ofTenant];
    }
    case 'writer': {
      const writer = `${account.writer.tenant}/${account.writer.name}`;
      const itself = { whole: `principal:${writer}`, counts: isFlow };
      // What is written elsewhere is stored for others.
      if (account.bucket === null) return [itself, { ...ofTenant, counts: isFlow }];
      const wholes = [`bucket:${tenant}/${account.bucket}`, `writer:${writer}`];
      return [...wholes.map((whole) => ({ whole, counts: all })), itself, ofTenant];
    }
  }
}

/** What is stored counts for the owner of its bucket; and who writes is sent nothing for it. */
async function warnOfNothingCounted(
  read: Reader,
  account: Account,
  meters: ReadonlySet<Meter>,
): Promise<string[]> {
  if (account.kind === 'writer' && meters.has('egressBytes')) {
    const name = accountName(account);
    return [
      `the limit of ${name} on egressBytes binds nothing: writers are counted what they write. ` +
        'Limit the principal, its token, or the bucket.',
    ];
  }
  const stored = (['storedBytes', 'storedObjects'] as const).filter((meter) => meters.has(meter));
  if (account.kind !== 'principal' || stored.length === 0) return [];
  const { tenant, name: owner } = account;
  if ((await listOwned(read, { tenant, owner, after: '', max: 1 })).length > 0) return [];
  return [
    `${tenant}/${owner} owns no bucket, so the limit on ${stored.join(' and ')} binds nothing: ` +
      'what is written into the buckets of others counts for their owners. Limit those buckets ' +
      `or owners, or writer:${tenant}/${owner}.`,
  ];
}
