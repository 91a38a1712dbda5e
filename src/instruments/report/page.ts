// The report as one page of HTML that needs no script and loads nothing. Invariant: every text that
// is not the report's own is escaped, and shown without what could deceive.
import type { Sample } from '../sample.ts';
import type { Chapter } from './chapter.ts';
import { type Conclusion, topics } from './conclusions.ts';
import { escapeXml, renderDocument } from './document.ts';
import { drawFigure } from './drawing.ts';
import type { Cell, Column, Figure, Series } from './figure.ts';
import { showCount, showDay, showSpan, showTime } from './numbers.ts';
import { nameChapter, nameTarget, type Report, type ReportedChapter } from './report.ts';
import { dashesOf, shapeOf } from './styles.ts';

/** The whole document. */
export function renderPage(report: Report): string {
  const { chapters } = report;
  const title = titleOf(report);
  const body = `<h1>${escapeXml(title)}</h1>
<p class="soft">${escapeXml(describe(report))}</p>
${renderLimits(report)}
${chapters.map(renderChapter).join('\n')}
${renderNotes()}`;
  return renderDocument(title, body);
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
