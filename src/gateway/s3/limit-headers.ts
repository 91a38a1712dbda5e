// What answers tell of what is left: `RateLimit-Policy` and `RateLimit` where the unit is requests
// or bytes, and `x-bursar-budget` where it is money. Of several limits on what the request drew on
// the tightest is told, and only to who may see its account. It is as of the last time that the
// ledger was asked, less what was set aside since: a hint, never a promise. Without limits it costs
// nothing.
// Specification: draft-ietf-httpapi-ratelimit-headers-11; Structured Fields, RFC 9651.
import type { Identity } from '../../authz/identity.ts';
import type { Charged } from '../../quota/charge.ts';
import type { AccountLease } from '../../quota/leases/account-lease.ts';
import type { Headroom } from '../../quota/leases/requests.ts';
import type { Hold } from '../../quota/leases/reservation.ts';
import type { Rates } from '../../quota/rates.ts';
import type { LimitAudience } from './limit-refusals.ts';

type Told = 'requests' | 'ingressBytes' | 'egressBytes' | 'spend';

/** A limit of an account, and what is left of it. */
interface Tightest {
  lease: AccountLease;
  cap: Headroom;
  left: number;
}

/** How a limit is told; `policy` is empty where it is money. */
interface Text {
  policy: string;
  limit: string;
}

export interface LimitedRequest {
  who: Identity;
  payers: Charged;
  /** What it had set aside, in accounts with limits. */
  holds: readonly Hold[];
  /** The version of all limits. */
  edition: number;
  rates: Rates;
  /** Those whose rates it met. */
  ratedAccounts: readonly string[];
  audience: () => LimitAudience;
}

/** The most that an Integer of a structured field can be. */
const integerMax = 999_999_999_999_999;

/** Adds what there is to tell to the headers of an answer. */
export function tellLimits(headers: Record<string, string>, request: LimitedRequest): void {
  const { rates, ratedAccounts, audience } = request;
  let { policies, limits, budget } = tellCaps(request);
  const rate =
    ratedAccounts.length > 0 &&
    rates.tightest(ratedAccounts.filter((one) => audience().maySee(one)));
  if (rate) {
    const name = `${limits && ', '}"rate ${rate.account}"`;
    policies += `${name};q=${integerOf(rate.perSecond)};qu="requests";w=1`;
    limits += `${name};r=${integerOf(rate.left)};t=1`;
  }
  if (limits !== '') {
    headers['ratelimit-policy'] = policies;
    headers.ratelimit = limits;
  }
  if (budget !== '') headers['x-bursar-budget'] = budget;
}

/** What the caps of leases leave, as it was told last to some; empty: there is nothing to tell. */
interface ToldCaps {
  policies: string;
  limits: string;
  budget: string;
  /** To whom. */
  principal: Identity['principal'];
  isAnonymous: boolean;
  /** Of how many accounts, and by which version of their limits. */
  holds: number;
  edition: number;
  caps: readonly Tightest[];
  /** What it says of time is no longer so, and another limit may be the tightest. */
  untilMs: number;
}

/**
 * By who pays, which many requests share, and by what was drawn on. One text serves them for a
 * second at most, until what is left is another by a part in a thousand.
 */
const toldLast = new WeakMap<Charged, (ToldCaps | undefined)[]>();

function tellCaps(request: LimitedRequest): ToldCaps {
  const { who, payers, holds } = request;
  const nowMs = Date.now();
  // With tokens, who pays is made for each request.
  if (who.delegation) return tellCapsAnew(request, nowMs);
  let known = toldLast.get(payers);
  if (!known) {
    known = [];
    toldLast.set(payers, known);
  }
  const { ingressBytes, egressBytes } = holds[0]?.amounts ?? {};
  const kind = (ingressBytes ? 1 : 0) + (egressBytes ? 2 : 0);
  const last = known[kind];
  if (last && isStillSo(last, request, nowMs)) return last;
  const told = tellCapsAnew(request, nowMs);
  known[kind] = told;
  return told;
}

function isStillSo(
  { principal, isAnonymous, holds, edition, caps, untilMs }: ToldCaps,
  { who, holds: present, edition: newest }: LimitedRequest,
  nowMs: number,
): boolean {
  if (nowMs >= untilMs || edition !== newest || holds !== present.length) return false;
  if (principal !== who.principal || isAnonymous !== who.isAnonymous) return false;
  for (const { lease, cap, left } of caps) {
    if (Math.abs(lease.leftOf(cap) - left) * 1000 >= left) return false;
  }
  return true;
}

function tellCapsAnew({ who, holds, edition, audience }: LimitedRequest, nowMs: number): ToldCaps {
  const { principal, isAnonymous } = who;
  const asks = audience();
  const seen = holds.map(({ leases, amounts }) => {
    return { leases: leases.filter(({ account }) => asks.maySee(account)), amounts };
  });
  const caps: Tightest[] = [];
  let [policies, limits] = ['', ''];
  for (const meter of countedMeters) {
    const tightest = findTightest(seen, meter, nowMs);
    if (!tightest) continue;
    caps.push(tightest);
    const { policy, limit } = describe(tightest, nowMs);
    policies += `${policies && ', '}${policy}`;
    limits += `${limits && ', '}${limit}`;
  }
  const spend = findTightest(seen, 'spend', nowMs);
  if (spend) caps.push(spend);
  const budget = spend ? describe(spend, nowMs).limit : '';
  // Windows end with a whole second, and how long they last is told in seconds.
  const untilMs = (Math.floor(nowMs / 1000) + 1) * 1000;
  const about = { principal, isAnonymous, holds: holds.length, edition, caps, untilMs };
  return { policies, limits, budget, ...about };
}

const countedMeters = ['requests', 'ingressBytes', 'egressBytes'] as const;

/** The cap that leaves least, of those on a meter that the request drew on. */
function findTightest(
  holds: readonly Pick<Hold, 'leases' | 'amounts'>[],
  meter: Told,
  nowMs: number,
): Tightest | null {
  let found: Tightest | null = null;
  for (const { leases, amounts } of holds) {
    if (!amounts[meter]) continue;
    for (const lease of leases) {
      const cap = lease.tightest(meter, nowMs);
      if (!cap) continue;
      const left = lease.leftOf(cap);
      if (found === null || left < found.left) found = { lease, cap, left };
    }
  }
  return found;
}

function describe({ lease: { account }, cap, left }: Tightest, nowMs: number): Text {
  const { meter, window } = cap;
  const seconds = Math.ceil((cap.resetMs - nowMs) / 1000);
  const reset = Number.isFinite(seconds) ? `;t=${seconds}` : '';
  if (meter === 'spend') {
    // Decimal USD to six places, rounded down.
    const usd = (Math.floor(left / 1e6) / 1e6).toFixed(6);
    return { policy: '', limit: `"${usd}";window="${window}"${reset};account="${account}"` };
  }
  const name = `"${meter}/${window} ${account}"`;
  const unit = meter === 'requests' ? 'requests' : 'content-bytes';
  const length = Number.isFinite(cap.windowMs) ? `;w=${cap.windowMs / 1000}` : '';
  return {
    policy: `${name};q=${integerOf(cap.limit)};qu="${unit}"${length}`,
    limit: `${name};r=${integerOf(left)}${reset}`,
  };
}

function integerOf(amount: number): number {
  return Math.max(0, Math.min(Math.floor(amount), integerMax));
}
