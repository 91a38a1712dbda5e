// What came from a store over a network may have been damaged on its way, or taken from a cache
// that is stale: it is asked for once more before what is stored is said to be damaged. Invariant:
// once, and never instead of a check: what comes the second time is verified as the first was.
import { IntegrityError } from '../../core/errors.ts';
import type { StoreMeter } from './store-meter.ts';

/** The cause by which it is counted, as a failed try and as one that was made again. */
export const damagedCause = 'damaged';

/** Counts an answer that failed verification and is asked for again. */
export function noteDamage(meter: StoreMeter): void {
  meter.failed(damagedCause);
  meter.retried(damagedCause);
}

/** Runs `ask` a second time when the first one throws IntegrityError. */
export async function askAgain<T>(meter: StoreMeter, ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    noteDamage(meter);
    return ask();
  }
}
