// `bursar verify deep`: the log, its records, the catalog and the stored bytes, each against the
// others. It reads a data folder, of a gateway that is stopped or that runs, and changes nothing in
// it. Invariant: what it compares the log with is said at the end, since a log that agrees with itself
// alone proves nothing.
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { type DeepRecordsOptions, verifyRecords } from '../audit/verify/deep-records.ts';
import { DataVerifier } from '../gateway/data-verifier.ts';
import { DeepState } from '../ledger/deep/deep-state.ts';
import { DeepCatalog } from '../ledger/deep-catalog.ts';
import { collect } from './command-arguments.ts';
import { type Flags, loadConfig } from './config.ts';
import { dataFiles } from './data-folder.ts';
import { type DeepParts, openDeepParts, readSigned, type Signed } from './deep-parts.ts';
import { CommandFailure } from './failure.ts';
import { print, printable } from './output.ts';
import { CountProgress, formatBytes, formatCount } from './progress.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';

interface DeepFlags {
  checkpoint?: string[];
  key?: string[];
  skipData?: boolean;
  json?: boolean;
}

interface Summary {
  records: number;
  /** Of these, erased: what they said cannot be compared. */
  erased: number;
  /** And those in packs of the archive that are lost, damaged, or in stores that are not configured. */
  recordsUnread: number;
  versions: number;
  /** Of these and their ends, those that records tell of which were erased or not read. */
  versionsUnknown: number;
  bytes: number;
  /** Names of stores that are not configured, or do not answer. */
  storesSkipped: string[];
  checkpoints: { from: string; size: number }[];
  differences: number;
}

/** More of them say no more. */
const shownMax = 1000;
const sliceBytesMax = 64 * 1024 * 1024;

/** Adds the command to the group `verify`. */
export function addVerifyDeepCommand(verify: Command): void {
  const command = verify
    .command('deep')
    .description(
      'compare log, records, catalog and stored bytes of a data folder; exit code 1 when they differ',
    )
    .option('--checkpoint <file>', 'a checkpoint that you kept: the log must extend it', collect)
    .option('--key <key>', 'the key of its log, or a file with it (default: those in DIR)', collect)
    .option('--skip-data', 'leave out the stored bytes')
    .option('--json', 'a JSON object a line for each difference, and one for the whole');
  addSettingFlags(command, placeSettings).action(async (given: DeepFlags & Flags) => {
    const { checkpoint, key, skipData, json, ...flags } = given;
    const config = loadConfig(flags);
    const { databaseFile } = dataFiles(config.data);
    if (!existsSync(databaseFile))
      throw new CommandFailure('failed', `there is no ${databaseFile}`);
    const parts = await openDeepParts(config);
    try {
      const signed = await readSigned(parts, { files: checkpoint ?? [], keys: key ?? [] });
      await new DeepVerification(parts, json === true).run(signed, skipData !== true);
    } finally {
      await parts.close();
    }
  });
}

class DeepVerification {
  readonly #parts: DeepParts;
  readonly #asJson: boolean;
  #differences = 0;
  #progress = new CountProgress(process.stderr, 'records compared');

  constructor(parts: DeepParts, asJson: boolean) {
    this.#parts = parts;
    this.#asJson = asJson;
  }

  async run(signed: Signed, withData: boolean): Promise<void> {
    for (const difference of signed.refused) this.#tell(difference);
    const log = await this.#compareRecords(signed);
    const bytes = withData ? await this.#readData() : 0;
    this.#progress.clear();
    const checkpoints = signed.checkpoints.map(({ from, size }) => ({ from, size }));
    const { storesSkipped } = this.#parts;
    const differences = this.#differences;
    this.#conclude({ ...log, bytes, storesSkipped, checkpoints, differences }, withData);
  }

  async #compareRecords({ checkpoints }: Signed) {
    const { read, store, size } = this.#parts;
    const tell: DeepRecordsOptions['tell'] = (difference) => this.#tell(difference);
    const catalog = new DeepCatalog({ read, store, size, tell });
    const state = new DeepState({ read, store, tell });
    const { erased, unread: recordsUnread } = await verifyRecords({
      ...{ read, store, checkpoints, tell },
      onRecord: async (index, fields) => {
        await catalog.visit(index, fields);
        await state.visit(index, fields);
        this.#progress.show(index + 1);
      },
    });
    await catalog.finish();
    await state.finish();
    const { versions } = catalog;
    const versionsUnknown = catalog.unknown + state.unknown;
    return { records: size, erased, recordsUnread, versions, versionsUnknown };
  }

  async #readData(): Promise<number> {
    this.#progress.clear();
    this.#progress = new CountProgress(process.stderr, 'versions and parts read');
    const { rooms, buckets } = this.#parts;
    const verifier = new DataVerifier(rooms);
    let bytes = 0;
    let rows = 0;
    for (const { tenant, name: bucket } of buckets) {
      const scope = { tenant, bucket, prefix: '' };
      for (let position = null, isFirst = true; isFirst || position; isFirst = false) {
        const slice = await verifier.verify({ scope, position, bytesMax: sliceBytesMax });
        for (const { place, error } of slice.findings) {
          const what = 'uploadId' in place ? `part ${place.number} of` : `version ${place.seq} of`;
          this.#tell({ where: `${what} ${place.key}`, what: error.message });
        }
        position = slice.position;
        bytes += slice.bytes;
        rows += slice.rows;
        this.#progress.show(rows);
      }
    }
    return bytes;
  }

  #tell(difference: { where: string; what: string }): void {
    if (this.#differences++ >= shownMax) return;
    this.#progress.clear();
    const { where, what } = difference;
    print(this.#asJson ? JSON.stringify(difference) : printable(`${where}: ${what}`));
  }

  #conclude(summary: Summary, withData: boolean): void {
    const { differences } = summary;
    if (this.#asJson) print(JSON.stringify(summary));
    else for (const line of describe(summary, withData)) print(printable(line));
    if (differences === 0) return;
    const count =
      differences === 1 ? 'is a difference' : `are ${formatCount(differences)} differences`;
    throw new CommandFailure('failed', `there ${count}`);
  }
}

function describe(summary: Summary, withData: boolean): string[] {
  const { records, erased, recordsUnread, versions, versionsUnknown, bytes } = summary;
  const lines = [
    `compared ${formatCount(records)} records with the log, and ${formatCount(versions)} versions ` +
      `with their records${withData ? `, and read ${formatBytes(bytes)} of objects` : ''}`,
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
