// How refusals for want of budget read, and who is told what. Invariant: what an account has used
// and may use is told only to who may ask for it: its principal, the tenant's admins, the operator,
// and of a token its bearer. Everybody else learns which limit it was and until when; and who is of
// another tenant, or of none, knows the bucket's side by the bucket alone, as they named it.
// Specification: docs/users/limits.md.
import type { Identity } from '../../authz/identity.ts';
import { Refusal } from '../../core/errors.ts';
import { formatUsd } from '../../core/money.ts';
import { isLevel, perWindow } from '../../core/quota-terms.ts';
import { type Account, maySeeAccount, parseAccount } from '../../quota/accounts.ts';
import type { Charged } from '../../quota/charge.ts';
import type { Shortage } from '../../quota/leases/requests.ts';
import type { TooFast } from '../../quota/rates.ts';

/** How far roles see, as the native API has it where no grants say otherwise. */
const reaches = { operator: 'all', admin: 'tenant', auditor: 'tenant', member: 'self' } as const;

/** Each answer asks about the same few. */
const accounts = new Map<string, Account>();
const accountsKeptMax = 10_000;

function accountOf(name: string): Account | undefined {
  const known = accounts.get(name);
  if (known) return known;
  const account = parseAccount(name);
  if (accounts.size >= accountsKeptMax) accounts.clear();
  if (account) accounts.set(name, account);
  return account;
}

type Asker = Pick<Identity, 'principal' | 'delegation' | 'isAnonymous'>;

/** Who asks, as far as it decides what they are told. */
export class LimitAudience {
  readonly #who: Asker;
  readonly #bucket: Charged['bucket'];
  readonly #askedName: string | null;

  /** `askedName`: the bucket, as the request named it. */
  constructor(who: Asker, bucket: Charged['bucket'], askedName: string | null) {
    this.#who = who;
    this.#bucket = bucket;
    this.#askedName = askedName;
  }

  /** May they see the account's limits and use? */
  maySee(account: string): boolean {
    const parsed = accountOf(account);
    if (parsed === undefined || this.#isStranger) return false;
    if (parsed.kind === 'token') return true;
    const { delegation, principal } = this.#who;
    // What was given only some of the principal's rights was not given its figures.
    if (delegation && (delegation.scope !== null || delegation.policies.length > 0)) return false;
    const { owner, tenant } = this.#bucket ?? {};
    const holder = owner !== undefined && tenant !== undefined ? { tenant, name: owner } : null;
    return maySeeAccount(principal, reaches[principal.role], parsed, holder);
  }

  /** The account by a name that they know; undefined: they know none. */
  nameOf(account: string): string | undefined {
    const parsed = parseAccount(account);
    const isToken = parsed?.kind === 'token';
    const isNear = isToken || parsed?.tenant === this.#who.principal.tenant;
    if ((isNear && !this.#isStranger) || this.maySee(account)) return account;
    // Who holds a share link was not told what it leads to.
    if (this.#who.delegation?.shareId !== undefined || this.#askedName === null) return undefined;
    return `bucket:${this.#askedName}`;
  }

  get #isStranger(): boolean {
    return this.#who.isAnonymous || this.#who.delegation?.shareId !== undefined;
  }
}

/** 403 QuotaExceeded: which account, which limit, how much, and until when. */
export function quotaExceeded(shortage: Shortage, audience: LimitAudience): Refusal {
  const { account, meter, window, limit, used, reserved, asked, resetMs } = shortage;
  const unit = meter === 'spend' ? ' USD' : '';
  const amount = (value: bigint): string =>
    meter === 'spend' ? formatUsd(value) : value.toString();
  const name = audience.nameOf(account);
  const reset = Number.isFinite(resetMs) ? new Date(resetMs).toISOString() : 'never';
  const limitWords = `The limit of ${name ?? 'an account'} on ${meter}${perWindow(window)}`;
  const about = { ...(name && { Account: name }), Limit: meter, Window: window };
  const rest = { Asked: amount(asked), Reset: reset };
  if (!audience.maySee(account)) {
    const message = `${limitWords} leaves too little for this request. ${resetWords(shortage)}`;
    return new Refusal('QuotaExceeded', { message, fields: { ...about, ...rest } });
  }
  const beyond = used > limit ? ` ${beyondWords(shortage)}` : '';
  return new Refusal('QuotaExceeded', {
    message:
      `${limitWords} is ${amount(limit)}${unit}: ${amount(used)} used, ` +
      `${amount(reserved)} reserved, ${amount(asked)} asked for.${beyond} ${resetWords(shortage)}`,
    fields: {
      ...about,
      ...{ Max: amount(limit), Used: amount(used), Reserved: amount(reserved) },
      ...rest,
    },
  });
}

/** Money alone can come to more by itself: what is stored is charged whatever limits say. */
function beyondWords({ meter }: Shortage): string {
  const lowered = 'It was lowered below what is used already';
  return meter === 'spend' ? `${lowered}, or storage took it there.` : `${lowered}.`;
}

function resetWords({ meter, resetMs }: Shortage): string {
  if (isLevel(meter))
    return 'Deleting makes room, but for what snapshots and undelete windows hold.';
  if (!Number.isFinite(resetMs)) return 'It is never reset.';
  return `It is reset at ${new Date(resetMs).toISOString()}.`;
}

/** 503 SlowDown, with how long to wait. */
export function slowDown(
  { account, perSecond, waitMs }: TooFast,
  audience: LimitAudience,
): Refusal {
  const name = audience.nameOf(account);
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  const max = audience.maySee(account) ? ` of ${perSecond} requests per second` : '';
  const message =
    `Please reduce your request rate: the rate${max} of ${name ?? 'an account'} is used up. ` +
    `Try again in ${seconds} s.`;
  const fields = { ...(name && { Account: name }), Limit: 'rate', RetryAfter: String(seconds) };
  return new Refusal('SlowDown', { message, fields });
}
