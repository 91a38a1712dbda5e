// When windows begin and end: the UTC calendar's minutes, hours, days and months. `total` began
// with time and never ends. Milliseconds since 1970.
import type { Window } from '../../core/quota-terms.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** When the window that `timeMs` is in began. UTC has no leap seconds in POSIX time. */
export function windowBeginMs(window: Window, timeMs: number): number {
  switch (window) {
    case 'minute':
      return timeMs - (timeMs % minuteMs);
    case 'hour':
      return timeMs - (timeMs % hourMs);
    case 'day':
      return timeMs - (timeMs % dayMs);
    case 'month': {
      const date = new Date(timeMs);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
    }
    case 'total':
      return 0;
  }
}

/** When the window ends; Infinity: never. */
export function windowEndMs(window: Window, timeMs: number): number {
  const beginMs = windowBeginMs(window, timeMs);
  switch (window) {
    case 'minute':
      return beginMs + minuteMs;
    case 'hour':
      return beginMs + hourMs;
    case 'day':
      return beginMs + dayMs;
    case 'month': {
      const date = new Date(beginMs);
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
    }
    case 'total':
      return Number.POSITIVE_INFINITY;
  }
}
