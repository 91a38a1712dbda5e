// Where requests meet the rates of accounts. Those of who asks count every call that proves who
// that is, before it is decided: also what is refused costs work and leaves a record. Those of the
// bucket and its owner count what may be done, so a stranger uses up nobody else's rate. Both come
// before anything is set aside for the request or its body is sent. What frees or administers,
// which must be possible whatever was used up, is not refused but waits.
import type { ServerResponse } from 'node:http';
import type { Identity } from '../../authz/identity.ts';
import { principalAccount, tenantAccount } from '../../quota/account-names.ts';
import { accountsOf, type Charged } from '../../quota/charge.ts';
import type { Rates } from '../../quota/rates.ts';
import type { Exchange } from '../http/exchange.ts';
import { TimedStream } from '../http/shaped-body.ts';
import { ClientGone } from './body.ts';
import { LimitAudience, slowDown } from './limit-refusals.ts';

/** What would have to wait longer is refused: a client would not wait for it. Milliseconds. */
const requestWaitMsMax = 10_000;

export interface Entered {
  /** Whom it is charged to. */
  accounts: readonly string[];
  /** What its bytes have to go through, in both directions; null: nothing slows them. */
  stream: TimedStream | null;
}

type Caller = Pick<Identity, 'principal' | 'delegation' | 'isAnonymous'>;

/**
 * The accounts of who asks: their own, their tenant's, and those of the tokens that they come with.
 */
function callerAccounts({ principal, delegation, isAnonymous }: Caller): string[] {
  if (isAnonymous) return [];
  const { tenant, name } = principal;
  const own = [principalAccount(tenant, name), tenantAccount(tenant)];
  const tokens = delegation?.accounts ?? [];
  return tokens.length === 0 ? own : [...own, ...tokens.map((token) => token.name)];
}

/**
 * Counts a call for who makes it, whatever becomes of it. Null: it may go on now. `waits`: it is
 * not refused unless it would have to wait for very long. Throws or rejects with `Refusal`
 * SlowDown.
 */
export function countCall(
  rates: Rates,
  who: Caller,
  { waits, response }: { waits: boolean; response: ServerResponse },
): Promise<void> | null {
  for (const { name, limits } of who.delegation?.accounts ?? []) {
    if (limits) rates.introduce(name, limits);
  }
  if (rates.isEmpty) return null;
  const audience = () => new LimitAudience(who, null, null);
  return enter(rates, callerAccounts(who), { waits, response, audience });
}

/**
 * Lets a request in at the rates of the others that it is charged to, until its response is closed.
 * Rejects as `countCall`.
 */
export async function enterAtRate(
  rates: Rates,
  charged: Charged,
  terms: { who: Caller; waits: boolean; audience: () => LimitAudience; exchange: Exchange },
): Promise<Entered> {
  const { who, waits, audience, exchange } = terms;
  const { response, clock } = exchange;
  const accounts = accountsOf(charged);
  const counted = callerAccounts(who);
  const others = accounts.filter((account) => !counted.includes(account));
  const waiting = enter(rates, others, { waits, response, audience });
  if (waiting) await waiting;
  const stream = rates.openStream(accounts);
  if (!stream) return { accounts, stream };
  response.once('close', () => stream.close());
  if (response.destroyed) stream.close();
  return { accounts, stream: new TimedStream(stream, clock) };
}

/**
 * A long request waits for its parts no longer than this in all: clients give up after a minute.
 * Milliseconds.
 */
export const partsWaitMsMax = 30_000;

/**
 * Has a part of a long request wait its turn, as a request of its own would, for `waitMsMax`
 * milliseconds at most. Null: it may go on. Throws `Refusal` SlowDown where that is not enough.
 */
export function countPart(
  rates: Rates,
  accounts: readonly string[],
  terms: { response: ServerResponse; waitMsMax: number; audience: () => LimitAudience },
): Promise<void> | null {
  return enter(rates, accounts, { ...terms, waits: true });
}

function enter(
  rates: Rates,
  accounts: readonly string[],
  terms: {
    waits: boolean;
    waitMsMax?: number;
    response: ServerResponse;
    audience: () => LimitAudience;
  },
): Promise<void> | null {
  if (accounts.length === 0) return null;
  const { waits, waitMsMax = requestWaitMsMax } = terms;
  const found = waits ? rates.queue(accounts, waitMsMax) : (rates.admit(accounts) ?? 0);
  if (typeof found !== 'number') throw slowDown(found, terms.audience());
  return found >= 1 ? wait(found, terms.response) : null;
}

/** Ends early, with `ClientGone`, where nobody waits for the answer any more. */
function wait(ms: number, response: ServerResponse): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      response.off('close', leave);
      resolve();
    }, ms);
    const leave = () => {
      clearTimeout(timer);
      reject(new ClientGone());
    };
    response.once('close', leave);
    if (response.destroyed) leave();
  });
}
