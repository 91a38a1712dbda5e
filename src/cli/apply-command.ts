// `bursar apply` and `bursar dump`: tenants, people, groups, grants, limits, issuers, mounts and
// buckets, as a file says (docs/admin/apply.md).
import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure, messageOfFailure, orFail } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { ApiRefusal, type Connection, callApi, listAll, Unreachable } from './api-client.ts';
import { type Columns, printEntries } from './api-command.ts';
import { carryOut, type Doer, type Outcome } from './collaboration/carry-out.ts';
import { readDocument, writeDocument } from './collaboration/document.ts';
import {
  type Entry,
  fileBytesMax,
  Gathered,
  ownNameOf,
  tenantOf,
  wrong,
} from './collaboration/entries.ts';
import { forEach } from './collaboration/many.ts';
import { readCsv, readPeople } from './collaboration/people.ts';
import { makePlan, type Step } from './collaboration/plan.ts';
import { readPresent } from './collaboration/present.ts';
import { type CommandFlags, duration } from './command-arguments.ts';
import { findConnection } from './find-connection.ts';
import { csvText, print, printJson, writeOutput } from './output.ts';
import { CountProgress } from './progress.ts';

interface ApplyFlags extends CommandFlags {
  file?: string[];
  dryRun?: true;
  prune?: true;
  keys?: string;
  wait?: number;
}

const applyHelp = `
A file that ends in .csv is a table of people, as "bursar principal list TENANT --csv" writes it;
any other is YAML, as "bursar dump" writes it. A second run changes nothing, or goes on.

Examples:
  bursar apply -f collaboration.yaml --dry-run
  bursar apply -f collaboration.yaml -f people.csv --keys keys.csv
  bursar dump cms > cms.yaml`;

export function addApplyCommands(program: Command): void {
  program
    .command('apply [file...]')
    .description('make what files describe: tenants, people, groups, grants, limits and more')
    .option('-f, --file <file...>', 'YAML or CSV, as without -f; - is YAML on standard input')
    .option('--dry-run', 'only say what would be done')
    .option('--prune', 'also delete what there is of what the files list, and is not in them')
    .option('--keys <file>', 'make a key for each person without one; CSV that only you can read')
    .option('--wait <duration>', 'wait so long for a gateway that does not answer yet', waitTime)
    .addHelpText('after', applyHelp)
    .action(apply);
  program
    .command('dump <tenant...>')
    .description('write what there is, as "bursar apply" reads it')
    .action(dump);
}

function waitTime(text: string): number {
  try {
    return duration(text);
  } catch {
    throw new InvalidArgumentError('Must be a time such as 30s or 10m.');
  }
}

async function apply(files: string[], given: ApplyFlags, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<ApplyFlags>();
  const named = [...files, ...(given.file ?? [])];
  if (named.length === 0) throw new CommandFailure('usage', 'say which file: -f FILE');
  const wanted = readFiles(named);
  const connection = findConnection(flags);
  const self = await askSelf(connection, given.wait ?? 0);
  const buckets = [...wanted.entries.values()].filter(({ kind }) => kind === 'bucket');
  const present = await readPresent(
    connection,
    wanted.tenants,
    (tenant, kind) => kind === 'group' || wanted.said.has(`${tenant} ${kind}`),
    buckets.map(({ name }) => name),
  );
  const spared = `${self.tenant}/${self.principal}`;
  const steps = makePlan(wanted, present, { prune: given.prune === true, spared });
  if (given.dryRun) {
    const shown = steps.map(({ action, kind, name, changes }) => ({ action, kind, name, changes }));
    printEntries(flags.json, planned, { dryRun: true, changes: shown }, shown);
    return;
  }
  let outcome: Outcome;
  {
    using progress = new CountProgress(process.stderr, `of ${steps.length} done`);
    outcome = await carryOut(steps, { connection, self }, (count) => progress.show(count));
  }
  const isThere = ({ name }: Entry) =>
    !outcome.failed.some((one) => one.kind === 'principal' && one.name === name);
  const people = [...wanted.entries.values()].filter((one) => one.kind === 'principal');
  const keys: MadeKeys = { made: 0, failed: [] };
  if (given.keys !== undefined)
    await makeKeys(given.keys, people.filter(isThere), connection, keys);
  tell(outcome, { asJson: flags.json, keys, count: steps.length });
}

interface MadeKeys {
  made: number;
  failed: { name: string; reason: string }[];
}

const planned: Columns<Pick<Step, 'action' | 'kind' | 'name' | 'changes'>> = {
  heading: ['ACTION', 'KIND', 'NAME', 'CHANGES'],
  row: ({ action, kind, name, changes }) => [action, kind, name, changes.join(',')],
};

function tell(
  { done, failed, stopped }: Outcome,
  { asJson, keys, count }: { asJson: boolean | undefined; keys: MadeKeys; count: number },
): void {
  if (failed.length > 0 || keys.failed.length > 0 || stopped !== null) process.exitCode = 1;
  for (const { action, kind, name, at, reason } of failed) {
    process.stderr.write(`bursar: ${at && `${at}: `}${action} ${kind} ${name}: ${reason}\n`);
  }
  for (const { name, reason } of keys.failed) {
    process.stderr.write(`bursar: no key was made for ${name}: ${reason}\n`);
  }
  if (stopped !== null) process.stderr.write(`bursar: ${stopped}: run it again to go on\n`);
  if (asJson) {
    const short = ({ action, kind, name, changes }: Step) => ({ action, kind, name, changes });
    const refused = failed.map((one) => ({ ...short(one), at: one.at, reason: one.reason }));
    const made = { keys: keys.made, keysFailed: keys.failed };
    printJson({ done: done.map(short), failed: refused, stopped, ...made });
    return;
  }
  const of = (action: string) => done.filter((one) => one.action === action).length;
  const sums = `${of('create')} created, ${of('set')} set, ${of('delete')} deleted`;
  const left = count - done.length;
  const ofKeys = keys.made > 0 ? `, ${keys.made} keys made` : '';
  print(`${sums}${left > 0 ? `, ${left} not done` : ''}${ofKeys}`);
}

/** Throws `CommandFailure` (usage) that names files and lines. */
function readFiles(files: readonly string[]): Gathered {
  const wanted = new Gathered();
  for (const file of files) wanted.attempt(() => readFile(file, wanted));
  wanted.completeGroups();
  wanted.finish();
  return wanted;
}

function readFile(file: string, wanted: Gathered): void {
  const text = orFail('usage', `cannot read ${file}: `, () =>
    readFileSync(file === '-' ? 0 : file, 'utf8'),
  );
  if (text.length > fileBytesMax) throw wrong(file, `it has more than ${fileBytesMax} bytes`);
  const name = file === '-' ? 'standard input' : basename(file);
  if (file.endsWith('.csv')) readPeople(name, text, wanted);
  else readDocument(name, text, wanted);
}

const retryMs = 500;

/** Waits for a gateway that does not answer yet. */
async function askSelf(connection: Doer['connection'], waitMs: number): Promise<Doer['self']> {
  const untilMs = Date.now() + waitMs;
  for (;;) {
    try {
      return (await callApi(connection, { method: 'GET', path: ['whoami'] })).json as Doer['self'];
    } catch (error) {
      if (!(error instanceof Unreachable) || Date.now() >= untilMs) throw error;
      await setTimeout(Math.min(retryMs, Math.max(0, untilMs - Date.now())));
    }
  }
}

const keysHeading = ['principal', 'accessKeyId', 'secretAccessKey'];

/**
 * A key for each person of the files who has none. Each is written as soon as it is made, so that a
 * run that is killed loses at most those that were under way; they are on the disk when all are
 * made. Who has a key that is not in the file, as after a power cut, is named. Where no key can be
 * made for somebody, the others get theirs.
 */
async function makeKeys(
  file: string,
  people: readonly Entry[],
  connection: Connection,
  keys: MadeKeys,
): Promise<void> {
  if (!existsSync(file)) {
    writeOutput(file, csvText(keysHeading, []), { mode: 0o600, ifExists: 'refuse' });
  }
  const known = orFail('usage', '', () => readCsv(basename(file), readFileSync(file, 'utf8')));
  if (known[0]?.cells.join() !== keysHeading.join()) {
    throw new CommandFailure('usage', `${file} is not what --keys wrote`);
  }
  const listed = new Set(known.map(({ cells }) => cells[1]));
  const fd = openSync(file, 'a', 0o600);
  const makeKey = async (one: Entry): Promise<void> => {
    const path = ['tenants', tenantOf(one), 'principals', ownNameOf(one), 'access-keys'];
    type Key = Answers['GetAccessKey'];
    const has = await listAll<Key>(connection, path, 'accessKeys');
    const unknown = has.filter(({ accessKeyId }) => !listed.has(accessKeyId));
    for (const { accessKeyId } of unknown) {
      process.stderr.write(`bursar: ${one.name} has the key ${accessKeyId}, not in ${file}\n`);
    }
    if (has.length > 0) return;
    const { json } = await callApi(connection, { method: 'POST', path, body: {} });
    const { accessKeyId, secretAccessKey } = json as Answers['CreateAccessKey'];
    // As they are: none needs quotes, and a secret that begins with `+` must not get one.
    appendFileSync(fd, `${[one.name, accessKeyId, secretAccessKey].join(',')}\r\n`);
    keys.made++;
  };
  try {
    await forEach(people, async (one) => {
      try {
        await makeKey(one);
      } catch (error) {
        if (!(error instanceof ApiRefusal)) throw error;
        keys.failed.push({ name: one.name, reason: messageOfFailure(error) });
      }
    });
  } finally {
    fsyncSync(fd);
    closeSync(fd);
  }
}

async function dump(tenants: string[], _: object, command: Command): Promise<void> {
  const flags = command.optsWithGlobals<CommandFlags>();
  const present = await readPresent(findConnection(flags), tenants, () => true, 'all');
  const missing = tenants.find((name) => !present.entries.has(`tenant ${name}`));
  if (missing !== undefined) throw new CommandFailure('failed', `there is no tenant ${missing}`);
  const text = writeDocument(present.entries.values());
  if (flags.json) printJson((await import('yaml')).parse(text));
  else process.stdout.write(text);
}
