// The report as one page of HTML that needs no script and loads nothing. Invariant: every text that
// is not the report's own is escaped, and shown without what could deceive.
import type { Sample } from '../sample.ts';
import type { Chapter } from './chapter.ts';
import { type Conclusion, topics } from './conclusions.ts';
import { drawFigure, escapeXml } from './drawing.ts';
import type { Cell, Column, Figure, Series } from './figure.ts';
import { showCount, showDay, showSpan, showTime } from './numbers.ts';
import { nameChapter, nameTarget, type Report, type ReportedChapter } from './report.ts';
import { dashesOf, shapeOf } from './styles.ts';

/** The whole document. */
export function renderPage(report: Report): string {
  const { chapters } = report;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeXml(titleOf(report))}</title>
<style>${pageStyle}</style>
</head>
<body>
<main>
<h1>${escapeXml(titleOf(report))}</h1>
<p class="soft">${escapeXml(describe(report))}</p>
${renderLimits(report)}
${chapters.map(renderChapter).join('\n')}
${renderNotes()}
</main>
</body>
</html>
`;
}

/** `Speed, availability and cost of lab.example, 2026-11-01 to 2026-11-14` */
function titleOf({ chapters }: Report): string {
  const what = 'Speed, availability and cost';
  const names = [...new Set(chapters.map(({ chapter }) => nameTarget(chapter)))];
  if (names.length === 0) return what;
  const { firstMs, lastMs } = spanOf(chapters);
  const [first, last] = [showDay(firstMs), showDay(lastMs)];
  const more = names.length > namedMax ? ` and ${names.length - namedMax} more` : '';
  const days = first === last ? first : `${first} to ${last}`;
  return `${what} of ${names.slice(0, namedMax).join(', ')}${more}, ${days}`;
}

const namedMax = 3;

function spanOf(chapters: Report['chapters']): { firstMs: number; lastMs: number } {
  const firstMs = Math.min(...chapters.map(({ chapter }) => chapter.firstMs));
  return { firstMs, lastMs: Math.max(...chapters.map(({ chapter }) => chapter.lastMs)) };
}

function describe({ count, leftOut, chapters, madeMs }: Report): string {
  const made = `Made by bursar report at ${showTime(madeMs)} UTC`;
  if (chapters.length === 0) return `${made}. There are no samples.`;
  const rest = leftOut > 0 ? `; ${showCount(leftOut)} more of further targets were left out` : '';
  return `${made} from ${showCount(count)} samples of ${showSpan(spanOf(chapters))}${rest}.`;
}

function renderLimits({ chapters }: Report): string {
  const parts = chapters.map(({ chapter, conclusions }, index) => {
    const lists = weights.map(([weight, title]) => {
      const some = conclusions.filter((one) => one.weight === weight);
      if (some.length === 0) return '';
      return `<h4>${title}</h4>\n<dl>${some.map(renderConclusion).join('\n')}</dl>`;
    });
    return `<h3><a href="#chapter-${index + 1}">${escapeXml(nameChapter(chapter))}</a></h3>
<p class="soft">${escapeXml(showSpan(chapter))}</p>
${lists.join('\n')}`;
  });
  const nothing = `<p>Nothing was measured yet. Have <code>bursar probe</code> measure an endpoint,
or have clients use the gateway (<code>bursar serve --traffic-samples yes</code>), and make the
report again.</p>`;
  return `<section class="limits" id="limits">
<h2>What limits this installation</h2>
${parts.length > 0 ? parts.join('\n') : nothing}
</section>`;
}

const weights = [
  ['limit', 'What limits it'],
  ['fact', 'What else the samples say'],
  ['caution', 'What they cannot say'],
] as const;

function renderConclusion(
  { rule, says, n }: Conclusion,
  index: number,
  all: readonly Conclusion[],
): string {
  const topic = all[index - 1]?.rule === rule ? '' : `<dt>${topics[rule]}</dt>`;
  const count = `<span class="n">(n\u00a0=\u00a0${showCount(n)})</span>`;
  return `${topic}<dd>${escapeXml(says)} ${count}</dd>`;
}

function renderChapter({ chapter, figures }: ReportedChapter, index: number): string {
  const id = `chapter-${index + 1}`;
  const { count, represented } = chapter;
  const of = represented > count ? `, drawn from ${showCount(Math.round(represented))}` : '';
  const found = figures.filter(({ n }) => n > 0);
  const missing = figures.filter(({ n }) => n === 0);
  const list = missing.map(({ title, howTo }) => {
    return `<li>${escapeXml(title)}: no samples. ${renderCode(howTo)}</li>`;
  });
  return `<section id="${id}">
<h2>${escapeXml(nameChapter(chapter))}</h2>
<p class="soft">${showCount(count)} samples${of}, ${escapeXml(showSpan(chapter))}:
${partsOf(chapter)}</p>
<div class="figures">
${found.map((figure) => renderFigure(figure, chapter, `${id}-${figure.id}`)).join('\n')}
</div>
${list.length > 0 ? `<ul class="missing soft">${list.join('\n')}</ul>` : ''}
</section>`;
}

/** What the samples are of, which adds up to their number. */
function partsOf({ countOf, failed }: Chapter): string {
  const parts = [...countOf].map(([series, count]) => `${showCount(count)} of ${topicOf[series]}`);
  return `${parts.join(', ')}; ${failed === 0 ? 'none' : showCount(failed)} of them failed.`;
}

const topicOf: Record<Sample['series'], string> = {
  sizes: 'single transfers',
  latency: 'latency',
  surge: 'threads',
  parts: 'uploads in parts',
  traffic: 'clients’ requests',
};

/** What is between backquotes is a command. */
function renderCode(text: string): string {
  return escapeXml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

function renderFigure(figure: Figure, chapter: Chapter, id: string): string {
  const { title, says, n, of, series, columns, rows } = figure;
  // Panels of one series have its name above them.
  const told = series.filter(({ name, marks, panel, look }, at) => {
    const isNew = series.findIndex((one) => one.name === name) === at;
    return isNew && marks.length > 0 && (!panel || look === 'bars');
  });
  const legend = told.map(renderLegendEntry).join('');
  return `<figure id="${id}" data-figure="${figure.id}">
<h3>${escapeXml(title)}</h3>
<p>${escapeXml(says)}</p>
${legend && `<ul class="legend">${legend}</ul>`}
${drawFigure(figure, id)}
<figcaption>n = ${showCount(n)} ${escapeXml(of)}, ${escapeXml(showSpan(chapter))}</figcaption>
<details><summary>Numbers</summary>
<div class="table" tabindex="0" role="group" aria-label="${escapeXml(title)}">
${renderTable(columns, rows)}
</div></details>
</figure>`;
}

function renderLegendEntry({ name, style, dashes, look }: Series): string {
  const color = `var(--series-${style})`;
  const pattern = dashesOf(dashes ?? style);
  const dash = pattern === 'solid' ? '' : ` stroke-dasharray="${pattern.join(' ')}"`;
  if (look === 'bars') {
    return renderKey(`<path d="M8 0h12v12h-12z" fill="${color}"/>`, name);
  }
  const line =
    look === 'dots' ? '' : `<path d="M0 6H28" stroke="${color}" stroke-width="2"${dash}/>`;
  const hasShape = look === 'dots' || look === 'whiskers';
  const fill = dashes === 1 ? 'var(--paper)' : color;
  const shape = hasShape
    ? `<path d="${shapeOf(style)}" transform="translate(10.5 2.5) scale(.7)" ` +
      `fill="${fill}" stroke="${color}"/>`
    : '';
  return renderKey(`${line}${shape}`, name);
}

function renderKey(shapes: string, name: string): string {
  const key = `<svg viewBox="0 0 28 12" aria-hidden="true">${shapes}</svg>`;
  return `<li>${key}${escapeXml(name)}</li>`;
}

function renderTable(columns: readonly Column[], rows: Figure['rows']): string {
  const isWord = columns.map((_, index) => rows.every((row) => typeof row[index] === 'string'));
  const kindOf = (index: number) => (isWord[index] ? ' class="word"' : '');
  const heads = columns.map(({ title }, index) => {
    return `<th scope="col"${kindOf(index)}>${escapeXml(title)}</th>`;
  });
  const lines = rows.map((row) => {
    const cells = columns.map(({ show }, index) => {
      return `<td${kindOf(index)}>${escapeXml(showCell(row[index], show))}</td>`;
    });
    return `<tr>${cells.join('')}</tr>`;
  });
  return `<table><thead><tr>${heads.join('')}</tr></thead><tbody>
${lines.join('\n')}
</tbody></table>`;
}

function showCell(cell: Cell | undefined, show: (value: number) => string): string {
  if (cell === null || cell === undefined) return '–';
  return typeof cell === 'number' ? show(cell) : cell;
}

function renderNotes(): string {
  return `<section class="soft"><h2>How to read it</h2>
<p>Sizes are those of what was moved (1 KiB is 1,024 bytes, 1 MiB 1,048,576), bandwidths are decimal
(1 MB/s is 1,000,000 bytes a second). Bandwidth is size over the time from the first try to the last
byte, retries and the pauses between them included. Requests that failed are in the availability and
in the time of threads only.</p></section>`;
}

// The report's style sheet. Colours: text has a contrast of at least 4.5, lines of at least 3, in
// light and dark; the series are Okabe and Ito's colours, made darker or lighter for that.

export const pageStyle = `
:root{color-scheme:light dark;--paper:#fff;--ink:#1d2126;--soft:#555c66;--axis:#6b7280;
--grid:#e3e6ea;--edge:#c9ced6;--panel:#f5f6f8;--accent:#0067a8;
--series-0:#0072b2;--series-1:#c44e00;--series-2:#007a5a;--series-3:#a8327f;--series-4:#5b5b5b;
--series-5:#6b7280;
--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ed;--soft:#a7afba;
--axis:#8b94a1;--grid:#2a3037;--edge:#3b434d;--panel:#1c2127;--accent:#6cb8ee;
--series-0:#56b4e9;--series-1:#f0883e;--series-2:#2fc79a;--series-3:#e58bc4;--series-4:#c4c9d0;
--series-5:#8b94a1}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 var(--font)}
main{max-width:1080px;margin:0 auto;padding:24px 12px 48px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.3rem;margin:40px 0 4px;overflow-wrap:anywhere}
h3{font-size:1rem;margin:0 0 4px}
p{margin:0 0 8px;max-width:48rem}
a{color:var(--accent)}
.soft,figcaption{color:var(--soft);font-size:.875rem}
.limits{background:var(--panel);border:1px solid var(--edge);border-radius:6px;padding:16px}
.limits h2{margin-top:0}.limits h3{margin:16px 0 4px;overflow-wrap:anywhere}
.limits h4{margin:12px 0 4px;font-size:.875rem;color:var(--soft)}
.limits dl{display:grid;grid-template-columns:11rem minmax(0,1fr);gap:6px 16px;margin:0;
max-width:58rem}.limits dt{font-weight:600}.limits dd{margin:0;grid-column:2}
@media (max-width:640px){.limits dl{display:block}.limits dd{margin:0 0 8px}}
.limits .n{color:var(--soft);font-weight:400;font-size:.875rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));
gap:32px 28px;margin-top:20px}
figure{margin:0;min-width:0;break-inside:avoid}
figure>svg{display:block;width:100%;height:auto;max-width:520px}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;list-style:none;margin:0 0 4px;padding:0;
font-size:.8125rem}
.legend li{display:flex;align-items:center;gap:6px}.legend svg{flex:none;width:28px;height:12px}
details{margin-top:4px;font-size:.875rem}summary{cursor:pointer;color:var(--accent)}
.table{overflow-x:auto;max-height:24rem;overflow-y:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.8125rem}
th,td{padding:2px 10px 2px 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--grid)}
th{font-weight:600;vertical-align:bottom}
th.word,td.word{text-align:left}
.missing{margin:24px 0 0;padding:0;list-style:none;font-size:.9375rem}
.missing li{margin:0 0 4px;overflow-wrap:anywhere}
code{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;font-size:.9em}
@media print{main{max-width:none;padding:0}.figures{grid-template-columns:1fr 1fr}
details>summary{display:none}h2{break-after:avoid}}
`;
