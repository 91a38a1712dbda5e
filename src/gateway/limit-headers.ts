// What answers tell of what is left: `RateLimit-Policy` and `RateLimit` where the unit is requests or
// bytes, and `x-bursar-budget` where it is money. Of several limits the tightest is told, and only to
// who may see its account. It is as of the last time that the ledger was asked, less what was set
// aside since: a hint, never a promise. Without limits it costs nothing.
// Specification: draft-ietf-httpapi-ratelimit-headers-11; Structured Fields, RFC 9651.
import type { Meter } from '../core/quota-terms.ts';
import type { Headroom } from '../quota/leases/requests.ts';
import type { Hold } from '../quota/leases/reservation.ts';
import type { Rates } from '../quota/rates.ts';
import type { LimitAudience } from './limit-refusals.ts';

/** A limit of an account, and what is left of it. */
interface Tightest {
  account: string;
  cap: Headroom;
  left: number;
}

export interface LimitedRequest {
  /** What it had set aside, in accounts with limits. */
  holds: readonly Hold[];
  rates: Rates;
  /** Those whose rates it met. */
  ratedAccounts: readonly string[];
  audience: LimitAudience;
}

const units = { requests: 'requests', ingressBytes: 'content-bytes', egressBytes: 'content-bytes' };
/** The most that an Integer of a structured field can be. */
const integerMax = 999_999_999_999_999;

/** Adds what there is to tell to the headers of an answer. */
export function tellLimits(
  headers: Record<string, string>,
  { holds, rates, ratedAccounts, audience }: LimitedRequest,
): void {
  const policies: string[] = [];
  const limits: string[] = [];
  const nowMs = Date.now();
  for (const meter of ['requests', 'ingressBytes', 'egressBytes'] as const) {
    const tightest = findTightest(holds, meter, audience, nowMs);
    if (!tightest) continue;
    const { account, cap, left } = tightest;
    const name = `"${meter}/${cap.window} ${account}"`;
    const isEndless = cap.windowMs === Number.POSITIVE_INFINITY;
    const seconds = isEndless ? '' : `;w=${cap.windowMs / 1000}`;
    policies.push(`${name};q=${integerOf(cap.limit)};qu="${units[meter]}"${seconds}`);
    limits.push(`${name};r=${integerOf(left)}${isEndless ? '' : `;t=${secondsUntil(cap, nowMs)}`}`);
  }
  const seen = ratedAccounts.filter((account) => audience.maySee(account));
  const rate = rates.tightest(seen);
  if (rate) {
    const name = `"rate ${rate.account}"`;
    policies.push(`${name};q=${integerOf(rate.perSecond)};qu="requests";w=1`);
    limits.push(`${name};r=${integerOf(rate.left)};t=1`);
  }
  if (limits.length > 0) {
    headers['ratelimit-policy'] = policies.join(', ');
    headers.ratelimit = limits.join(', ');
  }
  const budget = findTightest(holds, 'spend', audience, nowMs);
  if (budget) headers['x-bursar-budget'] = budgetOf(budget, nowMs);
}

/** The cap that leaves least, of those that may be told; a window that is over says nothing. */
function findTightest(
  holds: readonly Hold[],
  meter: Meter,
  audience: LimitAudience,
  nowMs: number,
): Tightest | undefined {
  let found: Tightest | undefined;
  for (const { lease } of holds) {
    for (const cap of lease.headroom) {
      if (cap.meter !== meter || cap.resetMs <= nowMs) continue;
      const left = lease.leftOf(cap);
      if (found && found.left <= left) continue;
      if (audience.maySee(lease.account)) found = { account: lease.account, cap, left };
    }
  }
  return found;
}

/** Decimal USD to six places, rounded down. */
function budgetOf({ account, cap, left }: Tightest, nowMs: number): string {
  const usd = (Math.floor(left / 1e6) / 1e6).toFixed(6);
  const reset = cap.windowMs === Number.POSITIVE_INFINITY ? '' : `;t=${secondsUntil(cap, nowMs)}`;
  return `"${usd}";window="${cap.window}"${reset};account="${account}"`;
}

function secondsUntil({ resetMs }: Headroom, nowMs: number): number {
  return Math.ceil((resetMs - nowMs) / 1000);
}

function integerOf(amount: number): number {
  return Math.max(0, Math.min(Math.floor(amount), integerMax));
}
