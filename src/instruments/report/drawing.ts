// Draws figures as SVG, by ECharts on its server side: no browser, no script in what comes out. All
// colours are variables of the page, so one drawing serves light and dark. Invariants: nothing is in
// an SVG that a page without scripts does not need, and the same figure gives the same bytes.
// It takes half a second to load, so only who makes a page imports it.
import { CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import type { Axis, Figure, Mark, Series } from './figure.ts';
import { axisSpan, type Span } from './scales.ts';
import { dashesOf, shapeOf } from './styles.ts';

use([CustomChart, LineChart, ScatterChart, GridComponent, SVGRenderer]);

/** Of the drawing, which the page scales: a column of 376 pixels is the narrowest it is made for. */
export const widthPx = 420;
export const heightPx = 300;
const fontPx = 12;

/** An SVG with title and description, which is as wide as its place. `id` is unique in the page. */
export function drawFigure(figure: Figure, id: string): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: widthPx, height: heightPx });
  try {
    chart.setOption(optionsOf(figure));
    return cleanSvg(chart.renderToSVGString(), figure, id);
  } finally {
    chart.dispose();
  }
}

function optionsOf({ x, y, series }: Figure): Record<string, unknown> {
  const marks = series.flatMap((one) => one.marks);
  const spanX = axisSpan(
    x,
    marks.map((mark) => mark.x),
  );
  const spanY = axisSpan(
    y,
    marks.flatMap((mark) => [mark.y, mark.low ?? mark.y, mark.high ?? mark.y]),
  );
  const place = (mark: Mark): Placed => ({
    at: [spanX.place(mark.x), spanY.place(mark.y)],
    ends: mark.low === undefined ? null : [spanY.place(mark.low), spanY.place(mark.high ?? mark.y)],
  });
  return {
    animation: false,
    silent: true,
    textStyle: { fontFamily: 'var(--font)', fontSize: fontPx, color: 'var(--ink)' },
    grid: { left: 58, right: 14, top: 12, bottom: 46, outerBoundsMode: 'none' },
    xAxis: axisOptions(x, spanX, 28),
    yAxis: axisOptions(y, spanY, 44),
    series: series.flatMap((one) => seriesOptions(one, one.marks.map(place), series)),
  };
}

interface Placed {
  at: [x: number, y: number];
  ends: [low: number, high: number] | null;
}

function axisOptions({ title }: Axis, span: Span, nameGap: number): object {
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

function seriesOptions(one: Series, placed: Placed[], all: readonly Series[]): object[] {
  const color = `var(--series-${one.style})`;
  const dashes = dashesOf(one.dashes ?? one.style);
  const data = placed.map(({ at }) => at);
  const isHollow = (one.dashes ?? 0) === 1;
  const symbol = {
    symbol: shapeOf(one.style),
    symbolSize: one.look === 'dots' && data.length > 40 ? 5 : 7,
    itemStyle: isHollow
      ? { color: 'var(--paper)', borderColor: color, borderWidth: 1.5, opacity: 1 }
      : { color, opacity: data.length > 40 ? 0.6 : 1 },
  };
  const lineStyle = { color, width: 2, type: dashes };
  switch (one.look) {
    case 'line':
    case 'guide':
      return [{ type: 'line', showSymbol: false, lineStyle: { ...lineStyle, width: 1 }, data }];
    case 'steps':
      return [{ type: 'line', step: 'end', showSymbol: false, lineStyle, data }];
    case 'dots':
      return [{ type: 'scatter', ...symbol, data }];
    case 'whiskers':
      return [
        whiskersOf(placed, color, all.indexOf(one) - (all.length - 1) / 2),
        { type: 'line', ...symbol, lineStyle: { ...lineStyle, width: 1.5 }, data },
      ];
  }
}

const dodgePx = 2.5;

/** Upright lines from `low` to `high`, side by side where several series have the same place. */
function whiskersOf(placed: readonly Placed[], stroke: string, place: number): object {
  const data = placed.flatMap(({ at, ends }) => (ends ? [[at[0], ...ends]] : []));
  return {
    type: 'custom',
    data,
    encode: { x: 0, y: [1, 2] },
    renderItem: (_: unknown, api: WhiskerPlace) => {
      const [x = 0, y1 = 0] = api.coord([api.value(0), api.value(1)]);
      const [, y2 = 0] = api.coord([api.value(0), api.value(2)]);
      const at = x + place * dodgePx;
      const style = { stroke, lineWidth: 1.2, fill: 'none' };
      return { type: 'line', shape: { x1: at, x2: at, y1, y2 }, style };
    },
  };
}

interface WhiskerPlace {
  coord(at: number[]): number[];
  value(dimension: number): number;
}

/** Without what scripts and pointers would use, and with what screen readers read. */
function cleanSvg(svg: string, { title, says }: Figure, id: string): string {
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
