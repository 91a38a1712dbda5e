// What answers tell of what is left: `RateLimit-Policy` and `RateLimit` where the unit is requests
// or bytes, and `x-bursar-budget` where it is money. Of several limits on what the request drew on
// the tightest is told, and only to who may see its account. It is as of the last time that the
// ledger was asked, less what was set aside since: a hint, never a promise. Without limits it costs
// nothing.
// Specification: draft-ietf-httpapi-ratelimit-headers-11; Structured Fields, RFC 9651.
import type { Headroom } from '../../quota/leases/requests.ts';
import type { Hold } from '../../quota/leases/reservation.ts';
import type { Rates } from '../../quota/rates.ts';
import type { LimitAudience } from './limit-refusals.ts';

type Told = 'requests' | 'ingressBytes' | 'egressBytes' | 'spend';

/** A limit of an account, and what is left of it. */
interface Tightest {
  account: string;
  cap: Headroom;
  left: number;
}

/** How a limit is told; `policy` is empty where it is money. */
interface Text {
  left: number;
  /** Until its window ends. */
  seconds: number;
  policy: string;
  limit: string;
}

export interface LimitedRequest {
  /** What it had set aside, in accounts with limits. */
  holds: readonly Hold[];
  rates: Rates;
  /** Those whose rates it met. */
  ratedAccounts: readonly string[];
  audience: LimitAudience;
}

/** The most that an Integer of a structured field can be. */
const integerMax = 999_999_999_999_999;

/** Adds what there is to tell to the headers of an answer. */
export function tellLimits(
  headers: Record<string, string>,
  { holds, rates, ratedAccounts, audience }: LimitedRequest,
): void {
  const nowMs = Date.now();
  const seen = holds.filter(({ lease }) => audience.maySee(lease.account));
  const told: Text[] = [];
  for (const meter of countedMeters) {
    const tightest = findTightest(seen, meter, nowMs);
    if (tightest) told.push(textOf(tightest, nowMs));
  }
  let { policies, limits } = joined(told);
  const rate =
    ratedAccounts.length > 0 && rates.tightest(ratedAccounts.filter((one) => audience.maySee(one)));
  if (rate) {
    const name = `${limits && ', '}"rate ${rate.account}"`;
    policies += `${name};q=${integerOf(rate.perSecond)};qu="requests";w=1`;
    limits += `${name};r=${integerOf(rate.left)};t=1`;
  }
  if (limits !== '') {
    headers['ratelimit-policy'] = policies;
    headers.ratelimit = limits;
  }
  const spend = findTightest(seen, 'spend', nowMs);
  if (spend) headers['x-bursar-budget'] = textOf(spend, nowMs).limit;
}

const countedMeters = ['requests', 'ingressBytes', 'egressBytes'] as const;

/** The cap that leaves least, of those on a meter that the request drew on. */
function findTightest(holds: readonly Hold[], meter: Told, nowMs: number): Tightest | null {
  let found: Tightest | null = null;
  for (const { lease, amounts } of holds) {
    if (!amounts[meter]) continue;
    const cap = lease.tightest(meter, nowMs);
    if (!cap) continue;
    const left = lease.leftOf(cap);
    if (found === null || left < found.left) found = { account: lease.account, cap, left };
  }
  return found;
}

/** One text serves many answers, until what is left is another by a part in a thousand. */
const texts = new WeakMap<Headroom, Text>();

function textOf(tightest: Tightest, nowMs: number): Text {
  const { cap, left } = tightest;
  const seconds = secondsUntil(cap, nowMs);
  const known = texts.get(cap);
  if (known?.seconds === seconds && Math.abs(known.left - left) * 1000 < known.left) return known;
  const text = { left, seconds, ...describe(tightest, seconds) };
  texts.set(cap, text);
  return text;
}

/** What several say together, as it was made last. */
interface Joined {
  of: readonly Text[];
  policies: string;
  limits: string;
}

/** By the first of them. To join them, and to read through what was joined, takes a microsecond. */
const joins = new WeakMap<Text, Joined>();

function joined(told: readonly Text[]): Joined {
  const [first] = told;
  if (!first) return { of: told, policies: '', limits: '' };
  const known = joins.get(first);
  if (known?.of.length === told.length && told.every((text, i) => text === known.of[i])) {
    return known;
  }
  const policies = told.map(({ policy }) => policy).join(', ');
  const limits = told.map(({ limit }) => limit).join(', ');
  const made = { of: told, policies, limits };
  joins.set(first, made);
  return made;
}

function describe(
  { account, cap, left }: Tightest,
  seconds: number,
): Pick<Text, 'policy' | 'limit'> {
  const { meter, window } = cap;
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

function secondsUntil({ resetMs }: Headroom, nowMs: number): number {
  return Math.ceil((resetMs - nowMs) / 1000);
}

function integerOf(amount: number): number {
  return Math.max(0, Math.min(Math.floor(amount), integerMax));
}
