// What holders of leases ask of the ledger about limits, and what they are answered. Plain data: it
// crosses threads. All but posts are requests of their own; posts travel in the operation's commit.
// `holder` is the number of the thread that asks, whose lease it is about.
import type { Limits, Meter, Window } from '../../core/quota-terms.ts';
import type { MeterAmounts, TokenFacts } from '../amounts.ts';

/** Sets amounts aside in several accounts: what is needed in all of them, or nothing at all. */
export interface DrawRequest {
  holder: number;
  draws: AccountDraw[];
}

/** Takes off leases what their holder does not need. */
export interface GiveBackRequest {
  holder: number;
  returns: readonly Return[];
}

/** What comes off the lease of an account. */
export interface Return {
  readonly account: string;
  readonly amounts: MeterAmounts;
}

/** A token as its link has it. */
export interface LimitedToken extends TokenFacts {
  readonly limits: Limits;
}

export interface AccountDraw {
  account: string;
  /** The request is refused if there is less than this. */
  need: MeterAmounts;
  /** As much of it beyond the need as the limit's nearness allows; possibly nothing. */
  want: MeterAmounts;
  /** Its limits become the account's; where the account has some already, the tighter ones hold. */
  token?: LimitedToken;
  /** The other holders were asked for what they have free of it: a refusal is the last word. */
  isRecalled?: boolean;
}

export type DrawAnswer =
  /** `granted`: need and part of what was wanted, one for each draw; `headroom`: the same. */
  | { ok: true; granted: MeterAmounts[]; headroom: Headroom[][] }
  /** `heldByOthers`: it may be there when the other holders have given back what they have free. */
  | { ok: false; shortage: Shortage; heldByOthers: boolean }
  /** To be asked again, knowing the account's limits. */
  | { ok: false; tighter: TighterLimits };

/** An account's limits, tighter than the token's link says: two links have one `jti`. */
export interface TighterLimits {
  readonly account: string;
  readonly limits: Limits;
  /** They are this moment: other holders lease of the account who do not know them. */
  readonly isNew: boolean;
}

/** What a cap left besides all leases when the ledger was last asked, to be told to clients. */
export interface Headroom {
  readonly meter: Meter;
  readonly window: Window;
  /** The amount in units of the meter, as near as a number can hold it. */
  readonly limit: number;
  left: number;
  /** Length of the window; Infinity: it never ends. */
  readonly windowMs: number;
  /** When the window ends, in milliseconds since 1970. */
  readonly resetMs: number;
}

/** An account in which something is held, with the meters that were limited at that time. */
export interface HeldAccount {
  readonly account: string;
  readonly limited: readonly Meter[];
}

/**
 * What a step of a reservation held: the same in several accounts. Requests that hold in the same
 * accounts share one list of them, which crosses threads once for all that cross together.
 */
export interface Held {
  readonly accounts: readonly HeldAccount[];
  readonly amounts: MeterAmounts;
}

/** What a posted reservation held. It travels in the commit. */
export interface Settlement {
  holder: number;
  /** An account may be in more than one. */
  held: readonly Held[];
  /**
   * Whether limits changed between the steps of the request. Then more may be used than was held.
   */
  isMixed: boolean;
}

/** The settlement of an operation that had reserved nothing. */
export const noSettlement: Settlement = { holder: 0, held: [], isMixed: false };

/** Why an operation is refused: `used + reserved + asked` would be more than `limit`. */
export interface Shortage {
  account: string;
  meter: Meter;
  window: Window;
  limit: bigint;
  /** The amount used in this window, including what was lost in crashes. */
  used: bigint;
  /** The amount reserved by operations under way, and set aside for those to come. */
  reserved: bigint;
  asked: bigint;
  /** When the window ends, in milliseconds since 1970. Infinity means never. */
  resetMs: number;
}
