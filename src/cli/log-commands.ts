// `bursar log`: the audit log that everything is recorded in.
import type { Command } from 'commander';
import { printable } from '../core/printable.ts';
import { parseDuration } from '../server/settings/quantities.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { addLogExportCommand } from './log-export-command.ts';
import { print, printJson, printTable } from './output.ts';

type LogState = Answers['GetLog'];
type LogKey = Answers['ListLogKeys']['keys'][number];
type Witness = LogState['witnesses'][number];

export function addLogCommands(program: Command): void {
  const log = program.command('log').description('the audit log: its state, keys and copies');
  log
    .command('status')
    .description('show how far the log is signed, by which keys, and what its witnesses have seen')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['log'] });
      if (flags.json) printJson(json);
      else for (const line of describe(json as LogState)) print(printable(line));
    });
  log
    .command('key')
    .description('print the verifier keys of the log, the newest first, for "bursar verify"')
    .option('--all', 'list all keys that there ever were, with their state')
    .action(async ({ all }: { all?: boolean }, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['log', 'keys'] });
      const { keys } = json as Answers['ListLogKeys'];
      if (all || flags.json) printKeys(flags.json, json, keys);
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

function printKeys(asJson: boolean | undefined, json: unknown, keys: readonly LogKey[]): void {
  printTable(asJson, {
    json,
    heading: ['ID', 'STATE', 'CREATED', 'ENDED', 'VERIFIER'],
    rows: keys.map(({ id, state, createdAt, retiredAt, revokedAt, verifier }) => [
      ...[id, state, createdAt, revokedAt ?? retiredAt ?? '', verifier],
    ]),
  });
}

type Rotation = Answers['RotateLogKey'];

/** `log`: the command that these are added to. */
function addLogKeyCommands(log: Command): void {
  log
    .command('rotate-key')
    .description('sign the log with a new key; old receipts stay valid')
    .option('--overlap <DURATION>', 'how long the keys of before sign too', '7d')
    .action(async (given: { overlap: string }, command: Command) => {
      const { connection, flags } = connect(command);
      const overlapSeconds = Math.ceil(parseDuration(given.overlap) / 1000);
      const request = { path: ['log', 'keys', 'rotations'], body: { overlapSeconds } };
      const { json } = await callApi(connection, { method: 'POST', ...request });
      const { id, verifier, retiresAt } = json as Rotation;
      printTable(flags.json, {
        json,
        heading: ['ID', 'VERIFIER', 'OTHERS SIGN UNTIL'],
        rows: [[id, verifier, retiresAt]],
      });
    });
  log
    .command('revoke-key')
    .description('revoke a key of the log: nothing that it signed is to be believed any more')
    .argument('<ID>', 'of the key, as "bursar log key" shows it')
    .action(async (id: string, _given: object, command: Command) => {
      const { connection } = connect(command);
      await callApi(connection, { method: 'DELETE', path: ['log', 'keys', id] });
    });
}
