// `bursar store`: where the bytes are, and what that costs the operator.
import type { Command } from 'commander';
import { type Columns, listing } from './api-command.ts';
import type { Answers } from './api-types.ts';

const stores: Columns<Answers['ListStores']['stores'][number]> = {
  heading: ['STORE', 'NUMBER', 'READY', 'LOCATION', 'REASON'],
  row: ({ name, number, isDefault, ready, location, reason }) => [
    ...[isDefault ? `${name} *` : name, String(number), ready ? 'yes' : 'no'],
    ...[location, reason ?? ''],
  ],
};

const costs: Columns<Answers['ListStoreCosts']['costs'][number]> = {
  heading: ['ACCOUNT', 'COST USD', 'CHARGED USD', 'REQUESTS', 'BYTES SENT', 'BYTES RECEIVED'],
  row: ({ account, spend, charged, requests, ingressBytes, egressBytes }) => [
    ...[account, spend, charged ?? ''],
    ...[requests, ingressBytes, egressBytes].map(String),
  ],
};

export function addStoreCommands(program: Command): void {
  const store = program.command('store').description('stores: where buckets keep their bytes');
  store
    .command('list')
    .description('list the stores and their state; * is where new buckets go')
    .action(listing(stores, 'stores', () => ['stores']));
  store
    .command('costs')
    .description(
      'what the providers bill for requests and transfers, by store, and by tenant (backend:cms) ' +
        'beside what it was charged',
    )
    .action(listing(costs, 'costs', () => ['store-costs']));
}
