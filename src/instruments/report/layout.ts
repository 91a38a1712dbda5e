// Where the panels of a drawing are: most figures are one plot, some a small one for each size,
// since bandwidths of 1 byte and of 100 MB differ by a million and what changes would be invisible.
import type { Figure, Series } from './figure.ts';

/** The size of the drawing, which the page scales; it is made for 376 pixels and more. */
export const widthPx = 400;

export interface Panel {
  /** Empty: it is the only one. */
  name: string;
  grid: { left: number; top: number; width: number; height: number };
  series: readonly Series[];
  /** At most about so many. */
  ticks: { x: number; y: number };
  /** Whether ticks along x have texts. */
  isLabelled: boolean;
  /** Which axes say what they are of. */
  titles: { x: boolean; y: boolean };
}

export interface Layout {
  heightPx: number;
  panels: readonly Panel[];
}

const left = 62;
const right = 18;
const bottom = 44;
const plotHeight = 230;
const panelTop = 26;

export function layoutOf({ series, panelColumns = 1 }: Figure): Layout {
  const names = [...new Set(series.flatMap(({ panel }) => panel ?? []))];
  if (names.length === 0) {
    const grid = { left, top: 12, width: widthPx - left - right, height: plotHeight };
    const axes = { ticks: { x: 6, y: 6 }, isLabelled: true, titles: { x: true, y: true } };
    return { heightPx: 12 + plotHeight + bottom, panels: [{ name: '', grid, series, ...axes }] };
  }
  const isSingle = panelColumns === 1;
  const gapPx = 52;
  const width = (widthPx - left - right - (panelColumns - 1) * gapPx) / panelColumns;
  const height = isSingle && names.length > 2 ? 78 : 110;
  const rowHeight = panelTop + height + (isSingle ? 4 : 22);
  const rows = Math.ceil(names.length / panelColumns);
  const panels = names.map((name, index) => {
    const [row, column] = [Math.floor(index / panelColumns), index % panelColumns];
    return {
      name,
      grid: {
        left: left + column * (width + gapPx),
        top: row * rowHeight + panelTop,
        width,
        height,
      },
      series: series.filter(({ panel }) => panel === name),
      ticks: { x: isSingle ? 6 : 2, y: 3 },
      isLabelled: !isSingle || index === names.length - 1,
      titles: {
        x: index + panelColumns >= names.length,
        y: column === 0 && row === Math.floor((rows - 1) / 2),
      },
    };
  });
  return { heightPx: rows * rowHeight + bottom - (isSingle ? 4 : 22), panels };
}
