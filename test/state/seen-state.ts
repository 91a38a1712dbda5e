// A state that is told of a ledger's changes, with those who keep to its limits, and a clock that
// stepped.
import { onlyPrivate } from '#bursar/authz/oidc/address-policy.js';
import { monotonicMs, stepMsMax } from '#bursar/core/clock.js';
import { Keyring, type RootKey } from '#bursar/core/keyring.js';
import { Sealer } from '#bursar/core/sealing.js';
import { SteadyClock } from '#bursar/core/steady-clock.js';
import { type CorsRules, readCorsRules } from '#bursar/gateway/s3/buckets/cors.js';
import { LeaseHolder } from '#bursar/quota/leases/lease-holder.js';
import { Rates } from '#bursar/quota/rates.js';
import { State } from '#bursar/state/state.js';
import { type LedgerFixture, rootKey } from '../ledger/fixture.ts';

export interface Seen {
  state: State<CorsRules>;
  leaseHolder: LeaseHolder;
  rates: Rates;
  clock: SteadyClock;
}

/** As it is loaded now; it is told of nothing until it is subscribed. */
export async function loadState({ read, ledger }: LedgerFixture): Promise<Seen> {
  const keyring = new Keyring([rootKey]);
  const clock = steppedClock();
  const state = await State.load({
    ...{ read, keyring, sealer: new Sealer(keyring), readCors: readCorsRules, clock },
    issuerPolicy: onlyPrivate([]),
  });
  const leaseHolder = new LeaseHolder(ledger, monotonicMs);
  const rates = new Rates();
  state.limits.begin(leaseHolder, rates);
  return { state, leaseHolder, rates, clock };
}

/** Keys are known before they begin, as a rotation has it. */
export function learn({ state }: Seen, key: RootKey): void {
  state.keyring.learn(key);
}

function steppedClock(): SteadyClock {
  let stepMs = 0;
  const wallMs = () => 1_000_000_000 + monotonicMs() + stepMs;
  const clock = new SteadyClock({ wallMs, monotonicMs, bootMs: () => null });
  stepMs = 10 * stepMsMax;
  return clock;
}
