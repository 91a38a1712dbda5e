// Which accounts a caller of the native API may see, and whose limits they may set. Invariants: an
// account that is not there and one that may not be seen are answered alike; nobody but an operator
// sets a tenant's limits; and who is no admin sets none of those who are more than members.

import { anonymousName } from '../../authz/identity.ts';
import { findTokenOwner } from '../../authz/issued-tokens.ts';
import { Refusal } from '../../core/errors.ts';
import type { AccountFilter } from '../../quota/account-list.ts';
import {
  type Account,
  accountName,
  guessAccounts,
  type Holder,
  maySeeAccount,
  parseAccount,
} from '../../quota/accounts.ts';
import type { NativeDeps } from './deps.ts';
import { protectOthers } from './rights.ts';
import { type Call, refuseDelegated } from './route.ts';

/** The account of a name. Throws `NotFound` where there is none that the caller may see. */
export async function findAccount({ who, reach, deps }: Call, name: string): Promise<Account> {
  const account = parseAccount(name);
  if (account && maySeeAccount(who, reach, account, await holderOf(deps, account))) {
    if (await isThere(deps, account, name)) return account;
    throw new Refusal('NotFound', { message: thingWords(account) });
  }
  throw new Refusal('NotFound', { message: account ? notThere : formWords(name) });
}

/** What is not there of somebody who may see all that would be. */
function thingWords(account: Account): string {
  switch (account.kind) {
    case 'tenant':
      return `There is no tenant ${account.tenant}.`;
    case 'principal':
    case 'bucket':
      return `There is no ${account.kind} ${account.tenant}/${account.name}.`;
    case 'prefix':
      return `There is no bucket ${account.tenant}/${account.bucket}.`;
    default:
      return notThere;
  }
}

const notThere = 'There is no such account that you may see.';

/** What is wrong with a name that no account can have, and which may have been meant. */
function formWords(name: string): string {
  const guesses = guessAccounts(name);
  const forms =
    'tenant:TENANT, principal:TENANT/NAME, bucket:TENANT/NAME, prefix:TENANT/BUCKET/PREFIX, ' +
    'writer:TENANT/NAME, writer:TENANT/BUCKET/TENANT/NAME or token:ID';
  if (!guesses) return `That is no account. Accounts are written ${forms}.`;
  return `${name} is no account. Was ${guesses.join(' or ')} meant?`;
}

/**
 * The same to set its limits. Throws `AccessDenied` for one that is seen and may not be limited.
 */
export async function findLimitable(call: Call, name: string): Promise<Account> {
  refuseDelegated(call);
  const account = await findAccount(call, name);
  const { who, deps } = call;
  switch (account.kind) {
    case 'token':
      throw denied("A token's limits are in its links, as they were signed.");
    case 'tenant':
      if (who.role !== 'operator') throw denied("A tenant's limits are the operator's to set.");
      break;
    case 'principal':
      await protectOthers(who, deps.directory, { tenant: account.tenant, principal: account.name });
      break;
    case 'writer':
      if (account.bucket !== null) break;
      await protectOthers(who, deps.directory, {
        tenant: account.tenant,
        principal: account.writer.name,
      });
      break;
    case 'bucket':
    case 'prefix':
      break;
  }
  return account;
}

/** The accounts that the caller's listing shows. */
export function visibleTo({ who, reach }: Call): AccountFilter {
  if (reach === 'all') return {};
  return reach === 'tenant' ? { tenant: who.tenant } : { tenant: who.tenant, principal: who.name };
}

async function holderOf({ read }: NativeDeps, account: Account): Promise<Holder | null> {
  if (account.kind === 'token') {
    const owner = await findTokenOwner(read, account.id);
    return owner ? { tenant: owner.tenant, name: owner.principal } : null;
  }
  if (account.kind === 'tenant' || account.kind === 'principal') return null;
  const name = account.kind === 'bucket' ? account.name : account.bucket;
  if (name === null) return null;
  const sql = 'SELECT tenant, owner AS name FROM buckets WHERE tenant = ? AND name = ?';
  return (await read.get<Holder>(sql, account.tenant, name)) ?? null;
}

/** Whether the account exists, or once existed: what it used stays counted. */
async function isThere(deps: NativeDeps, account: Account, name: string): Promise<boolean> {
  const { directory, read } = deps;
  if (await read.get('SELECT 1 FROM quota_accounts WHERE account = ?', name)) return true;
  switch (account.kind) {
    case 'tenant':
      return (await directory.readTenant(account.tenant)) !== undefined;
    case 'principal':
      if (account.name === anonymousName) return !!(await directory.readTenant(account.tenant));
      return !!(await directory.readPrincipal(account.tenant, account.name));
    case 'bucket':
    case 'prefix': {
      const sql = 'SELECT 1 FROM buckets WHERE tenant = ? AND name = ?';
      const bucket = account.kind === 'bucket' ? account.name : account.bucket;
      return !!(await read.get(sql, account.tenant, bucket));
    }
    case 'writer':
      return isWriterThere(deps, account);
    case 'token':
      return !!(await read.get('SELECT 1 FROM tokens WHERE id = ?', account.id));
  }
}

/** Whether somebody of another tenant is there, its admins alone may know. */
async function isWriterThere(
  deps: NativeDeps,
  { tenant, bucket, writer }: Extract<Account, { kind: 'writer' }>,
): Promise<boolean> {
  if (bucket !== null) {
    const place: Account = { kind: 'bucket', tenant, name: bucket };
    if (!(await isThere(deps, place, accountName(place)))) return false;
    if (writer.tenant !== tenant) return true;
  }
  return isThere(
    deps,
    { kind: 'principal', ...writer },
    `principal:${writer.tenant}/${writer.name}`,
  );
}

function denied(message: string): Refusal {
  return new Refusal('AccessDenied', { message });
}
