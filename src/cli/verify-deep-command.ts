// `bursar verify deep`: the log, its records, the catalog and the stored bytes, each against the
// others. It reads a data folder, of a gateway that is stopped or that runs, and changes nothing in
// it. Invariant: what it compares the log with is said at the end, since a log that agrees with
// itself alone proves nothing.

import { setTimeout } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Difference } from '../audit/verify/record-fields.ts';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { DeepRunState } from '../gateway/native/verify-routes.ts';
import { differencesShownMax } from '../ledger/deep/deep-comparison.ts';
import { type DeepSummary, verifyDeep } from '../server/folder/deep-verification.ts';
import { type Flags, loadConfig } from '../server/settings/config.ts';
import { type Connection, callApi } from './api-client.ts';
import { collect, connect } from './command-arguments.ts';
import { print } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';

interface DeepFlags {
  checkpoint?: string[];
  key?: string[];
  skipData?: boolean;
  resume?: string;
  served?: boolean;
  stop?: boolean;
  json?: boolean;
}

/** Adds the command to the group `verify`, which is there already. */
export function addVerifyDeepCommand(program: Command): void {
  const verify = program.commands.find((one) => one.name() === 'verify') as Command;
  const command = verify
    .command('deep')
    .description(
      'compare log, records, catalog and stored bytes of a data folder; exit code 1 when ' +
        'they differ',
    )
    .option('--checkpoint <file>', 'a checkpoint that you kept: the log must extend it', collect)
    .option('--key <key>', 'the key of its log, or a file with it (default: those in DIR)', collect)
    .option('--skip-data', 'leave out the stored bytes')
    .option('--resume <file>', 'keep how far it has come in this file, and go on from there')
    .option('--served', 'have the gateway that you administer compare its folder (see --endpoint)')
    .option('--stop', 'with --served: stop the comparison that is under way there')
    .option('--json', 'a JSON object a line for each difference, and one for the whole');
  addSettingFlags(command, placeSettings).action(async (given: DeepFlags & Flags) => {
    const { checkpoint = [], key = [], skipData = false, resume, ...others } = given;
    const { served, stop, json, ...flags } = others;
    const shown = new Shown(json === true);
    if (stop && !served) {
      throw new CommandFailure('usage', '--stop is of a gateway: give it with --served');
    }
    if (served) {
      const ofFolder = [...checkpoint, ...key, ...(resume === undefined ? [] : [resume])];
      if (ofFolder.length > 0 || flags.data !== undefined) {
        const message =
          '--served is of no folder here: give it no --data, --checkpoint, --key, --resume';
        throw new CommandFailure('usage', message);
      }
      const { connection } = connect(command);
      if (stop) await callApi(connection, { method: 'DELETE', path: servedPath });
      else shown.conclude(await followServed(connection, shown), false);
      return;
    }
    const summary = await verifyDeep(loadConfig(flags), {
      ...{ checkpointFiles: checkpoint, keys: key, withData: !skipData, stateFile: resume },
      onDifference: (difference) => shown.difference(difference),
      onProgress: (of, count) => shown.progress(of, count),
    });
    shown.conclude(summary, !skipData);
  });
}

/** Progress is asked for no more often than this, since each call is a record. */
const askedEachMs = 10_000;

const servedPath = ['deep-verification'];

/** Begins a run, or joins the one under way, and shows what it finds until it ends. */
async function followServed(connection: Connection, shown: Shown): Promise<DeepSummary> {
  const path = servedPath;
  let state = (await callApi(connection, { method: 'POST', path })).json as DeepRunState;
  let from = 0;
  for (let waitMs = 100; ; waitMs = Math.min(2 * waitMs, askedEachMs)) {
    for (const difference of state.differences) shown.difference(difference);
    from += state.differences.length;
    shown.progress('records compared', state.records);
    const isAllShown = from >= Math.min(state.found, differencesShownMax);
    if (!state.isRunning && isAllShown) break;
    if (isAllShown) await setTimeout(waitMs);
    const query = { from: String(from) };
    state = (await callApi(connection, { method: 'GET', path, query })).json as DeepRunState;
  }
  if (state.summary) return state.summary as DeepSummary;
  throw new CommandFailure('failed', state.failure ?? 'the gateway was stopped before the end');
}

class Shown {
  readonly #asJson: boolean;
  #of = '';
  #progress: CountProgress | undefined;

  constructor(asJson: boolean) {
    this.#asJson = asJson;
  }

  progress(of: string, count: number): void {
    if (of !== this.#of) {
      this.#progress?.clear();
      this.#progress = new CountProgress(process.stderr, of);
      this.#of = of;
    }
    this.#progress?.show(count);
  }

  difference(difference: Difference): void {
    this.#progress?.clear();
    const { where, what } = difference;
    print(this.#asJson ? JSON.stringify(difference) : printable(`${where}: ${what}`));
  }

  conclude(summary: DeepSummary, withData: boolean): void {
    this.#progress?.clear();
    const { differences } = summary;
    if (this.#asJson) print(JSON.stringify(summary));
    else for (const line of describe(summary, withData)) print(printable(line));
    if (differences === 0) return;
    const count =
      differences === 1 ? 'is a difference' : `are ${formatCount(differences)} differences`;
    const shown =
      differences > differencesShownMax
        ? `; the first ${formatCount(differencesShownMax)} are above`
        : '';
    throw new CommandFailure('failed', `there ${count}${shown}`);
  }
}

function describe(summary: DeepSummary, withData: boolean): string[] {
  const { records, erased, recordsUnread, versions, versionsUnknown, bytes } = summary;
  const lines = [
    `compared ${formatCount(records)} records with the log, and ${formatCount(versions)} ` +
      `versions with their records${withData ? `, and read ${formatBytes(bytes)} of objects` : ''}`,
  ];
  const silent = [
    ...(erased > 0 ? [`${formatCount(erased)} records were erased`] : []),
    ...(recordsUnread > 0 ? [`${formatCount(recordsUnread)} could not be read`] : []),
  ].join(', ');
  if (silent !== '') {
    const unknown = `what these made or ended (${formatCount(versionsUnknown)} rows)`;
    lines.push(`${silent}; ${unknown} cannot be compared`);
  }
  for (const name of summary.storesSkipped) lines.push(`not read: what is in store ${name}`);
  for (const { from, size } of summary.checkpoints) {
    lines.push(`compared with ${from}, of ${formatCount(size)} records`);
  }
  if (summary.checkpoints.length > 0) return lines;
  return [...lines, 'nothing that was signed is here to compare with: keep checkpoints elsewhere'];
}
