// Draws figures as SVG, by ECharts on its server side: no browser, no script in what comes out. All
// colours are variables of the page, so one drawing serves light and dark. Invariants: nothing is
// in an SVG that a page without scripts does not need, and the same figure gives the same bytes. It
// takes half a second to load, so only who makes a page imports it.
import { CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, TitleComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import { atEnd } from '../../core/closing.ts';
import { escapeXml } from './document.ts';
import type { Axis, Figure, Mark, Series } from './figure.ts';
import { dashesOf, shapeOf } from './styles.ts';

use([CustomChart, LineChart, ScatterChart, GridComponent, TitleComponent, SVGRenderer]);

const fontPx = 12;

/** An SVG with title and description, which is as wide as its place. `id` is unique in the page. */
export function drawFigure(figure: Figure, id: string): string {
  const layout = layoutOf(figure);
  const { heightPx } = layout;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: widthPx, height: heightPx });
  using _chart = atEnd(() => chart.dispose());
  chart.setOption(optionsOf(figure, layout));
  return cleanSvg(chart.renderToSVGString(), { figure, id, heightPx });
}

function optionsOf({ x, y }: Figure, { panels }: Layout): Record<string, unknown> {
  const parts = panels.map((panel, index) => optionsOfPanel(panel, { x, y, index }));
  return {
    animation: false,
    silent: true,
    textStyle: { fontFamily: 'var(--font)', fontSize: fontPx, color: 'var(--ink)' },
    title: parts.map(({ title }) => title),
    grid: parts.map(({ grid }) => grid),
    xAxis: parts.map(({ xAxis }) => xAxis),
    yAxis: parts.map(({ yAxis }) => yAxis),
    series: parts.flatMap(({ series }) => series),
  };
}

function optionsOfPanel(panel: Panel, { x, y, index }: { x: Axis; y: Axis; index: number }) {
  const { series, grid, name, ticks, titles } = panel;
  const marks = series.flatMap((one) => one.marks);
  const heights = marks.flatMap((mark) => [mark.y, mark.low ?? mark.y, mark.high ?? mark.y]);
  const spanX = axisSpan(x, { values: marks.map((mark) => mark.x), ticks: ticks.x });
  const spanY = axisSpan(y, { values: heights, ticks: ticks.y });
  const place = (mark: Mark): Placed => ({
    from: mark.from,
    at: [spanX.place(mark.x), spanY.place(mark.y)],
    ends: mark.low === undefined ? null : [spanY.place(mark.low), spanY.place(mark.high ?? mark.y)],
  });
  const ofPanel = { xAxisIndex: index, yAxisIndex: index };
  return {
    title: {
      text: name,
      left: grid.left - 5,
      top: grid.top - 22,
      textStyle: { color: 'var(--ink)', fontSize: fontPx, fontWeight: 'bold' },
    },
    grid: { ...grid, outerBoundsMode: 'none' },
    xAxis: {
      gridIndex: index,
      ...axisOptions(titles.x ? x.title : '', panel.isLabelled ? spanX : silence(spanX), 26),
    },
    yAxis: { gridIndex: index, ...axisOptions(titles.y ? y.title : '', spanY, 46) },
    series: series.flatMap((one, at) => {
      // Whiskers of several series in one place would hide each other.
      const aside = ((at - (series.length - 1) / 2) * (spanX.max - spanX.min)) / 80;
      const placed = one.marks.map(place).map(({ at: [px, py], ends, from }): Placed => {
        return { at: [ends ? px + aside : px, py], ends, from };
      });
      return seriesOptions(one, placed).map((options) => ({ ...options, ...ofPanel }));
    }),
  };
}

interface Placed {
  from: number | undefined;
  at: [x: number, y: number];
  ends: [low: number, high: number] | null;
}

function axisOptions(title: string, span: Span, nameGap: number): object {
  const texts = new Map(span.ticks.map(({ at, text }) => [at, text]));
  const customValues = [...texts.keys()];
  const line = { color: 'var(--axis)', width: 1 };
  return {
    type: 'value',
    min: span.min,
    max: span.max,
    name: title,
    nameLocation: 'middle',
    nameGap,
    nameMoveOverlap: false,
    nameTextStyle: { color: 'var(--ink)', fontSize: fontPx },
    axisLine: { show: true, onZero: false, lineStyle: line },
    axisTick: { show: true, customValues, length: 4, lineStyle: line },
    axisLabel: {
      customValues,
      formatter: (at: number) => texts.get(at) ?? '',
      color: 'var(--ink)',
      fontSize: fontPx,
      margin: 7,
      hideOverlap: true,
    },
    splitLine: { show: true, lineStyle: { color: 'var(--grid)', width: 1 } },
  };
}

function seriesOptions(one: Series, placed: readonly Placed[]): object[] {
  const color = `var(--series-${one.style})`;
  const dashes = dashesOf(one.dashes ?? one.style);
  const data = placed.map(({ at }) => at);
  const isHollow = (one.dashes ?? 0) === 1;
  const symbol = {
    symbol: `path://${shapeOf(one.style)}`,
    symbolSize: one.look === 'dots' && data.length > 40 ? 5 : 7,
    itemStyle: isHollow
      ? { color: 'var(--paper)', borderColor: color, borderWidth: 1.5, opacity: 1 }
      : { color, opacity: data.length > 40 ? 0.6 : 1 },
  };
  const lineStyle = { color, width: 2, type: dashes };
  switch (one.look) {
    case 'bars':
      return [barsOf(placed, color)];
    case 'guide':
      return [{ type: 'line', showSymbol: false, lineStyle: { ...lineStyle, width: 1 }, data }];
    case 'steps':
      return [{ type: 'line', step: 'end', showSymbol: false, lineStyle, data }];
    case 'dots':
      return [{ type: 'scatter', ...symbol, data }];
    case 'whiskers':
      return [
        whiskersOf(placed, color),
        { type: 'line', ...symbol, lineStyle: { ...lineStyle, width: 1.5 }, data },
      ];
  }
}

/** Upright lines from `low` to `high`. */
function whiskersOf(placed: readonly Placed[], stroke: string): object {
  const data = placed.flatMap(({ at, ends }) => (ends ? [[at[0], ...ends]] : []));
  return {
    type: 'custom',
    data,
    encode: { x: 0, y: [1, 2] },
    renderItem: (_: unknown, api: MarkPlace) => {
      const [x1 = 0, y1 = 0] = api.coord([api.value(0), api.value(1)]);
      const [, y2 = 0] = api.coord([api.value(0), api.value(2)]);
      const style = { stroke, lineWidth: 1.2, fill: 'none' };
      return { type: 'line', shape: { x1, x2: x1, y1, y2 }, style };
    },
  };
}

/** Lying bars, with a line of the paper's colour between them. */
function barsOf(placed: readonly Placed[], fill: string): object {
  return {
    type: 'custom',
    data: placed.map(({ from = 0, at: [x, y] }) => [from, x, y]),
    encode: { x: [0, 1], y: 2 },
    renderItem: (_: unknown, api: MarkPlace) => {
      const [x = 0, y = 0] = api.coord([api.value(0), api.value(2) + 0.36]);
      const [right = 0, bottom = 0] = api.coord([api.value(1), api.value(2) - 0.36]);
      const shape = { x, y, width: right - x, height: bottom - y };
      return { type: 'rect', shape, style: { fill, stroke: 'var(--paper)', lineWidth: 1 } };
    },
  };
}

/** Ticks without texts. */
function silence(span: Span): Span {
  return { ...span, ticks: span.ticks.map(({ at }) => ({ at, text: '' })) };
}

interface MarkPlace {
  coord(at: number[]): number[];
  value(dimension: number): number;
}

/** Without what scripts and pointers would use, and with what screen readers read. */
function cleanSvg(
  svg: string,
  { figure, id, heightPx }: { figure: Figure; id: string; heightPx: number },
): string {
  const { title, says } = figure;
  const body = svg
    .replace(/^<svg[^>]*>\s*/, '')
    .replace(/<style\s*>[\s\S]*?<\/style>\s*/, '')
    .replaceAll(/ (?:ecmeta_\w+|class|pointer-events|xml:space)="[^"]*"/g, '')
    .replaceAll(/\bzr\d+-/g, `${id}-`)
    .replaceAll(/\n/g, '');
  return (
    `<svg viewBox="0 0 ${widthPx} ${heightPx}" role="img" ` +
    `aria-labelledby="${id}-title ${id}-desc">` +
    `<title id="${id}-title">${escapeXml(title)}</title>` +
    `<desc id="${id}-desc">${escapeXml(says)}</desc>${body}`
  );
}

// Where the panels of a drawing are: most figures are one plot, some a small one for each size,
// since bandwidths of 1 byte and of 100 MB differ by a million and what changes would be invisible.

/** The size of the drawing, which the page scales; it is made for 376 pixels and more. */
const widthPx = 400;

interface Panel {
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

interface Layout {
  heightPx: number;
  panels: readonly Panel[];
}

const left = 62;
const right = 18;
const bottom = 44;
const plotHeight = 230;
const panelTop = 26;

function layoutOf({ series, panelColumns = 1 }: Figure): Layout {
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

// Where numbers are on an axis, and which ticks it has. Logarithmic axes are drawn as linear ones
// of logarithms, whose bounds and ticks are round numbers.

interface Tick {
  /** As `place` gives it. */
  at: number;
  text: string;
}

interface Span {
  min: number;
  max: number;
  ticks: readonly Tick[];
  place(value: number): number;
}

/** `values`: what shall be on it; `ticks`: about how many, at most. */
function axisSpan(
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
