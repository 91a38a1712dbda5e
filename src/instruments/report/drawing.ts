// Draws figures as SVG, by ECharts on its server side: no browser, no script in what comes out. All
// colours are variables of the page, so one drawing serves light and dark. Invariants: nothing is
// in an SVG that a page without scripts does not need, and the same figure gives the same bytes. It
// takes half a second to load, so only who makes a page imports it.
import { CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, TitleComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import type { Axis, Figure, Mark, Series } from './figure.ts';
import { type Layout, layoutOf, type Panel, widthPx } from './layout.ts';
import { axisSpan, type Span } from './scales.ts';
import { dashesOf, shapeOf } from './styles.ts';

use([CustomChart, LineChart, ScatterChart, GridComponent, TitleComponent, SVGRenderer]);

const fontPx = 12;

/** An SVG with title and description, which is as wide as its place. `id` is unique in the page. */
export function drawFigure(figure: Figure, id: string): string {
  const layout = layoutOf(figure);
  const { heightPx } = layout;
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: widthPx, height: heightPx });
  try {
    chart.setOption(optionsOf(figure, layout));
    return cleanSvg(chart.renderToSVGString(), { figure, id, heightPx });
  } finally {
    chart.dispose();
  }
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

export function escapeXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}
