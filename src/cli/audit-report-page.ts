// The page of `bursar audit report`. Invariant: every text of a record is escaped, and shown
// without what could deceive.
import { others, type RecordSummary, type Told } from '../audit/record-summary.ts';
import { formatBytes } from '../core/bytes-text.ts';
import { formatUsd } from '../core/money.ts';
import { printable } from '../core/printable.ts';
import { escapeXml, renderDocument } from '../instruments/report/document.ts';
import { formatCount } from './progress.ts';

export interface AuditReport {
  tenant: string;
  /** Log indexes: `from` inclusive, `to` exclusive. */
  from: number;
  to: number;
  /** As they were asked for; null: indexes were. */
  fromTime: string | null;
  toTime: string | null;
  madeAt: string;
  verified: readonly string[];
  notVerified: readonly string[];
  summary: RecordSummary;
}

/** Lines of a table on the page; the rest is told as a number. */
const rowsMax = 500;

export function renderAuditPage(report: AuditReport): string {
  const { tenant, from, to, fromTime, toTime, madeAt, summary } = report;
  const title = `What was done in ${shown(tenant)}${spanOf(fromTime, toTime)}`;
  const { whole, records } = summary;
  const said = `Made by bursar audit report at ${madeAt} from ${formatCount(records)} records at log
indexes ${from} to before ${to}: ${formatCount(whole.operations)} operations, of which
${formatCount(whole.refused)} were refused; ${usd(whole)} were charged to the tenant.`;
  const body = [
    `<h1>${escapeXml(title)}</h1>\n<p class="soft">${escapeXml(said)}</p>`,
    renderVerification(report),
    renderPeople(summary),
    renderCharges(summary),
    renderRefusals(summary),
    renderChanges(summary),
    renderActions(summary),
    `<section class="soft"><h2>How to read it</h2>
<p>Each number with a # is the index of a record. Its receipt, which verifies without the gateway,
is taken away by <code>bursar receipt show INDEX --out FILE</code>. Days and times are of UTC. Reads
that one record tells together count one by one. Sizes are of bodies: 1 KiB is 1,024 bytes. Charged
is what the tenant was charged, by the prices and free amounts that held, as <code>bursar cost
tenant:${text(tenant)}</code> and <code>bursar usage</code> have it: what others paid alone for what
they did in its buckets is 0 here.</p>
</section>`,
  ];
  return renderDocument(title, body.join('\n'));
}

function spanOf(from: string | null, to: string | null): string {
  if (from === null && to === null) return '';
  const begin = from === null ? 'the beginning' : shortTime(from);
  return `, from ${begin} ${to === null ? 'until now' : `to before ${shortTime(to)}`}`;
}

/** Midnight is the day. */
function shortTime(time: string): string {
  return time.replace(/T00:00:00(?:\.000)?Z$/, '');
}

function renderVerification({ verified, notVerified }: AuditReport): string {
  const list = (title: string, lines: readonly string[]) =>
    lines.length === 0
      ? ''
      : `<h3>${title}</h3>\n<ul>${lines.map((one) => `<li>${text(one)}</li>`).join('\n')}</ul>`;
  return `<section class="limits">
<h2>What was verified, and what was not</h2>
${list('Verified', verified)}
${list('Not verified', notVerified)}
</section>`;
}

function renderPeople({ byPrincipal }: RecordSummary): string {
  return section('Who did how much', {
    head: ['Who', 'Operations', 'Refused', 'Sent in', 'Sent out', 'Charged', 'First', 'Last'],
    rows: sorted(byPrincipal).map(([who, told]) => [
      who,
      formatCount(told.operations),
      formatCount(told.refused),
      formatBytes(told.bytesIn),
      formatBytes(told.bytesOut),
      usd(told),
      first(told),
      last(told),
    ]),
  });
}

function renderCharges({ byBucket, byDay }: RecordSummary): string {
  const rowsOf = (list: ReadonlyMap<string, Told>) =>
    [...list].map(([name, told]) => [name, formatCount(told.operations), usd(told)]);
  const buckets = section('What was charged, by bucket', {
    head: ['Bucket', 'Operations', 'Charged'],
    rows: rowsOf(new Map(sorted(byBucket))),
  });
  const days = section('What was charged, by day', {
    head: ['Day', 'Operations', 'Charged'],
    rows: rowsOf(byDay),
  });
  return `${buckets}\n${days}`;
}

function renderRefusals({ refusals }: RecordSummary): string {
  return section('What was refused', {
    head: ['Who', 'Wanted', 'Because', 'Times', 'First', 'Last'],
    words: 3,
    rows: sorted(refusals).map(([names, told]) => [
      ...names.split('\n'),
      formatCount(told.operations),
      first(told),
      last(told),
    ]),
  });
}

function renderChanges({ changes, changesLeftOut }: RecordSummary): string {
  const table = section('What was changed of rights, limits and settings', {
    head: ['Record', 'When', 'Who', 'Did', 'About'],
    words: 5,
    rows: changes.map(({ index, time, who, action, about }) => [
      ...[`#${index}`, time, who, action, about],
    ]),
  });
  return changesLeftOut === 0
    ? table
    : `${table}\n<p class="soft">${formatCount(changesLeftOut)} more are not shown.</p>`;
}

function renderActions({ byAction }: RecordSummary): string {
  return section('Who did what', {
    head: ['Who', 'Did', 'Times', 'Refused', 'First', 'Last'],
    words: 2,
    rows: [...byAction]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([names, told]) => [
        ...names.split('\n'),
        formatCount(told.operations),
        formatCount(told.refused),
        first(told),
        last(told),
      ]),
  });
}

/** `words`: how many columns are of words, from the left. */
function section(
  title: string,
  { head, rows, words = 1 }: { head: string[]; rows: string[][]; words?: number },
): string {
  const kind = (column: number) => (column < words ? ' class="word"' : '');
  const row = (cells: readonly string[]) =>
    `<tr>${cells.map((one, i) => `<td${kind(i)}>${text(one)}</td>`).join('')}</tr>`;
  const rest = rows.length - rowsMax;
  const more = rest > 0 ? `<p class="soft">${formatCount(rest)} more lines are not shown.</p>` : '';
  const scrolls = `<div class="wide" tabindex="0" role="group" aria-label="${title}">`;
  const table = `${scrolls}<table><thead><tr>${head
    .map((one, i) => `<th${kind(i)}>${one}</th>`)
    .join('')}</tr></thead>
<tbody>${rows.slice(0, rowsMax).map(row).join('\n')}</tbody></table></div>`;
  return `<section><h2>${title}</h2>
${rows.length === 0 ? '<p>Nothing.</p>' : table}${more}</section>`;
}

/** The dearest first, then those with the most operations, and all others last. */
function sorted(list: ReadonlyMap<string, Told>): [string, Told][] {
  const isRest = (name: string) => name.startsWith(others);
  return [...list].sort(([name, a], [other, b]) => {
    if (isRest(name) !== isRest(other)) return isRest(name) ? 1 : -1;
    if (a.charged !== b.charged) return a.charged > b.charged ? -1 : 1;
    return b.operations - a.operations || (name < other ? -1 : 1);
  });
}

const usd = ({ charged }: Told): string => `${formatUsd(charged)} USD`;
const first = ({ firstIndex, firstTime }: Told): string => `#${firstIndex}, ${dayOf(firstTime)}`;
const last = ({ lastIndex, lastTime }: Told): string => `#${lastIndex}, ${dayOf(lastTime)}`;
const dayOf = (time: string): string => time.slice(0, 16).replace('T', ' ');

function shown(given: string): string {
  return printable(given);
}

function text(given: string): string {
  return escapeXml(shown(given));
}
