// `bursar verify`, whose commands without a gateway have files of their own. `bursar verify data`
// reads all stored data through the gateway's verification and reports what is damaged. Invariant:
// the position is on the disk before the next slice is asked for, so a run that ends in any way
// goes on where it was; a finding is printed before the position passes it.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { monotonicMs, timerMsMax } from '../core/clock.ts';
import { CommandFailure, orFail } from '../core/command-failure.ts';
import { writeFileDurably } from '../core/durable-file.ts';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { parseSize } from '../server/settings/quantities.ts';
import { ApiRefusal, type Connection, callApi } from './api-client.ts';
import { connect } from './command-arguments.ts';
import { print } from './output.ts';
import { formatCount, Progress, type Work } from './progress.ts';
import {
  addVerifyBundleCommand,
  addVerifyLogCommand,
  addVerifyReceiptCommand,
} from './verify-audit-commands.ts';
import { addVerifyDatasetCommand } from './verify-dataset-command.ts';

interface VerifyFlags {
  tenant?: string;
  bucket?: string;
  prefix?: string;
  rate: number;
  /** True: `--resume` was given without a file. */
  resume?: string | true;
}

type Finding = Slice['findings'][number];
type Slice = Answers['VerifyData'];

/** What the position file holds. */
interface Run extends Work {
  version: 1;
  endpoint: string;
  tenant?: string;
  bucket?: string;
  prefix?: string;
  cursor: string | null;
  findings: number;
}

const positionFileDefault = './bursar-verify.json';
const MiB = 1024 * 1024;
const rateDefault = 50 * MiB;
const sliceBytesMax = 64 * MiB;
/** How often in a row a store may be unreachable, with a second between the tries. */
const triesMax = 60;

export function addVerifyCommands(program: Command): void {
  const verify = program
    .command('verify')
    .description('check that what is stored is what was written');
  verify
    .command('data')
    .description('read and verify stored data; exit code 1 when some of it is damaged')
    .argument('[tenant]', 'of this tenant (default: all that you may see; with --bucket, your own)')
    .option('--bucket <name>', 'of this bucket')
    .option('--prefix <text>', 'of keys that begin so')
    .option(
      '--rate <size>',
      'read at most so much a second (default: 50MiB/s)',
      parseRate,
      rateDefault,
    )
    .option(
      '--resume [file]',
      'go on where the run that kept its position in this file stopped (default: ' +
        `${positionFileDefault})`,
    )
    .action(async (tenant: string | undefined, asked: object, command: Command) => {
      const { connection, flags } = connect(command);
      const given = { ...(asked as VerifyFlags), ...(tenant !== undefined && { tenant }) };
      await verifyData(connection, given, flags.json === true);
    });
}

async function verifyData(
  connection: Connection,
  given: VerifyFlags,
  asJson: boolean,
): Promise<void> {
  const file = typeof given.resume === 'string' ? given.resume : positionFileDefault;
  const run = (given.resume && resumeRun(file, connection, given)) || beginRun(connection, given);
  const progress = new Progress(process.stderr, run.bytes);
  const pace = new Pace(given.rate);
  try {
    for (;;) {
      const slice = await verifySlice(connection, run, Math.min(given.rate, sliceBytesMax));
      progress.clear();
      for (const one of slice.findings) print(asJson ? JSON.stringify(one) : lineOf(one));
      addUp(run, slice);
      if (run.cursor === null) break;
      save(file, run);
      progress.show(run, slice.estimate);
      await pace.wait(slice.bytes);
    }
  } catch (error) {
    progress.clear();
    if (!(error instanceof CommandFailure) || run.cursor === null) throw error;
    const message = `${error.message}; --resume ${file} goes on from here`;
    throw new CommandFailure('failed', message, error);
  }
  rmSync(file, { force: true });
  conclude(run, asJson);
}

function addUp(run: Run, { cursor, versions, bytes, findings }: Slice): void {
  run.cursor = cursor;
  run.versions += versions;
  run.bytes += bytes;
  run.findings += findings.length;
}

/** Verifies one slice, and waits for a store that is unreachable for a while. */
async function verifySlice(connection: Connection, run: Run, bytesMax: number): Promise<Slice> {
  const { tenant, bucket, prefix, cursor } = run;
  const body = { tenant, bucket, prefix, cursor: cursor ?? undefined, bytesMax };
  for (let tries = 1; ; tries++) {
    try {
      const path = ['verifications'];
      const { json } = await callApi(connection, { method: 'POST', path, body });
      return json as Slice;
    } catch (error) {
      const isBusy = error instanceof ApiRefusal && error.status === 503;
      if (!isBusy || tries === triesMax) throw error;
    }
    await setTimeout(1000);
  }
}

function beginRun({ endpoint }: Connection, { tenant, bucket, prefix }: VerifyFlags): Run {
  const done = { versions: 0, bytes: 0, findings: 0 };
  return { version: 1, endpoint, tenant, bucket, prefix, cursor: null, ...done };
}

/** Undefined when there is no file. Throws `CommandFailure` when it is of another run. */
function resumeRun(file: string, { endpoint }: Connection, given: VerifyFlags): Run | undefined {
  if (!existsSync(file)) return undefined;
  const run = readRun(file);
  const { tenant, bucket, prefix } = given;
  for (const [name, value] of Object.entries({ endpoint, tenant, bucket, prefix })) {
    const kept = run[name as 'endpoint'];
    if (value === undefined || value === kept) continue;
    const without = kept === undefined ? `has no ${name}` : `has the ${name} ${kept}`;
    throw new CommandFailure('usage', `the run in ${file} ${without}, not ${value}`);
  }
  return run;
}

function readRun(file: string): Run {
  const run = orFail('usage', `${file}: `, () => JSON.parse(readFileSync(file, 'utf8')) as Run);
  if (run.version === 1) return run;
  throw new CommandFailure('usage', `${file} keeps no position of a run`);
}

/** Throws `CommandFailure`. */
function save(file: string, run: Run): void {
  orFail('failed', `cannot keep the position in ${file}: `, () =>
    writeFileDurably(file, `${JSON.stringify(run)}\n`, { mode: 0o600, ifExists: 'replace' }),
  );
}

function conclude(run: Run, asJson: boolean): void {
  const { versions, bytes, findings } = run;
  if (asJson) print(JSON.stringify({ versions, bytes, findings }));
  else print(`verified ${formatCount(versions)} versions, ${formatBytes(bytes)}`);
  if (findings === 0) return;
  const damaged = `${formatCount(findings)} of ${formatCount(versions)} versions`;
  throw new CommandFailure('failed', `${damaged} are not what was written`);
}

function lineOf(finding: Finding): string {
  const { tenant, bucket, key, seq, uploadId, partNumber, kind, message } = finding;
  const what = finding.lost ? 'lost' : kind;
  const place = seq === null ? `part ${partNumber} of upload ${uploadId}` : `version ${seq}`;
  const name = `${tenant}/${bucket}/${key}`;
  // Quoted where it is not shown as it is, so that nobody takes an escape for the key's own text.
  const shown = printable(name) === name ? name : printable(JSON.stringify(name));
  return `${shown}  ${place}  ${what}: ${printable(message)}`;
}

function parseRate(text: string): number {
  try {
    const rate = parseSize(text.replace(/\/s$/, ''));
    if (rate > 0) return rate;
  } catch {
    // The summary below says it.
  }
  throw new InvalidArgumentError('Must be bytes a second such as 50MiB/s.');
}

/** Spreads bytes over time, so that they never come faster than `bytesPerSecond` on average. */
class Pace {
  readonly #bytesPerSecond: number;
  #freeMs = monotonicMs();

  constructor(bytesPerSecond: number) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Waits until more may come after these bytes. Time that was not used is lost. */
  async wait(bytes: number): Promise<void> {
    this.#freeMs += (bytes / this.#bytesPerSecond) * 1000;
    const now = monotonicMs();
    if (this.#freeMs > now) await setTimeout(Math.min(this.#freeMs - now, timerMsMax));
    else this.#freeMs = now;
  }
}

/** For whoever holds a receipt, a log or a bundle. The group `verify` may have others already. */
export function addVerifyOfflineCommands(program: Command): void {
  const verify =
    program.commands.find((one) => one.name() === 'verify') ?? program.command('verify');
  addVerifyReceiptCommand(verify);
  addVerifyLogCommand(verify);
  addVerifyBundleCommand(verify);
  addVerifyDatasetCommand(verify);
}
