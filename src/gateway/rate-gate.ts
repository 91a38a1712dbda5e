// Where requests meet the rates of the accounts that they are charged to: after it was decided that
// they may be made, so a stranger uses up nobody's rate, and before anything is set aside for them
// or their body is sent.
import { type Charged, drawsOf } from '../quota/charge.ts';
import type { Rates } from '../quota/rates.ts';
import type { Exchange } from './exchange.ts';
import { type LimitAudience, slowDown } from './limit-refusals.ts';
import { TimedStream } from './shaped-body.ts';

export interface Entered {
  /** Whom it is charged to. */
  accounts: readonly string[];
  /** What its bytes have to go through, in both directions; null: nothing slows them. */
  stream: TimedStream | null;
}

/**
 * Lets a request in, until its response is closed. Null: nobody has a rate. Throws `Refusal`
 * SlowDown, which takes nothing of any rate.
 */
export function enterAtRate(
  rates: Rates,
  charged: Charged,
  { audience, exchange }: { audience: LimitAudience; exchange: Exchange },
): Entered | null {
  if (rates.isEmpty) return null;
  const accounts = drawsOf(charged, {}, null).map(({ account }) => account);
  const tooFast = rates.admit(accounts);
  if (tooFast) throw slowDown(tooFast, audience);
  const stream = rates.openStream(accounts);
  if (!stream) return { accounts, stream };
  const { response, clock } = exchange;
  response.once('close', () => stream.close());
  if (response.destroyed) stream.close();
  return { accounts, stream: new TimedStream(stream, clock) };
}
