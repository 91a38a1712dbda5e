// Native API: what accounts (`tenant:cms`, `principal:cms/alice`, `bucket:cms/raw`,
// `prefix:cms/raw/run1/`) have used, how much of their limits is left, and when these will be
// reached.
import { countAltered } from '../../audit/altered-records.ts';
import { readPayerOf } from '../../catalog/buckets.ts';
import { type HeldShare, listHeldShares } from '../../catalog/held-totals.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { nativeListMax } from '../../core/limits.ts';
import { formatUsd } from '../../core/money.ts';
import { readPayers } from '../../core/read-payer.ts';
import { readCounts } from '../../ledger/stored-count.ts';
import { listAccounts } from '../../quota/account-list.ts';
import { type Account, accountName, accountNameMax } from '../../quota/accounts.ts';
import { amountText } from '../../quota/cap-report.ts';
import {
  type BreakdownRow,
  breakdowns,
  brokenDownBy,
  endOfDays,
  nextUnsummed,
  readBreakdown,
} from '../../quota/roll-up/usage-days.ts';
import { readAccrued } from '../../quota/storage/storage-charges.ts';
import { type CapUsage, readAccountUsage } from '../../quota/usage.ts';
import { heldBytesOf } from '../held-bytes.ts';
import { findAccount, visibleTo } from './account-access.ts';
import type { NativeDeps } from './deps.ts';
import { caps } from './limit-schemas.ts';
import { type Call, type Outcome, param, routeTable } from './route.ts';
import {
  answerObject,
  answerPage,
  integer,
  integerOrNull,
  next,
  pageQuery,
  text,
  textOrNull,
  timeOrNull,
} from './schemas.ts';

const money = text('USD in decimal, to the picodollar.');

const flows = {
  spend: money,
  requests: integer('Operations that have a price, and were not refused for want of budget.'),
  ingressBytes: integer('Bytes received.'),
  egressBytes: integer('Bytes sent.'),
} as const;

const forecast = answerObject({
  basis: text(
    'Over what the rate was measured: `window`, that of the limit so far; the present `hour` ' +
      'or `day` so far; `week`, today and the six days before.',
  ),
  perDay: text('At this rate, in 24 hours.'),
  reachedAt: { ...timeOrNull, description: 'null: not before the reset, nor in 100 years.' },
});

const usage = answerObject({
  account: { type: 'string' },
  ...flows,
  storedBytes: integer('Bytes stored now.'),
  heldBytes: integerOrNull(
    'Of these, what was overwritten or deleted, and is held by snapshots and undelete windows. ' +
      'null: it is not counted of prefixes and writers.',
  ),
  storedObjects: integer('Objects stored now.'),
  isCounting: {
    type: 'boolean',
    description:
      'Of a prefix or a writer that got its first limit: what is stored is still being counted, ' +
      'and this is what is counted already.',
  },
  readsPaidBy: {
    ...textOrNull('Of a bucket: who pays for its reads besides who reads; null of other accounts.'),
    enum: [...readPayers, null],
  },
  caps: {
    ...caps,
    items: answerObject({
      ...caps.items.properties,
      percent: integer('Hundredths of the limit that are used or lost, rounded down.'),
      forecasts: { type: 'array', items: forecast },
    }),
  },
});

const oneUsage = answerObject({
  ...usage.properties,
  accrued: {
    ...money,
    description:
      'For what is stored now and was not charged yet; 0.00 of a token, a prefix or a writer.',
  },
});

/**
 * The limits of each account are read and forecast, on the thread that serves all requests; a page
 * of so many takes a few milliseconds of it.
 */
const accountsMax = 200;

const accountsQuery = {
  after: { ...pageQuery.after, maxLength: accountNameMax },
  limit: {
    type: 'string',
    pattern: '^([1-9][0-9]?|1[0-9]{2}|200)$',
    description: `Accounts a page, 1 to ${accountsMax}; ${accountsMax} if absent.`,
  },
} as const;

const day = text('A day of UTC, `2026-11-21`: the first, or that behind the last.', {
  format: 'date',
});

export const usageRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/usage',
    action: 'bursar:ListUsage',
    readsAccounts: true,
    summary: 'Usage of all accounts that the caller may see, but of tokens, by name.',
    query: accountsQuery,
    answer: answerPage('usage', usage),
    run: async (call) => {
      const limit = Number(call.query.limit ?? accountsMax);
      const page = { after: call.query.after ?? '', limit, isLimited: false };
      const names = await listAccounts(call.deps.read, visibleTo(call), page);
      const about = await readAbout(call.deps.read, null);
      const rows: object[] = [];
      for (const name of names) rows.push(await showAccount(call.deps, name, about));
      const last = names.length === limit ? (names.at(-1) ?? null) : null;
      return { answer: { usage: rows, next: last } };
    },
  },
  {
    method: 'GET',
    url: '/_/v1/usage/:account',
    action: 'bursar:GetUsage',
    readsAccounts: true,
    summary: 'Usage of one account; its name is one percent-encoded path segment.',
    answer: oneUsage,
    run: async (call) => {
      const account = await findAccount(call, param(call, 'account'));
      const accrued = formatUsd(await sumAccrued(call.deps, account));
      const tenant = account.kind === 'token' ? null : account.tenant;
      const about = tenant === null ? noneKnown : await readAbout(call.deps.read, tenant);
      const shown = await showAccount(call.deps, accountName(account), about);
      return { answer: { ...shown, accrued } };
    },
  },
  {
    method: 'GET',
    url: '/_/v1/usage/:account/by/:part',
    action: 'bursar:GetUsage',
    operation: 'BreakDownUsage',
    summary:
      'What an account used by `day`, `month`, `action` or `class`, or what each `principal` or ' +
      '`bucket` of a tenant, or each `prefix` and `writer` with limits of a tenant or a bucket ' +
      'was charged, added up from the records; or each `token` of a tenant or a principal that ' +
      'was used and has not ended long ago, since ever.',
    query: { ...pageQuery, from: day, to: day },
    answer: answerObject({
      by: { type: 'string', enum: [...breakdowns] },
      rows: {
        type: 'array',
        items: answerObject({
          name: text(
            'The day, month, action or class (`-`: none), the name of the principal or bucket, ' +
              'the prefix or writer, of a tenant with its bucket, or the id of the token.',
          ),
          ...flows,
          storedBytes: integer('Bytes added, less those removed.'),
          storedObjects: integer('Objects added, less those removed.'),
        }),
      },
      next,
      alteredRecords: integer(
        'Records of the tenant, or about its buckets, that are not what was recorded: they are ' +
          'not in the sums.',
      ),
      recordsBefore: integer('All records before this one are added up; those behind it are not.'),
    }),
    run: breakDown,
  },
]);

async function breakDown(call: Call): Promise<Outcome> {
  const { deps, query } = call;
  const found = await findAccount(call, param(call, 'account'));
  const account = accountName(found);
  const by = breakdowns.find((one) => one === param(call, 'part'));
  if (!by) throw new Refusal('NotFound');
  const kinds = brokenDownBy(by);
  if (kinds && !kinds.includes(found.kind)) {
    const others = breakdowns.filter((one) => brokenDownBy(one)?.includes(found.kind) ?? true);
    const message =
      `Only a ${kinds.join(' or a ')} is broken down by ${by}; ` +
      `a ${found.kind} by ${others.join(', ')}.`;
    throw new Refusal('NotFound', { message });
  }
  if (by === 'token' && (query.from ?? query.to) !== undefined) {
    const message = 'What tokens used is not added up by day: leave `from` and `to` out.';
    throw new Refusal('InvalidInput', { message });
  }
  await deps.usageRollUp.catchUp();
  const limit = Number(query.limit ?? nativeListMax);
  const rows = await readBreakdown(deps.read, {
    ...{ account, by, from: query.from ?? '', to: query.to ?? endOfDays },
    ...{ after: query.after ?? '', limit },
  });
  const last = rows.length === limit ? (rows.at(-1)?.name ?? null) : null;
  const recordsBefore = await nextUnsummed(deps.read);
  const alteredRecords = await countUnsummed(deps, found);
  return { answer: { by, rows: rows.map(showRow), next: last, alteredRecords, recordsBefore } };
}

/** Nothing is added up of tokens by day, so no record can be missing from such sums. */
async function countUnsummed({ read }: NativeDeps, account: Account): Promise<number> {
  if (account.kind === 'token') return 0;
  return countAltered(read, account.tenant, await nextUnsummed(read));
}

function showRow({ spend, ...row }: BreakdownRow): object {
  return { ...row, spend: formatUsd(spend) };
}

/** What is known of several accounts at once. */
interface About {
  shares: readonly HeldShare[];
  /** Of these, what is stored is still being counted. */
  counted: ReadonlyMap<string, unknown>;
}

/** Of tokens there is nothing to know. */
const noneKnown: About = { shares: [], counted: new Map() };

/** null: of all tenants. */
async function readAbout(read: Reader, tenant: string | null): Promise<About> {
  return { shares: await listHeldShares(read, tenant), counted: await readCounts(read) };
}

async function showAccount(
  { read, buckets }: NativeDeps,
  account: string,
  { shares, counted }: About,
): Promise<object> {
  const isCounting = counted.has(account);
  const at = { nowMs: nowMs(), isCounting };
  const { used, caps: all } = await readAccountUsage(read, account, at);
  const [, tenant, name] = /^bucket:([^/]+)\/(.+)$/.exec(account) ?? [];
  const bucket = tenant && name ? await buckets.find(tenant, name) : undefined;
  return {
    account,
    spend: formatUsd(used.spend),
    requests: Number(used.requests),
    ingressBytes: Number(used.ingressBytes),
    egressBytes: Number(used.egressBytes),
    storedBytes: Number(used.storedBytes),
    heldBytes: heldBytesOf(shares, account),
    storedObjects: Number(used.storedObjects),
    isCounting,
    readsPaidBy: bucket ? readPayerOf(bucket) : null,
    caps: all.map(showCap),
  };
}

/** What an account's buckets cost since they were last charged, in picodollars. */
async function sumAccrued({ read, priceBooks }: NativeDeps, account: Account): Promise<bigint> {
  // Prefixes and writers are not charged for what is stored.
  const { kind } = account;
  if (kind === 'token' || kind === 'prefix' || kind === 'writer') return 0n;
  const { tenant } = account;
  const name = kind === 'tenant' ? undefined : account.name;
  const of = { tenant, ...(kind === 'principal' ? { owner: name } : { bucket: name }) };
  const all = await readAccrued(read, priceBooks, of, nowMs());
  return all.reduce((sum, { accrued }) => sum + accrued, 0n);
}

function showCap({ forecasts, ...cap }: CapUsage): object {
  const shown = forecasts.map(({ basis, perDay, reachedMs }) => ({
    basis,
    perDay: amountText(cap.meter, perDay),
    reachedAt: reachedMs === null ? null : isoTime(reachedMs),
  }));
  return { ...cap, forecasts: shown };
}
