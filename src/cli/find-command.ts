// `bursar find`: the objects of buckets that fit a query, shown, counted, or given to a command one
// by one.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Command, InvalidArgumentError } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { ExplainedRun, FoundObjects } from '../gateway/find/find-schema.ts';
import { findPlace } from './bucket-names.ts';
import { connect } from './command-arguments.ts';
import { type Asked, type Placed, readObjects, readPages } from './found-objects.ts';
import { chooseForm, csvText, print } from './output.ts';
import { formatCount } from './progress.ts';

interface FindFlags {
  csv?: boolean;
  count?: boolean;
  sum?: string;
  limit?: number;
  explain?: boolean;
  exec?: boolean;
}

export function addFindCommand(program: Command): void {
  program
    .command('find')
    .argument('<words...>', 's3://BUCKET or s3://BUCKET/PREFIX, one or more, and then the query')
    .description('objects by what is said of them; with --json an object a line')
    .addHelpText('after', helpText)
    .option('--csv', 'answer with CSV')
    .option('--count', 'only how many they are')
    .option('--sum <field>', 'only how many they are, and the sum of their size', parseSum)
    .option('--limit <count>', 'at most so many', parseLimit)
    .option('--explain', 'what the index is asked for, and nothing else')
    .option('--exec', 'start the command behind -- for each, with its URL in the place of {}')
    .action(async (words: string[], given: FindFlags, command: Command) => {
      const { connection, flags } = connect(command);
      chooseForm({ ...given, json: flags.json });
      const { urls, query, run } = readWords(words, given);
      const asked = { connection, urls, query };
      const asJson = flags.json === true;
      if (given.explain) return explain(asked, asJson);
      if (given.count || given.sum !== undefined) return showTotals(asked, given, asJson);
      if (run.length > 0) return runEach(asked, given, run);
      const show = showerOf(asJson ? 'json' : given.csv ? 'csv' : 'text');
      let count = 0;
      for await (const one of readObjects(asked, given.limit)) {
        count += 1;
        await show(one);
      }
      if (count > 0 || asJson) return;
      if (given.csv) process.stdout.write(csvText(heading, []));
      // Who may not read tags is shown nothing that is found by them, and might take it for none.
      const whose = /\btag\./i.test(query)
        ? 'list and read, and whose tags you may read'
        : 'list and read';
      process.stderr.write(`bursar: no objects fit, of those that you may ${whose}\n`);
    });
}

const helpText = `
A query compares key, size, modified, class, type, owner, etag, sha256, checksum, tag.NAME and
meta.NAME by =, !=, <, <=, >, >=, like, in and exists, joined by and, or, not and parentheses:

  bursar find s3://raw 'meta.run >= 1000 and tag.detector = "CMS" and size > 1GB'
  bursar find s3://raw s3://sim/2026/ 'modified < 30d and not type like "image/*"' --sum size
  bursar find s3://raw 'meta.run in (1042, 1043)' --exec -- aws s3 cp {} data/

Found and counted is what you may list and read.`;

/** Throws `CommandFailure` (usage). */
function readWords(
  words: readonly string[],
  { exec, count, sum, explain: isExplained }: FindFlags,
): { urls: string[]; query: string; run: string[] } {
  const first = words.findIndex((word) => !word.startsWith('s3://'));
  const urls = words.slice(0, Math.max(first, 0));
  const [query, ...run] = first < 0 ? [] : words.slice(first);
  if (urls.length === 0 || query === undefined) {
    const like = `bursar find s3://raw 'tag.detector = "CMS"'`;
    throw new CommandFailure('usage', `say where, and then what: ${like}`);
  }
  if ((exec === true) !== run.length > 0) {
    const like = 'bursar find s3://raw QUERY --exec -- COMMAND {}';
    throw new CommandFailure('usage', `a command is given by --exec and behind --: ${like}`);
  }
  const others = [count, sum !== undefined, isExplained, exec].filter(Boolean);
  if (others.length > 1) {
    throw new CommandFailure('usage', '--count, --sum, --explain and --exec exclude each other');
  }
  return { urls, query, run };
}

const heading = [
  'url',
  'size',
  'modified',
  'class',
  'type',
  'etag',
  'sha256',
  'versionId',
  'index',
];

function showerOf(form: 'json' | 'csv' | 'text'): (one: Placed) => Promise<void> {
  let hasBegun = false;
  return async (one) => {
    if (form === 'json') print(JSON.stringify(one));
    else if (form === 'text') print(lineOf(one));
    else {
      const cells = heading.map((name) => String(one[name as keyof Placed] ?? ''));
      process.stdout.write(hasBegun ? csvText(cells, []) : csvText(heading, [cells]));
    }
    hasBegun = true;
    if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
  };
}

function lineOf({ url, size, modified }: Placed): string {
  return [modified, formatBytes(size).padStart(9), printable(url)].join('  ');
}

async function showTotals(asked: Asked, given: FindFlags, asJson: boolean): Promise<void> {
  if (given.limit !== undefined) {
    throw new CommandFailure('usage', '--limit is of objects that are shown');
  }
  let [count, bytes, looked] = [0, 0, 0];
  for (const url of asked.urls) {
    const place = await findPlace(asked.connection, url);
    for await (const page of readPages(asked, place, Infinity, { form: 'totals' })) {
      count += page.count;
      bytes += page.bytes;
      looked += page.looked;
    }
  }
  if (asJson) print(JSON.stringify({ count, size: bytes, looked }));
  else if (given.sum === undefined) print(String(count));
  else print(`${formatCount(count)} objects, ${formatBytes(bytes)} (${bytes} bytes)`);
}

async function explain(asked: Asked, asJson: boolean): Promise<void> {
  for (const url of asked.urls) {
    const place = await findPlace(asked.connection, url);
    const pages = readPages(asked, place, 1, { explain: 'true', form: 'totals' });
    const { value } = await pages.next();
    const { plan } = value as FoundObjects;
    if (asJson) print(JSON.stringify({ url, plan }));
    else for (const line of linesOf(url, plan)) print(printable(line));
  }
}

function linesOf(url: string, { any, all }: FoundObjects['plan']): string[] {
  if (any === null) return [`${url}: each object is looked at`];
  const of = (runs: readonly ExplainedRun[], join: string) => runs.map(wordsOf).join(join);
  const lines = [`${url}: the index leads to ${of(any, ' or ')}`];
  if (all.length > 0) lines.push(`  of them to ${of(all, ' and ')}`);
  return [...lines, '  and each of these objects is looked at'];
}

function wordsOf({ field, low, high }: ExplainedRun): string {
  if (low !== null && low === high) return `${field} = ${JSON.stringify(low)}`;
  const from = low === null ? '' : `${JSON.stringify(low)} <= `;
  const to = high === null ? '' : ` <= ${JSON.stringify(high)}`;
  return from === '' && to === '' ? `${field}, whatever it is` : `${from}${field}${to}`;
}

/** One after the other. Throws `CommandFailure` where some have failed. */
async function runEach(
  asked: Asked,
  { limit }: FindFlags,
  [file = '', ...args]: readonly string[],
): Promise<void> {
  let failed = 0;
  for await (const { url } of readObjects(asked, limit)) {
    const filled = args.map((arg) => arg.replaceAll('{}', url));
    const child = spawn(file, filled, { stdio: ['ignore', 'inherit', 'inherit'] });
    try {
      const [code] = (await once(child, 'close')) as [number | null];
      if (code !== 0) failed += 1;
    } catch (error) {
      throw new CommandFailure('failed', `cannot run ${file}: ${messageOfFailure(error)}`);
    }
  }
  if (failed > 0) throw new CommandFailure('failed', `the command failed for ${failed} objects`);
}

function parseSum(value: string): string {
  if (value === 'size') return value;
  throw new InvalidArgumentError('Must be size.');
}

function parseLimit(value: string): number {
  if (/^[1-9]\d{0,8}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('Must be a whole number above 0.');
}
