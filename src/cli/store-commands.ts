// `bursar store`: where the bytes are.
import type { Command } from 'commander';
import { callApi } from './api-client.ts';
import { connect } from './command-arguments.ts';
import { printTable } from './output.ts';

interface Store {
  number: number;
  name: string;
  location: string;
  isDefault: boolean;
  ready: boolean;
  reason: string | null;
}

export function addStoreCommands(program: Command): void {
  program
    .command('store')
    .description('stores: where buckets keep their bytes')
    .command('list')
    .description('list the stores and their state; * is where new buckets go')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['stores'] });
      const { stores } = json as { stores: Store[] };
      printTable(flags.json, {
        json: stores,
        heading: ['STORE', 'NUMBER', 'READY', 'LOCATION', 'REASON'],
        rows: stores.map((one) => [
          one.isDefault ? `${one.name} *` : one.name,
          String(one.number),
          one.ready ? 'yes' : 'no',
          one.location,
          one.reason ?? '',
        ]),
      });
    });
}
