// `bursar store`: where the bytes are, and what that costs the operator.
import type { Command } from 'commander';
import { callApi } from './api-client.ts';
import type { Answers } from './api-types.ts';
import { connect } from './command-arguments.ts';
import { printTable } from './output.ts';

export function addStoreCommands(program: Command): void {
  const stores = program.command('store').description('stores: where buckets keep their bytes');
  addList(stores);
  addCosts(stores);
}

function addCosts(stores: Command): void {
  stores
    .command('costs')
    .description(
      'what the providers bill for requests and transfers, by store, and by tenant (backend:cms) ' +
        'beside what it was charged',
    )
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['store-costs'] });
      const { costs } = json as Answers['ListStoreCosts'];
      printTable(flags.json, {
        json: costs,
        heading: ['ACCOUNT', 'COST USD', 'CHARGED USD', 'REQUESTS', 'BYTES SENT', 'BYTES RECEIVED'],
        rows: costs.map((one) => [
          one.account,
          one.spend,
          one.charged ?? '',
          ...[one.requests, one.ingressBytes, one.egressBytes].map(String),
        ]),
      });
    });
}

function addList(stores: Command): void {
  stores
    .command('list')
    .description('list the stores and their state; * is where new buckets go')
    .action(async (_given: object, command: Command) => {
      const { connection, flags } = connect(command);
      const { json } = await callApi(connection, { method: 'GET', path: ['stores'] });
      const { stores } = json as Answers['ListStores'];
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
