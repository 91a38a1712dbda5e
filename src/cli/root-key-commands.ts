// `bursar keys`: the root keys, from which all others are derived.
import type { Command } from 'commander';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { printTable } from './output.ts';

type RootKey = Answers['RotateKeys'];

export function addRootKeyCommands(program: Command): void {
  const keys = program
    .command('keys')
    .description('root keys: what stored data and secrets are protected by');
  keys
    .command('list')
    .description('list the root keys by epoch; * is what everything new is made under')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['keys'] });
      const { keys: listed } = json as Answers['ListKeys'];
      print(flags.json, listed, listed);
    });
  keys
    .command('rotate')
    .description('begin an epoch with a new root key; what is stored stays readable')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'POST', path: ['keys', 'rotations'] });
      print(flags.json, json, [json as RootKey]);
    });
}

function print(asJson: boolean | undefined, json: unknown, keys: readonly RootKey[]): void {
  printTable(asJson, {
    json,
    heading: ['EPOCH', 'CREATED', 'WRAPPED BY'],
    rows: keys.map((key) => [
      key.isCurrent ? `${key.epoch} *` : String(key.epoch),
      key.createdAt,
      key.wrappedBy ?? '',
    ]),
  });
}
