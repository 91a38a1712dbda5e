// Native API: the clock that records and windows of limits go by (docs/admin/clock.md).
import { isoTime, stepMsMax } from '../../core/clock.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import type { NativeRoute } from './route.ts';
import { answerObject, integer, time } from './schemas.ts';

const clock = answerObject({
  time: { ...time, description: 'What records and windows of limits go by.' },
  systemTime: time,
  stepMs: integer(
    'How far the system’s clock has stepped from the first, and is not followed; 0: it is ' +
      `followed, as up to ${stepMsMax} ms.`,
  ),
});

export const clockRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url: '/_/v1/clock',
    action: 'bursar:GetClock',
    summary: 'Show the clock, and whether the system’s has stepped from it.',
    answer: clock,
    run: async () => ({ answer: show() }),
  },
  {
    method: 'POST',
    url: '/_/v1/clock/confirmations',
    action: 'bursar:ConfirmClock',
    summary: 'Say that the system’s clock is right: it is followed from now on.',
    answer: clock,
    run: async () => ({
      change: { kind: 'confirmClock', stepMs: steadyClock.stepMs },
      target: 'clock',
      answer: async () => {
        // This is the main thread's clock; the ledger's thread has its own, which the commit has
        // set.
        return show();
      },
    }),
  },
];

function show(): object {
  const [timeMs, { stepMs }] = [steadyClock.nowMs(), steadyClock];
  return { time: isoTime(timeMs), systemTime: isoTime(Date.now()), stepMs };
}
