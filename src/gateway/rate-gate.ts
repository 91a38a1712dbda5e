// Where requests meet the rates of the accounts that they are charged to: after it was decided that
// they may be made, so a stranger uses up nobody's rate, and before anything is set aside for them
// or their body is sent.
import type { ServerResponse } from 'node:http';
import { type Charged, drawsOf } from '../quota/charge.ts';
import type { Rates, ShapedStream } from '../quota/rates.ts';
import { type LimitAudience, slowDown } from './limit-refusals.ts';

/**
 * Lets a request in; gives what its bytes have to go through, in both directions, until the response
 * is closed. Null: nothing slows them. Throws `Refusal` SlowDown, which takes nothing of any rate.
 */
export function enterAtRate(
  rates: Rates,
  charged: Charged,
  { audience, response }: { audience: LimitAudience; response: ServerResponse },
): ShapedStream | null {
  if (rates.isEmpty) return null;
  const accounts = drawsOf(charged, {}, null).map(({ account }) => account);
  const tooFast = rates.admit(accounts);
  if (tooFast) throw slowDown(tooFast, audience);
  const stream = rates.openStream(accounts);
  if (!stream) return null;
  response.once('close', () => stream.close());
  if (response.destroyed) stream.close();
  return stream;
}
