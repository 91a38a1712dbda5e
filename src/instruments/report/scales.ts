// Where numbers are on an axis, and which ticks it has. Logarithmic axes are drawn as linear ones of
// logarithms, with ticks at round numbers: 1, 10, 100, or 1, 2 and 5 of each decade if there are few.
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

const ticksWanted = 6;

export function axisSpan(axis: Axis, values: readonly number[]): Span {
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
  if (isLog) return { ...logTicks(min, max, show), place };
  min = axis.min ?? min;
  max = axis.max ?? max;
  if (axis.ticks) {
    const pad = axis.min === undefined ? Math.max((max - min) * 0.06, 0.4) : 0;
    return { min: min - pad, max: max + pad, ticks: axis.ticks, place };
  }
  return { ...linearTicks({ min, max, isOpenAbove: axis.max === undefined }, show), place };
}

/** Bounds and ticks at round numbers of logarithms to base 10. */
function logTicks(min: number, max: number, show: Axis['show']): Omit<Span, 'place'> {
  const decades = max - min;
  const digits = decades > 3 ? [1] : [1, 2, 5];
  const every = Math.ceil(decades / ticksWanted);
  const rounds: number[] = [];
  for (let decade = Math.floor(min) - 1; decade <= Math.ceil(max); decade++) {
    for (const digit of digits) rounds.push(Math.log10(digit * 10 ** decade));
  }
  const low = rounds.findLast((at) => at <= min + 1e-9) ?? min;
  const high = rounds.find((at) => at >= max - 1e-9 && at > low) ?? max;
  const ticks = rounds
    .filter((at) => at >= low && at <= high)
    .filter((at) => every <= 1 || Math.round(at - low) % every === 0)
    .map((at) => ({ at, text: show(Number((10 ** at).toPrecision(1))) }));
  return { min: low, max: high, ticks };
}

function linearTicks(
  { min, max, isOpenAbove }: { min: number; max: number; isOpenAbove: boolean },
  show: Axis['show'],
): Omit<Span, 'place'> {
  const spread = max - min || Math.abs(max) || 1;
  const size = 10 ** Math.floor(Math.log10(spread / ticksWanted));
  const step = [1, 2, 5, 10]
    .map((digit) => digit * size)
    .find((one) => spread / one <= ticksWanted);
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
