// The wall clock, in one place, so that nobody mixes units.

/** A difference that clocks are corrected by without anybody being asked. */
export const stepMsMax = 5 * 60_000;

/** The longest that a timer of Node waits, milliseconds: what is longer it takes for 1. */
export const timerMsMax = 2 ** 31 - 1;

/** Milliseconds since the Unix epoch. */
export function nowMs(): number {
  return Date.now();
}

/** Monotonic milliseconds with fractions, for durations only. */
export function monotonicMs(): number {
  return performance.now();
}

const minuteMs = 60_000;
/** The minute that was written last: to write one takes longer than what is behind it. */
let written = { minute: Number.NaN, text: '' };

/** `2026-11-20T22:51:16.000Z`: RFC 3339 with milliseconds, as S3's XML has it. */
export function isoTime(timeMs: number): string {
  const wholeMs = Math.trunc(timeMs);
  const minute = Math.floor(wholeMs / minuteMs);
  if (minute !== written.minute) {
    const text = new Date(minute * minuteMs).toISOString().slice(0, -'00.000Z'.length);
    written = { minute, text };
  }
  const digits = String(1e5 + wholeMs - minute * minuteMs);
  return `${written.text}${digits.slice(1, 3)}.${digits.slice(3)}Z`;
}

/** S3 shows whole seconds: `2026-11-20T22:51:16.000Z`. */
export function s3Time(timeMs: number): string {
  return isoTime(Math.floor(timeMs / 1000) * 1000);
}

/** `Fri, 20 Nov 2026 22:51:16 GMT` (RFC 9110, IMF-fixdate). */
export function httpTime(timeMs: number): string {
  return new Date(timeMs).toUTCString();
}

/** Beyond it no date can be written with four digits of a year. */
export const dateMsMax = Date.UTC(9999, 11, 31);
