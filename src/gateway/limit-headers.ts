// What answers tell of what is left: `RateLimit-Policy` and `RateLimit` where the unit is requests or
// bytes, and `x-bursar-budget` where it is money. Of several limits on what the request drew on the
// tightest is told, and only to who may see its account. It is as of the last time that the ledger
// was asked, less what was set aside since: a hint, never a promise. Without limits it costs nothing.
// Specification: draft-ietf-httpapi-ratelimit-headers-11; Structured Fields, RFC 9651.
import type { Meter } from '../core/quota-terms.ts';
import type { Headroom } from '../quota/leases/requests.ts';
import type { Hold } from '../quota/leases/reservation.ts';
import type { Rates } from '../quota/rates.ts';
import type { LimitAudience } from './limit-refusals.ts';

type Told = 'requests' | 'ingressBytes' | 'egressBytes' | 'spend';

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
  let policies = '';
  let limits = '';
  const nowMs = Date.now();
  const found = findTightest(holds, audience, nowMs);
  for (const meter of ['requests', 'ingressBytes', 'egressBytes'] as const) {
    const tightest = found[meter];
    if (!tightest) continue;
    const { account, cap, left } = tightest;
    const name = `${limits && ', '}"${meter}/${cap.window} ${account}"`;
    const isEndless = cap.windowMs === Number.POSITIVE_INFINITY;
    const seconds = isEndless ? '' : `;w=${cap.windowMs / 1000}`;
    policies += `${name};q=${integerOf(cap.limit)};qu="${units[meter]}"${seconds}`;
    limits += `${name};r=${integerOf(left)}${isEndless ? '' : `;t=${secondsUntil(cap, nowMs)}`}`;
  }
  const seen = ratedAccounts.filter((account) => audience.maySee(account));
  const rate = rates.tightest(seen);
  if (rate) {
    const name = `${limits && ', '}"rate ${rate.account}"`;
    policies += `${name};q=${integerOf(rate.perSecond)};qu="requests";w=1`;
    limits += `${name};r=${integerOf(rate.left)};t=1`;
  }
  if (limits !== '') {
    headers['ratelimit-policy'] = policies;
    headers.ratelimit = limits;
  }
  if (found.spend) headers['x-bursar-budget'] = budgetOf(found.spend, nowMs);
}

/**
 * The caps that leave least, of those that the request drew on and that may be told; a window that is
 * over says nothing.
 */
function findTightest(
  holds: readonly Hold[],
  audience: LimitAudience,
  nowMs: number,
): { [M in Told]?: Tightest } {
  const found: { [M in Meter]?: Tightest } = {};
  for (const { lease, amounts } of holds) {
    if (lease.headroom.length === 0 || !audience.maySee(lease.account)) continue;
    for (const cap of lease.headroom) {
      const { meter } = cap;
      if (!amounts[meter] || cap.resetMs <= nowMs) continue;
      const before = found[meter];
      const left = lease.leftOf(cap);
      if (!before) found[meter] = { account: lease.account, cap, left };
      else if (left < before.left) {
        before.account = lease.account;
        before.cap = cap;
        before.left = left;
      }
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
