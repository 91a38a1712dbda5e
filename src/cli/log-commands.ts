// `bursar log`: the audit log that everything is recorded in.

import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type ExportReport, exportLog, type LogTarget } from '../audit/log/log-export.ts';
import { ed25519, type NoteKey } from '../audit/log/note.ts';
import { LogDamage } from '../audit/log/verified-log.ts';
import { type LogSource, openLogSource, SourceFailure } from '../audit/verify/log-source.ts';
import { parseVerifiers } from '../audit/verify/trusted-keys.ts';
import { afterwards } from '../core/closing.ts';
import { CommandFailure, messageOfFailure, orFail } from '../core/command-failure.ts';
import { printable } from '../core/printable.ts';
import type { Answers } from '../gateway/native/routes.ts';
import type { PlaceFlags } from '../server/folder/backup-place.ts';
import { parseDuration } from '../server/settings/quantities.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, printEntries } from './api-command.ts';
import { addPlaceFlags, type CommandFlags, connect } from './command-arguments.ts';
import { type ClosableTarget, openFolderTarget, openS3Target } from './log-export-targets.ts';
import { print, printJson } from './output.ts';
import { CountProgress, formatBytes, formatCount } from './progress.ts';

type LogState = Answers['GetLog'];
type LogKey = Answers['ListLogKeys']['keys'][number];
type Witness = LogState['witnesses'][number];

export function addLogCommands(program: Command): void {
  const log = program.command('log').description('the audit log: its state, keys and copies');
  log
    .command('show')
    .description('show how far the log is signed, by which keys, and what its witnesses have seen')
    .action(
      calling(
        () => ({ method: 'GET', path: ['log'] }),
        (state: LogState) => {
          for (const line of describe(state)) print(printable(line));
        },
      ),
    );
  log
    .command('key')
    .description('print the verifier keys of the log, the newest first, for "bursar verify"')
    .option('--all', 'list all keys that there ever were, with their state')
    .action(async ({ all }: { all?: boolean }, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['log', 'keys'] });
      const { keys } = json as Answers['ListLogKeys'];
      if (all || flags.json) printEntries(flags.json, logKeys, json, keys);
      else for (const key of keys) if (key.state !== 'revoked') print(key.verifier);
    });
  addLogExportCommand(log);
  addLogKeyCommands(log);
}

function describe({ origin, refusal, size, root, keys, witnesses }: LogState): string[] {
  const head =
    origin === null
      ? [`not signed: ${refusal ?? 'nothing was signed since the start'}`]
      : [`origin   ${origin}`, `records  ${size}`, `root     ${root}`];
  return [
    ...head,
    ...keys.map(({ id, state, createdAt }) => `key      ${id}  ${state}  since ${createdAt}`),
    ...witnesses.map((witness) => `witness  ${describeWitness(witness)}`),
  ];
}

function describeWitness({ name, cosignedSize, cosignedAt, problem }: Witness): string {
  const seen =
    cosignedSize === null ? 'has cosigned nothing' : `cosigned ${cosignedSize} at ${cosignedAt}`;
  return problem === null ? `${name}  ${seen}` : `${name}  ${seen}; ${problem}`;
}

const logKeys: Columns<LogKey> = {
  heading: ['ID', 'STATE', 'CREATED', 'ENDED', 'VERIFIER'],
  row: ({ id, state, createdAt, retiredAt, revokedAt, verifier }) => [
    ...[id, state, createdAt, revokedAt ?? retiredAt ?? '', verifier],
  ],
};

const rotations: Columns<Answers['RotateLogKey']> = {
  heading: ['ID', 'VERIFIER', 'OTHERS SIGN UNTIL'],
  row: ({ id, verifier, retiresAt }) => [id, verifier, retiresAt],
};

/** `log`: the command that these are added to. */
function addLogKeyCommands(log: Command): void {
  log
    .command('rotate-key')
    .description('sign the log with a new key; old receipts stay valid')
    .option('--overlap <DURATION>', 'how long the keys of before sign too', '7d')
    .action(
      calling((given: { overlap: string }) => {
        const overlapSeconds = Math.ceil(parseDuration(given.overlap) / 1000);
        return { method: 'POST', path: ['log', 'keys', 'rotations'], body: { overlapSeconds } };
      }, rotations),
    );
  log
    .command('revoke-key')
    .description('revoke a key of the log: nothing that it signed is to be believed any more')
    .argument('<ID>', 'of the key, as "bursar log key" shows it')
    .action(calling((id: string) => ({ method: 'DELETE', path: ['log', 'keys', id] })));
}

// `bursar log export`: the log as plain files, for a static web server or a bucket to serve.
// Progress goes to stderr.

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

export function addLogExportCommand(log: Command): void {
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
