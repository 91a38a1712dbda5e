// Native API: the limits of accounts, what of them is used, and what crashes lost. Invariants: who
// asks about an account that it may not see, or that is not there, is answered the same; limits
// hold from the first request on that follows the answer; and limits that were changed by somebody
// else meanwhile are not merged with.
import { readToken } from '../../authz/issued-tokens.ts';
import type { Page } from '../../authz/paced-page.ts';
import { nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { type Limits, readLimits } from '../../core/quota-terms.ts';
import { readCounts } from '../../ledger/stored-count.ts';
import { listAccounts } from '../../quota/account-list.ts';
import { accountName, accountNameMax } from '../../quota/accounts.ts';
import { reportCaps } from '../../quota/cap-report.ts';
import { newAccountState } from '../../quota/leases/account-state.ts';
import { readAccountState } from '../../quota/leases/account-tables.ts';
import { type LimitSet, limitSetOf } from '../../quota/limits/limit-set.ts';
import { findAccount, findLimitable, visibleTo } from './account-access.ts';
import type { NativeDeps } from './deps.ts';
import { caps, limits, limitsPatch } from './limit-schemas.ts';
import { warnOf } from './limit-warnings.ts';
import { type Call, listPage, param, refuseDelegated, routeTable } from './route.ts';
import { answerObject, answerPage, pageQuery } from './schemas.ts';

const path = '/_/v1/limits/:account';

const limit = answerObject({
  account: { type: 'string' },
  limits: { ...limits, type: ['object', 'null'], description: 'null: there are none.' },
  caps,
  warnings: {
    type: 'array',
    items: { type: 'string' },
    description: 'Limits that bind nothing now, or not yet for what is stored, and why.',
  },
});

export const limitRoutes = routeTable([
  {
    method: 'PUT',
    url: path,
    action: 'bursar:PutLimit',
    summary: "Set an account's limits. They replace all that it had.",
    body: limits,
    answer: limit,
    run: (call) => setLimits(call, () => ({ limits: merge(null, call.body as LimitsPatch) })),
  },
  {
    method: 'PATCH',
    url: path,
    action: 'bursar:PutLimit',
    operation: 'PatchLimit',
    summary:
      "Change an account's limits, as a JSON merge patch (RFC 7396): what is not named stays, " +
      'and null takes a limit away.',
    body: limitsPatch,
    answer: limit,
    run: (call) =>
      setLimits(call, (before) => ({ limits: merge(before, call.body as LimitsPatch), before })),
  },
  {
    method: 'GET',
    url: '/_/v1/limits',
    action: 'bursar:ListLimits',
    readsAccounts: true,
    summary: 'List the accounts with limits that the caller may see, but for tokens, by name.',
    query: { ...pageQuery, after: { ...pageQuery.after, maxLength: accountNameMax } },
    answer: answerPage('limits', limit),
    run: (call) => {
      const { read } = call.deps;
      const list = (page: Page) =>
        listAccounts(read, visibleTo(call), { ...page, isLimited: true });
      return listPage(call, 'limits', list, (one) => showLimit(call.deps, one), String);
    },
  },
  {
    method: 'GET',
    url: path,
    action: 'bursar:GetLimit',
    readsAccounts: true,
    summary: "Show an account's limits, and what of them is used.",
    answer: limit,
    run: async (call) => {
      const account = await findAccount(call, param(call, 'account'));
      return { answer: await showLimit(call.deps, accountName(account)) };
    },
  },
  {
    method: 'DELETE',
    url: path,
    action: 'bursar:DeleteLimit',
    summary: "Take an account's limits away, all of them. What it used stays counted.",
    run: async (call) => {
      const account = accountName(await findLimitable(call, param(call, 'account')));
      return {
        change: { kind: 'setLimits', account, limits: null },
      };
    },
  },
  {
    method: 'POST',
    url: `${path}/reconcile`,
    action: 'bursar:ReconcileLimit',
    summary: 'Count as unused what an account lost when the gateway died.',
    answer: limit,
    run: async (call) => {
      refuseDelegated(call);
      const account = accountName(await findAccount(call, param(call, 'account')));
      return {
        change: { kind: 'forgetLost', account },
        answer: () => showLimit(call.deps, account),
      };
    },
  },
]);

/** Limits, where null takes away what is there. */
type LimitsPatch = {
  readonly [name: string]: { readonly [window: string]: string | number | null } | null;
};

type Wanted = { limits: Limits | null; before?: Limits | null };

async function setLimits(call: Call, want: (before: Limits | null) => Wanted) {
  const account = accountName(await findLimitable(call, param(call, 'account')));
  const state = await readAccountState(call.deps.read, account);
  const wanted = want(state?.limits?.limits ?? null);
  return {
    change: { kind: 'setLimits' as const, account, ...wanted },
    answer: () => showLimit(call.deps, account),
  };
}

/** Throws `InvalidInput`. */
function merge(before: Limits | null, patch: LimitsPatch): Limits | null {
  const merged: Record<string, object> = { ...before };
  for (const [name, amounts] of Object.entries(patch)) {
    const all = amounts === null ? {} : { ...merged[name], ...amounts };
    const kept = Object.entries(all).filter(([, amount]) => amount !== null);
    if (kept.length > 0) merged[name] = Object.fromEntries(kept);
    else delete merged[name];
  }
  if (Object.keys(merged).length === 0) return null;
  const limits = readLimits(merged);
  if (limits) return limits;
  throw new Refusal('InvalidInput', { message: 'body: these are no limits' });
}

async function showLimit({ read, limitedAccounts }: NativeDeps, account: string): Promise<object> {
  const state = (await readAccountState(read, account)) ?? newAccountState();
  state.limits ??= await readLinkLimits(read, account);
  const limits = state.limits?.limits ?? null;
  const warnings = state.limits ? await warnOf(read, account, state.limits, limitedAccounts) : [];
  if ((await readCounts(read)).has(account)) warnings.push(uncounted(account));
  return { account, limits, caps: reportCaps(state, nowMs()), warnings };
}

function uncounted(account: string): string {
  const meanwhile = 'limits on storedBytes and storedObjects go by what is counted already';
  return `What is stored of ${account} is still being counted; until it is, ${meanwhile}.`;
}

/** Of a token that was never used, its account does not have them yet. */
async function readLinkLimits(read: Reader, account: string): Promise<LimitSet | null> {
  const id = /^token:(.*)$/.exec(account)?.[1];
  const limits = id === undefined ? undefined : (await readToken(read, id))?.details.limits;
  return limits ? limitSetOf(limits) : null;
}
