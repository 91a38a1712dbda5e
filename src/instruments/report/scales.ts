// Where numbers are on an axis, and which ticks it has. Logarithmic axes are drawn as linear ones
// of logarithms, whose bounds and ticks are round numbers.
import type { Axis } from './figure.ts';

export interface Tick {
  /** As `place` gives it. */
  at: number;
  text: string;
}

export interface Span {
  min: number;
  max: number;
  ticks: readonly Tick[];
  place(value: number): number;
}

/** `values`: what shall be on it; `ticks`: about how many, at most. */
export function axisSpan(
  axis: Axis,
  { values, ticks: wanted }: { values: readonly number[]; ticks: number },
): Span {
  const isLog = axis.scale === 'log';
  const place = isLog ? (value: number) => Math.log10(Math.max(value, 1e-12)) : Number;
  const placed = values.filter((value) => Number.isFinite(value) && !(isLog && value <= 0));
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of placed.length > 0 ? placed : [1]) {
    min = Math.min(min, place(value));
    max = Math.max(max, place(value));
  }
  const { show } = axis;
  if (isLog) return { ...logTicks({ min, max, wanted }, show), place };
  min = axis.min ?? min;
  max = axis.max ?? max;
  if (axis.ticks) {
    const pad = axis.min === undefined ? Math.max((max - min) * 0.06, 0.4) : 0;
    return { min: min - pad, max: max + pad, ticks: axis.ticks, place };
  }
  const isOpenAbove = axis.max === undefined;
  return { ...linearTicks({ min, max, wanted, isOpenAbove }, show), place };
}

interface Bounds {
  min: number;
  max: number;
  wanted: number;
}

/** Digits that ticks begin with, from close ones to those a decade apart. */
const tickDigits = [[1, 2, 5], [1, 3], [1]] as const;

/** Bounds and ticks at round numbers, of logarithms to base 10. */
function logTicks({ min, max, wanted }: Bounds, show: Axis['show']): Omit<Span, 'place'> {
  const bounds = roundLogs([1, 2, 5], { min, max });
  const low = bounds.findLast((at) => at <= min + 1e-9) ?? min;
  const high = bounds.find((at) => at >= max - 1e-9 && at > low) ?? max;
  const inside = (digits: readonly number[]) =>
    roundLogs(digits, { min, max }).filter((at) => at >= low - 1e-9 && at <= high + 1e-9);
  const few = tickDigits.map(inside).find(({ length }) => length <= wanted + 1);
  const every = Math.ceil((high - low) / wanted);
  const found = few ?? inside([1]).filter((at) => Math.round(at) % every === 0);
  const ticks = found.map((at) => ({ at, text: show(Number((10 ** at).toPrecision(1))) }));
  return { min: low, max: high, ticks };
}

/** Logarithms of numbers with one of the digits and zeros, from below `min` to above `max`. */
function roundLogs(
  digits: readonly number[],
  { min, max }: { min: number; max: number },
): number[] {
  const logs: number[] = [];
  for (let decade = Math.floor(min) - 1; decade <= Math.ceil(max); decade++) {
    for (const digit of digits) logs.push(Math.log10(digit) + decade);
  }
  return logs;
}

function linearTicks(
  { min, max, wanted, isOpenAbove }: Bounds & { isOpenAbove: boolean },
  show: Axis['show'],
): Omit<Span, 'place'> {
  const spread = max - min || Math.abs(max) || 1;
  const size = 10 ** Math.floor(Math.log10(spread / wanted));
  const step = [1, 2, 5, 10].map((digit) => digit * size).find((one) => spread / one <= wanted);
  const width = step ?? size * 10;
  const first = Math.floor(min / width + 1e-9);
  const last = isOpenAbove ? Math.ceil(max / width - 1e-9) : Math.floor(max / width + 1e-9);
  const count = Math.max(1, last - first) + 1;
  const ticks = Array.from({ length: count }, (_, index) => {
    // Multiples of a width such as 0.1 have crumbs of binary fractions.
    const at = Number(((first + index) * width).toPrecision(12));
    return { at, text: show(at) };
  });
  const highest = ticks.at(-1)?.at ?? max;
  return { min: ticks[0]?.at ?? min, max: isOpenAbove ? highest : Math.max(max, highest), ticks };
}
