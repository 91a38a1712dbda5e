// Locks at random, as the ledger asks for them: whatever is tried in whatever order, a version
// under compliance is there until the latest date that it ever had, and one under governance unless
// somebody who may has freed it.
import { expect, it } from 'vitest';
import {
  type Lock,
  mayAmend,
  mayEnd,
  type Retention,
  type RetentionMode,
} from '#bursar/catalog/object-lock.js';
import { fuzz, randomBelow, randomOf } from './seeded-random.ts';

type Random = () => number;

const modes: readonly RetentionMode[] = ['GOVERNANCE', 'COMPLIANCE'];

function retentionAt(random: Random, timeMs: number): Retention | null {
  if (randomBelow(random, 6) === 0) return null;
  return { mode: randomOf(random, modes), untilMs: timeMs - 5 + randomBelow(random, 30) };
}

it('no order of tries ends a version before its time, or brings that forward', async () => {
  let ended = 0;
  await fuzz(1, 3000, (random) => {
    const lock: Lock = {};
    let timeMs = 1000;
    /** What was promised: until when nobody, and until when nobody without the right. */
    let compliantMs = 0;
    let governedMs = 0;
    for (let step = 0; step < 40; step++) {
      timeMs += randomBelow(random, 3);
      const moment = { timeMs, bypassGovernance: randomBelow(random, 4) === 0 };
      const tried = randomBelow(random, 10);
      if (tried === 0) lock.legalHold = randomBelow(random, 2) === 0;
      else if (tried < 7) {
        const retention = retentionAt(random, timeMs);
        if (!mayAmend(lock, retention, moment)) continue;
        if (compliantMs > timeMs) {
          expect(retention?.mode).toBe('COMPLIANCE');
          expect(retention?.untilMs).toBeGreaterThanOrEqual(compliantMs);
        }
        if (governedMs > timeMs && !moment.bypassGovernance) {
          expect(retention?.untilMs).toBeGreaterThanOrEqual(governedMs);
        }
        lock.retention = retention ?? undefined;
        compliantMs = retention?.mode === 'COMPLIANCE' ? retention.untilMs : 0;
        governedMs = retention?.mode === 'GOVERNANCE' ? retention.untilMs : 0;
      } else if (mayEnd(lock, moment)) {
        expect(lock.legalHold).not.toBe(true);
        expect(compliantMs).toBeLessThanOrEqual(timeMs);
        if (!moment.bypassGovernance) expect(governedMs).toBeLessThanOrEqual(timeMs);
        ended++;
        return;
      }
    }
  });
  expect(ended).toBeGreaterThan(500);
});
