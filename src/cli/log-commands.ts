// `bursar log`: the audit log that everything is recorded in.
import type { Command } from 'commander';
import { printable } from '../core/printable.ts';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { addLogExportCommand } from './log-export-command.ts';
import { addLogKeyCommands } from './log-key-commands.ts';
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
