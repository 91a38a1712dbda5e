// `bursar report`: what samples of probes and of clients' requests say, as one page of HTML, as
// CSV, as JSON, and in words. It asks no gateway. Exit codes: 0 also where there are no samples,
// which it says.
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { nowMs } from '../core/clock.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { collectMeasures } from '../instruments/report/measures.ts';
import { linesOf } from '../instruments/report/plain-text.ts';
import { jsonOf, makeReport, type Report } from '../instruments/report/report.ts';
import type { Series } from '../instruments/sample.ts';
import { readSamples } from '../instruments/sample-log.ts';
import { dataDefault, type Flags, loadConfig } from '../server/settings/config.ts';
import { csvText, print, printJson, writeOutput } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';
import { findSamplesFolder } from './samples-folder.ts';
import { addSettingFlags } from './setting-flags.ts';
import { timeForms, timeMs } from './times.ts';

interface ReportFlags {
  out?: string;
  csv?: string;
  json?: boolean;
  samples?: string;
  credentials?: string;
  from?: number;
  to?: number;
  target?: string;
  series?: Series[];
}

const help = `
Samples are those that bursar probe took, and those that serve keeps of clients' requests. The page
needs no script and loads nothing, so it can be sent to others: it names stores and endpoints, and
nobody.

Examples:
  bursar report --out report.html
  bursar report --out report.html --csv figures --from 2026-11-01 --to 2026-12-01
  bursar report --samples ./lab-samples --target s3.eu-west-1.amazonaws.com --json`;

export function addReportCommand(program: Command): void {
  const command = program
    .command('report')
    .description(
      'say what limits an installation, with plots, from samples of bursar probe and serve',
    )
    .option('--out <file>', 'write a page of HTML')
    .option('--csv <folder>', 'write the numbers of each plot as CSV')
    .option('--json', 'answer with JSON')
    .option('--samples <folder>', 'read the samples in this folder (default: DIR/samples)')
    .option('--credentials <file>', 'read those of the gateway that wrote this credentials file')
    .option('--from <time>', `not before this time: ${timeForms}`, timeMs)
    .option('--to <time>', 'before this time', timeMs)
    .option('--target <name>', 'only of this target')
    .option('--series <names>', `only of these: ${seriesNames.join(', ')}`, parseSeries)
    .addHelpText('after', help);
  addSettingFlags(command, ['data', 'config']).action(async (given: ReportFlags & Flags) => {
    const { out, csv, json, samples, from, to, target, series, credentials, ...flags } = given;
    const report = await readReport(samples ?? ownSamples(flags, credentials), {
      isOwn: samples === undefined,
      filter: { fromMs: from, toMs: to, series },
      target,
    });
    if (out !== undefined) await writePage(out, report);
    if (csv !== undefined) writeCsv(csv, report);
    const asked = Object.entries({ from, to, target, series });
    const filters = asked.filter(([, value]) => value !== undefined).map(([name]) => `--${name}`);
    if (json) printJson(jsonOf(report));
    else printReport(report, { out, csv, isWhole: filters.length === 0 });
    if (report.count > 0 || filters.length === 0) return;
    process.stderr.write(`bursar: no samples fit ${filters.join(', ')}\n`);
  });
}

/** Of the folder that settings name, where they do. */
function ownSamples(flags: Flags, credentials: string | undefined): string {
  const { data } = loadConfig(flags);
  const isNamed = data !== dataDefault;
  return findSamplesFolder({ data: isNamed ? data : undefined, credentials });
}

interface Wanted {
  /** Whether it is the data folder's own, which does not exist before something was measured. */
  isOwn: boolean;
  filter: { fromMs?: number | undefined; toMs?: number | undefined; series?: Series[] | undefined };
  target: string | undefined;
}

async function readReport(folder: string, { isOwn, filter, target }: Wanted): Promise<Report> {
  const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isThere && !isOwn) throw new CommandFailure('usage', `--samples: ${folder} is no folder`);
  using progress = new CountProgress(process.stderr, 'samples');
  try {
    const samples = countOnTheWay(readSamples(folder, filter), (count) => progress.show(count));
    return makeReport(await collectMeasures(samples, { target }), nowMs());
  } catch (error) {
    throw expectedFailure(error);
  }
}

const showEvery = 10_000;

async function* countOnTheWay<T>(
  all: AsyncIterable<T>,
  onCount: (count: number) => void,
): AsyncGenerator<T> {
  let count = 0;
  for await (const one of all) {
    if (++count % showEvery === 0) onCount(count);
    yield one;
  }
}

const writing = { mode: 0o666, ifExists: 'replace' } as const;

async function writePage(out: string, report: Report): Promise<void> {
  // The plots' library takes longer to load than all else that this command does.
  const { renderPage } = await import('../instruments/report/page.ts');
  writeOutput(out, renderPage(report), writing);
}

/** A file for each plot, named by its chapter's number and by the plot. */
function writeCsv(folder: string, { chapters }: Report): void {
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw expectedFailure(error);
  }
  for (const [index, { chapter, figures }] of chapters.entries()) {
    for (const { id, columns, rows } of figures) {
      const heading = ['target', 'source', ...columns.map(({ key }) => key)];
      const lines = rows.map((row) => {
        return [chapter.target, chapter.source, ...row.map((cell) => String(cell ?? ''))];
      });
      writeOutput(
        join(folder, `${index + 1}-${chapter.source}-${id}.csv`),
        csvText(heading, lines),
        writing,
      );
    }
  }
}

/** Errors of the system have a code; all others are bugs. */
function expectedFailure(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? error : new CommandFailure('failed', messageOfFailure(error), error);
}

function printReport(
  report: Report,
  { out, csv, isWhole }: Pick<ReportFlags, 'out' | 'csv'> & { isWhole: boolean },
): void {
  // Of a part it cannot say that there are none.
  if (isWhole || report.count > 0) for (const line of linesOf(report)) print(line);
  const places = [out, csv].filter((one) => one !== undefined).join(' and ');
  if (places !== '') print(`${formatCount(report.count)} samples are reported in ${places}`);
}

const seriesNames: readonly Series[] = ['sizes', 'latency', 'surge', 'parts', 'traffic'];

function parseSeries(text: string): Series[] {
  const names = text.split(',').map((name) => seriesNames.find((one) => one === name.trim()));
  const known = names.filter((name) => name !== undefined);
  if (known.length === names.length) return known;
  throw new InvalidArgumentError(`Must be of ${seriesNames.join(', ')}.`);
}
