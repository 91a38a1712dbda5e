// Tells the operator when the system's clock steps, and when it is back.
import { steadyClock } from '../core/steady-clock.ts';

const lookEveryMs = 1000;

/** Gives a function that ends it. */
export function announceSteps(tell: (line: string) => void): () => void {
  let hadStepped = false;
  const timer = setInterval(() => {
    const { stepMs } = steadyClock;
    if (hadStepped === (stepMs !== 0)) return;
    hadStepped = stepMs !== 0;
    tell(
      hadStepped
        ? `the system's clock stepped by ${Math.round(stepMs / 1000)} s and is not followed: ` +
            'set it, ' +
            'or say that it is right with "bursar clock confirm" (docs/admin/clock.md)'
        : "the system's clock is followed again",
    );
  }, lookEveryMs);
  timer.unref();
  return () => clearInterval(timer);
}
