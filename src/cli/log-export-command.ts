// `bursar log export`: the log as plain files, for a static web server or a bucket to serve.
// Progress goes to stderr.
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type ExportReport, exportLog, type LogTarget } from '../audit/log/log-export.ts';
import { ed25519, type NoteKey } from '../audit/log/note.ts';
import { LogDamage } from '../audit/log/verified-log.ts';
import { type LogSource, openLogSource, SourceFailure } from '../audit/verify/log-source.ts';
import { parseVerifiers } from '../audit/verify/trusted-keys.ts';
import { formatBytes } from '../core/bytes-text.ts';
import { afterwards } from '../core/closing.ts';
import { CommandFailure, messageOfFailure, orFail } from '../core/command-failure.ts';
import type { PlaceFlags } from '../server/folder/backup-place.ts';
import { addPlaceFlags, type CommandFlags, connect } from './command-arguments.ts';
import { type ClosableTarget, openFolderTarget, openS3Target } from './log-export-targets.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatCount } from './progress.ts';

interface ExportFlags extends CommandFlags, PlaceFlags {
  from?: string;
  key?: string;
  all?: boolean;
}

const help = `
Only what is new is copied, and nothing that does not lead to the signed root. A log that does not
extend the one that was exported before is refused. Without --key, the keys are those of the export,
and the first time those that the log itself names.

Examples:
  bursar log export /srv/log
  bursar log export /srv/log --from https://bursar.example/_/log --key log.key
  bursar log export s3://our-log/bursar --s3-region eu-west-1`;

/** Adds it to the group `log`, which is there already. */
export function addLogExportCommand(program: Command): void {
  const log = program.commands.find((command) => command.name() === 'log') as Command;
  const command = log
    .command('export')
    .description('copy the log as plain files that any web server or bucket can serve')
    .argument('<place>', 'folder, or s3://BUCKET/PREFIX')
    .option('--from <place>', 'address or folder of the log (default: the gateway’s)')
    .option('--key <key>', 'verifier key of the log, or a file with one a line')
    .option('--all', 'look at every file again, not only at what is new');
  addPlaceFlags(command)
    .addHelpText('after', help)
    .action(async (place: string, given: ExportFlags, command: Command) => {
      const from = given.from ?? `${connect(command).connection.endpoint}/_/log`;
      const report = await run(place, from, given);
      if (given.json) printJson(report);
      else print(describeExport(report, place));
    });
}

async function run(place: string, from: string, flags: ExportFlags): Promise<ExportReport> {
  const log = openLogSource(from);
  const target = await openTarget(place, flags);
  await using _target = afterwards(() => target.close());
  using progress = new CountProgress(process.stderr, 'entries');
  try {
    return await exportLog({
      log,
      target,
      ...(await readKeys(log, target, flags.key)),
      isWhole: flags.all ?? false,
      onProgress: (done) => progress.show(done),
    });
  } catch (error) {
    throw isExpected(error) ? new CommandFailure('failed', messageOfFailure(error), error) : error;
  }
}

/** Errors of the system have a code, those of S3 servers a name. */
function isExpected(error: unknown): boolean {
  if (error instanceof LogDamage || error instanceof SourceFailure) return true;
  const { name, code } = error as NodeJS.ErrnoException;
  return name === 'AttemptFailure' || code !== undefined;
}

async function openTarget(place: string, flags: ExportFlags): Promise<ClosableTarget> {
  const { s3Endpoint: endpoint, s3Region: region, s3PathStyle: pathStyle } = flags;
  const isS3 = place.startsWith('s3://');
  if (!isS3 && [endpoint, region, pathStyle, flags.s3Profile].some((one) => one !== undefined)) {
    throw new CommandFailure('usage', 'the flags --s3-… go with s3://BUCKET/PREFIX');
  }
  try {
    return isS3
      ? await openS3Target({ url: place, endpoint, region, pathStyle, profile: flags.s3Profile })
      : await openFolderTarget(place);
  } catch (error) {
    throw new CommandFailure('failed', `${place}: ${messageOfFailure(error)}`, error);
  }
}

/** Which keys are believed, and which are published beside the log. */
async function readKeys(
  log: LogSource,
  target: LogTarget,
  given: string | undefined,
): Promise<{ trust: { keys: NoteKey[] }; keyText: string }> {
  const published = (await log.read('key'))?.toString();
  const known = given === undefined ? (await target.read('key'))?.toString() : readGiven(given);
  const trusted = known ?? published;
  const keyText = published ?? trusted;
  if (trusted === undefined || keyText === undefined) {
    throw new LogDamage('the log does not say its key: give it with --key');
  }
  const keys = parseVerifiers(trusted, ed25519);
  if (!keys || !parseVerifiers(keyText, ed25519)) {
    throw new LogDamage('what should be verifier keys of a log is something else');
  }
  return { trust: { keys }, keyText };
}

/** A key itself, or the file that holds it. */
function readGiven(given: string): string {
  if (parseVerifiers(given, ed25519)) return given;
  return orFail('usage', '--key: ', () => readFileSync(given, 'utf8'));
}

function describeExport(
  { origin, size, sizeBefore, files, bytes }: ExportReport,
  place: string,
): string {
  const more = sizeBefore === null ? '' : `, ${formatCount(size - sizeBefore)} of them new`;
  const wrote = `${formatCount(files)} files (${formatBytes(bytes)}) written`;
  return `${origin}: ${formatCount(size)} entries${more}; ${wrote} to ${place}`;
}
