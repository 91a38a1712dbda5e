// `bursar rebuild`: makes a lost database anew from the S3 stores and the root keys, and says what
// it could not restore. Progress goes to stderr, the report to stdout.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { Refusal } from '../core/errors.ts';
import { printable } from '../core/printable.ts';
import { rebuild } from '../ledger/rebuild/rebuild.ts';
import {
  type IdentityReport,
  isWhole,
  type JournalReport,
  type Listed,
  type ObjectName,
  type RebuildReport,
} from '../ledger/rebuild/report.ts';
import type { RebuildOptions } from '../ledger/rebuild/work.ts';
import { type DataFolder, openDataFolder } from '../server/folder/data-folder.ts';
import { openStore } from '../server/folder/opened-store.ts';
import { StorePrices } from '../server/folder/store-prices.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { chooseStores } from '../server/settings/store-settings.ts';
import type { StoreDriver } from '../tiering/stores/driver.ts';
import { StoreTallies } from '../tiering/stores/store-tally.ts';
import { print, printJson } from './output.ts';
import { formatCount, StepProgress } from './progress.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';

interface RebuildFlags {
  json?: boolean;
  generation?: string;
  discard?: boolean;
}

export function addRebuildCommand(program: Command): void {
  const command = program
    .command('rebuild')
    .description('make a lost database anew from the S3 stores and the root keys in DIR/keys')
    .option('--json', 'report as JSON')
    .option('--generation <name>', 'go by this journal instead of the newest')
    .option('--discard', 'let extents that nothing names be swept even if something is lost');
  addSettingFlags(command, [...placeSettings, 'journalWithKeys', 'prices', 'priceBooks']).action(
    async (given: RebuildFlags & Flags) => {
      const { json, generation, discard, ...flags } = given;
      const report = await run(loadConfig(flags), { generation, discard: discard === true });
      if (json) printJson({ ...report, isWhole: isWhole(report) });
      else printReport(report);
      if (!isWhole(report)) {
        throw new CommandFailure('failed', 'not everything could be restored: see the report');
      }
    },
  );
}

async function run(
  config: Config,
  asked: { generation: string | undefined; discard: boolean },
): Promise<RebuildReport> {
  for (const [file, shouldBe] of [
    [join(config.data, 'keys', 'root-keys.json'), true],
    [join(config.data, 'bursar.db'), false],
  ] as const) {
    if (existsSync(file) === shouldBe) continue;
    const reason = shouldBe
      ? 'is missing: without the root keys nothing can be restored'
      : 'is there: a rebuild makes it anew, so move it away first';
    throw new CommandFailure('failed', `${file} ${reason}`);
  }
  // As `serve` does: nothing in the folder is for other users' eyes.
  process.umask(0o077);
  using folder = await openDataFolder(config);
  const stores: StoreDriver[] = [];
  const tallies = new StoreTallies();
  try {
    // Numbers are those of manifests, which the journals know.
    for (const settings of chooseStores(config).stores) {
      const number = stores.length;
      stores.push(await openStore({ ...settings, number, tally: tallies.tallyOf(number) }));
    }
    const prices = new StorePrices(config, Date.now());
    const { journalWithKeys: withKeys } = config;
    return await rebuildFolder(folder, stores, { ...asked, withKeys, prices, tallies });
  } finally {
    for (const store of stores) await store.close();
  }
}

async function rebuildFolder(
  folder: DataFolder,
  stores: readonly StoreDriver[],
  asked: Pick<RebuildOptions, 'generation' | 'discard' | 'withKeys' | 'prices' | 'tallies'>,
): Promise<RebuildReport> {
  using progress = new StepProgress();
  try {
    return await rebuild({
      ...asked,
      stores,
      rootKeys: folder.rootKeys.keys,
      sealer: folder.sealer,
      databaseFile: folder.databaseFile,
      onProgress: (step, done) => progress.show(step, done),
    });
  } catch (error) {
    if (error instanceof Refusal) {
      const reason = messageOfFailure(error.cause ?? error);
      throw new CommandFailure('failed', `a store failed, run it again: ${reason}`, error);
    }
    throw error;
  }
}

function printReport(report: RebuildReport): void {
  for (const journal of report.journals) printJournal(journal);
  if (report.untoldBuckets.length > 0) {
    const names = report.untoldBuckets.map(printable).join(', ');
    print(`not told of by the journal, though there are extents: ${names}`);
  }
  const { buckets, versions, versionBytes, tenants, principals } = report;
  print(
    `restored ${formatCount(versions)} versions (${formatBytes(versionBytes)}) in ` +
      `${formatCount(buckets)} buckets`,
  );
  const { snapshots, heldVersions } = report;
  if (snapshots > 0) {
    const held = `${formatCount(heldVersions)} of these versions`;
    print(`and ${formatCount(snapshots)} snapshots, which alone hold ${held}`);
  }
  const nameOf = (one: ObjectName): string =>
    `${one.tenant}/${one.bucket}/${one.key}${one.versionId ? ` version ${one.versionId}` : ''}`;
  printListed('of these, known by their extents alone', report.fromExtents, nameOf);
  printListed('LOST', report.lost, (one) => `${nameOf(one)}: ${one.reason}`);
  printListed('multipart uploads, not restored', report.uploads, (one) => {
    return `${one.bucket}/${one.key}: upload ${one.id}, ${formatBytes(one.sizeBytes)}`;
  });
  printListed('extents that are not what was written', report.damagedExtents, (id) => id);
  const { condemnedExtents: condemned, leftExtents: left, recordPacks: packs } = report;
  if (condemned > 0)
    print(`${formatCount(condemned)} extents belong to nothing: they will be swept`);
  if (left > 0) print(`${formatCount(left)} extents that nothing names were left alone`);
  if (packs > 0) {
    print(`${formatCount(packs)} packs of old records were left alone: without the salts in the`);
    print('lost database nobody opens them');
  }
  if (report.ownerlessBuckets.length > 0) {
    const names = report.ownerlessBuckets.map(printable).join(', ');
    print(`not restored, since their tenants or owners were deleted: ${names}`);
  }
  printIdentities(report.identities);
  if (tenants.length > 0)
    print(`tenants of buckets, of which nothing is told: ${tenants.join(', ')}`);
  if (principals.length > 0) {
    print(`owners of buckets, now members without access keys: ${principals.join(', ')}`);
  }
  print('not restored: records, and what was used of limits');
}

function printIdentities(identities: IdentityReport): void {
  const { stores, doubtful, restored } = identities;
  if (stores.length === 0) {
    print('no journal tells who there was: principals, grants and limits are not restored');
  } else {
    const counts = Object.entries(restored)
      .filter(([, count]) => count > 0)
      .map(([kind, count]) => `${formatCount(count)} ${wordsOf(kind)}`);
    print(`restored as ${stores.join(', ')} tells: ${counts.join(', ') || 'nobody'}`);
  }
  if (doubtful) {
    print('something of that may be missing, also what took rights away: NOBODY IS ACTIVE.');
    print(
      'Compare it with what you know, then activate each: bursar principal activate TENANT/NAME',
    );
  }
  const asIs = (text: string): string => text;
  printListed('access keys, not restored', identities.withoutKey, asIs);
  printListed('webhooks with a new secret', identities.newWebhookSecrets, asIs);
  printListed('share links that are used up', identities.usedUpShares, asIs);
  printListed('not restored', identities.leftOut, asIs);
}

/** `retiredNames`: `retired names`. */
function wordsOf(member: string): string {
  return member.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function printJournal(journal: JournalReport): void {
  const { store, generation, lastSeq, lastTime, earlierLosses } = journal;
  const { damaged, missing, unlisted, foreign } = journal;
  print(`store ${store}: journal ${generation}, up to change ${lastSeq} at ${lastTime}`);
  for (const [what, names] of Object.entries({ damaged, missing, unlisted, foreign })) {
    if (names.length > 0) print(`  ${what}: ${names.map(printable).join(', ')}`);
  }
  if (earlierLosses > 0) print(`  a rebuild before this one lost ${formatCount(earlierLosses)}`);
}

function printListed<T>(
  what: string,
  listed: Pick<Listed<T>, 'count' | 'first'>,
  show: (one: T) => string,
): void {
  if (listed.count === 0) return;
  print(`${what}: ${formatCount(listed.count)}`);
  for (const one of listed.first) print(`  ${printable(show(one))}`);
  if (listed.count > listed.first.length) print('  …');
}
