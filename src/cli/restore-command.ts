// `bursar restore`: puts a backup back, and rolls it forward by the S3 stores that went on after
// it; or does the second with a database that was put back by hand. Progress goes to stderr, the
// report to stdout.
import type { Command } from 'commander';
import { formatBytes } from '../core/bytes-text.ts';
import { CommandFailure } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import { isCut } from '../ledger/rebuild/report.ts';
import type { PlaceFlags } from '../server/folder/backup-place.ts';
import { type Config, type Flags, loadConfig } from '../server/settings/config.ts';
import { addPlaceFlags, collect } from './command-arguments.ts';
import { print, printJson } from './output.ts';
import { formatCount } from './progress.ts';
import { type Restored, restoreBackup, restoreHere } from './restored-folder.ts';
import { addSettingFlags, placeSettings } from './setting-flags.ts';

/** Settings that lead to the folder, to the stores and their prices, and to the keys. */
const wanted = [
  ...placeSettings,
  ...(['logOrigin', 'journalWithKeys', 'prices', 'priceBooks'] as const),
] satisfies (keyof Config)[];

export interface RestoreFlags extends PlaceFlags {
  json?: boolean;
  backup?: string;
  passphraseFile?: string;
  withoutStore?: string[];
  sameLog?: boolean;
  here?: boolean;
  discard?: boolean;
  acceptEdited?: boolean;
}

const help = `
--data must be empty, but for keys/. Give the settings of stores that bursar serve has: each S3
store is read, becomes this folder's own, and ends ready. A gateway that still serves them loses
them.

Examples:
  bursar restore /srv/backups --data /srv/bursar
  bursar restore s3://backups/bursar --s3-region eu-west-1 --data /srv/bursar \\
    --config /etc/bursar.yaml
  bursar restore --here --data /srv/bursar --config /etc/bursar.yaml`;

export function addRestoreCommand(program: Command): void {
  const command = program
    .command('restore')
    .description('put a backup back, with what S3 stores have been given since')
    .argument('[place]', 'folder, or s3://BUCKET/PREFIX, with backups')
    .option('--backup <id>', 'which one (default: the newest)')
    .option('--here', 'no backup: the database in --data is an older copy, put back by hand')
    .option('--passphrase-file <file>', 'passphrase of the root keys in the backup')
    .option('--without-store <name>', 'leave this store as it is; repeatable', collect)
    .option('--same-log', 'nothing was signed after the backup: the log keeps its name')
    .option('--discard', 'let extents that nothing names be swept even if something is lost')
    .option('--accept-edited', 'take rights that somebody else has edited for authentic')
    .option('--json', 'report as JSON')
    .addHelpText('after', help);
  addPlaceFlags(command);
  addSettingFlags(command, wanted).action(
    async (place: string | undefined, given: RestoreFlags & Flags) => {
      if ((place === undefined) !== (given.here === true)) {
        throw new CommandFailure('usage', 'give the place of the backup, or --here');
      }
      if (given.here && (given.backup ?? given.passphraseFile) !== undefined) {
        throw new CommandFailure('usage', '--backup and --passphrase-file go without --here');
      }
      const config = loadConfig(given);
      // Nothing in the folder is for other users' eyes.
      process.umask(0o077);
      const restored =
        place === undefined
          ? await restoreHere(config, given)
          : await restoreBackup(config, place, given);
      if (given.json) printJson(restored);
      else printRestored(restored);
      for (const journal of restored.stores.journals) alarm(journal);
      if (!restored.stores.isWhole) {
        throw new CommandFailure('failed', 'not everything could be restored: see the report');
      }
    },
  );
}

const namesShown = 5;

/** Goes to stderr, in the words of a gateway that finds its journal in this state at a start. */
function alarm(journal: Restored['stores']['journals'][number]): void {
  const { store, damaged, missing, lastSeq, toldSeq } = journal;
  const lost = [...damaged, ...missing];
  if (lost.length === 0 && !isCut(journal)) return;
  const names = lost.slice(0, namesShown).map(printable).join(', ');
  const more = lost.length > namesShown ? ` and ${lost.length - namesShown} more` : '';
  const cut = `it ends with change ${lastSeq}, and was told of change ${toldSeq}`;
  const what = [...(lost.length > 0 ? [`${names}${more}`] : []), ...(isCut(journal) ? [cut] : [])];
  process.stderr.write(
    `bursar: the journal of store ${store} is not as it was written: ${what.join('; ')}\n`,
  );
}

export function printRestored(restored: Restored): void {
  const { backup, shipped, log, stores, left, unknown, localMissing, accepted } = restored;
  if (backup) {
    const { id, time, records, madeBy } = backup;
    print(`backup ${id} of ${time}: ${formatCount(records)} records, made by Bursar ${madeBy}`);
  }
  if (shipped) print(`and what was shipped since, up to ${shipped.time}`);
  for (const { store, generation, lastSeq, lastTime, damaged, missing } of stores.journals) {
    print(`store ${store}: journal ${generation}, up to change ${lastSeq} at ${lastTime}`);
    for (const [what, names] of Object.entries({ damaged, missing })) {
      if (names.length > 0) print(`  ${what}: ${names.map(printable).join(', ')}`);
    }
  }
  const { versions, versionBytes, ended, amended, buckets, configured, removed } = stores;
  print(
    `of the stores: ${formatCount(versions)} versions (${formatBytes(versionBytes)}) came after ` +
      `the backup, ${formatCount(ended)} ended, ${formatCount(amended)} have other tags or locks`,
  );
  print(
    `  buckets: ${formatCount(buckets)} made, ${formatCount(configured)} set up, ` +
      `${formatCount(removed)} deleted`,
  );
  const { snapshots, deletedSnapshots } = stores;
  if (snapshots + deletedSnapshots > 0) {
    print(`  snapshots: ${formatCount(snapshots)} made, ${formatCount(deletedSnapshots)} deleted`);
  }
  if (stores.fromExtents.count > 0) {
    print(`  known by their extents alone: ${formatCount(stores.fromExtents.count)} versions`);
  }
  for (const { tenant, bucket, key, reason } of stores.lost.first) {
    print(`LOST: ${printable(`${tenant}/${bucket}/${key}`)}: ${reason}`);
  }
  printIdentities(stores.identities);
  for (const id of stores.principals) print(`made, without access keys: ${printable(id)}`);
  for (const name of left) print(`store ${name} was left as it is`);
  if (localMissing > 0) {
    print(
      `${formatCount(localMissing)} extents of the local store are not there: put back what you ` +
        'have of DIR/extents; bursar verify data says which objects lack their bytes',
    );
  }
  if (log) {
    print(log.now === log.before ? `the log keeps its name, ${log.now}` : nameOf(log));
  }
  for (const what of accepted) print(`accepted: ${printable(what)}`);
  for (const line of unknown) print(`not known: ${line}`);
}

function printIdentities(identities: Restored['stores']['identities']): void {
  const { stores, restored, changed, removed, leftOut, withoutKey, usedUpShares } = identities;
  const { newWebhookSecrets } = identities;
  if (stores.length === 0) return;
  const made = Object.entries(restored).filter(([, count]) => count > 0);
  const of = made.map(([kind, count]) => `${formatCount(count)} ${kind}`).join(', ') || 'nothing';
  print(
    `of who there is and what they may: ${of} made or replaced, ${formatCount(changed.count)} ` +
      `changed, ${formatCount(removed.count)} deleted`,
  );
  for (const name of removed.first) print(`  deleted: ${printable(name)}`);
  for (const what of leftOut.first) print(`  left as it was: ${printable(what)}`);
  for (const name of withoutKey.first)
    print(`  an access key without its secret: ${printable(name)}`);
  for (const name of newWebhookSecrets.first) print(`  a new secret: ${printable(name)}`);
  for (const id of usedUpShares.first) print(`  opens nothing more: share link ${printable(id)}`);
}

function nameOf({ before, now }: { before: string; now: string }): string {
  const advice = 'tell auditors and witnesses (bursar log key)';
  return `the log goes on as ${now}; it was ${before}: ${advice}`;
}
