// `bursar store`: where the bytes are, and what that costs the operator.
import type { Command } from 'commander';
import type { Answers } from '../gateway/native/routes.ts';
import { type Columns, calling, listing } from './api-command.ts';
import { print } from './output.ts';

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

// `bursar keys`: the root keys, from which all others are derived.

const rootKeys: Columns<Answers['RotateKeys']> = {
  heading: ['EPOCH', 'CREATED', 'WRAPPED BY'],
  row: ({ epoch, isCurrent, createdAt, wrappedBy }) => [
    ...[isCurrent ? `${epoch} *` : String(epoch), createdAt, wrappedBy ?? ''],
  ],
};

export function addRootKeyCommands(program: Command): void {
  const keys = program
    .command('keys')
    .description('root keys: what stored data and secrets are protected by');
  keys
    .command('list')
    .description('list the root keys by epoch; * is what everything new is made under')
    .action(listing(rootKeys, 'keys', () => ['keys']));
  keys
    .command('rotate')
    .description('begin an epoch with a new root key; what is stored stays readable')
    .action(calling(() => ({ method: 'POST', path: ['keys', 'rotations'] }), rootKeys));
}

// `bursar clock`: the clock that records and windows of limits go by.

export function addClockCommands(program: Command): void {
  const clock = program
    .command('clock')
    .description("the clock that records and limits go by, and steps of the system's");
  clock
    .command('show')
    .description("say what time it is to the gateway, and whether the system's clock has stepped")
    .action(calling(() => ({ method: 'GET', path: ['clock'] }), show));
  clock
    .command('confirm')
    .description("say that the system's clock is right: it is followed from now on")
    .action(calling(() => ({ method: 'POST', path: ['clock', 'confirmations'] }), show));
}

function show({ time, systemTime, stepMs }: Answers['GetClock']): void {
  print(`${time}: records and limits go by this`);
  if (stepMs === 0) print("the system's clock is followed");
  else print(`${systemTime}: the system's clock, ${stepMs / 1000} s from it, is not followed`);
}
