// A figure of the report before it is drawn: the same numbers become a plot, a table, a CSV file
// and JSON. Invariant: what is drawn is in the table, and no text in it is anybody's but the
// report's.

export type Cell = string | number | null;

export interface Column {
  /** What CSV and JSON call it: words_with_units_last. */
  key: string;
  title: string;
  show: (value: number) => string;
}

export interface Axis {
  /** With the unit. */
  title: string;
  scale: 'log' | 'linear';
  /** The text of a tick. */
  show: (value: number) => string;
  /** A bound that the numbers do not set. */
  min?: number;
  max?: number;
  /** Where ticks are, with their texts, instead of round numbers. */
  ticks?: readonly { at: number; text: string }[];
}

/** `low` and `high` are the ends of a whisker, `from` is where a bar begins that ends at `x`. */
export interface Mark {
  from?: number;
  x: number;
  y: number;
  low?: number;
  high?: number;
}

export interface Series {
  name: string;
  /** How it is told from others, 0 to 5: colour, dashes and shape together. */
  style: number;
  /** Other than its style's. */
  dashes?: number;
  look: 'steps' | 'dots' | 'whiskers' | 'bars' | 'guide';
  marks: readonly Mark[];
  /** Name of the small plot that it is in, if the figure has several. */
  panel?: string;
}

export interface Figure {
  id: string;
  title: string;
  /** What it shows, in a sentence or two. */
  says: string;
  /** Samples in it. 0: nothing was measured, and `howTo` says how it could be. */
  n: number;
  /** Samples, or pairs of them. */
  of: string;
  howTo: string;
  x: Axis;
  y: Axis;
  series: readonly Series[];
  /** Small plots beside each other. */
  panelColumns?: number;
  columns: readonly Column[];
  rows: readonly (readonly Cell[])[];
}

/** A column whose cells are words. */
export function words(key: string, title: string): Column {
  return { key, title, show: String };
}
