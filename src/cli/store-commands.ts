// `bursar store`: where the bytes are, and what that costs the operator.
import { type Command, InvalidArgumentError } from 'commander';
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { callApi } from './api-client.ts';
import { type Columns, calling, listing } from './api-command.ts';
import { connect } from './command-arguments.ts';
import { print, printJson } from './output.ts';

const stores: Columns<Answers['ListStores']['stores'][number]> = {
  heading: ['STORE', 'NUMBER', 'READY', 'DRILL', 'LOCATION', 'REASON'],
  row: ({ name, number, isDefault, ready, drill, location, reason }) => [
    ...[isDefault ? `${name} *` : name, String(number), ready ? 'yes' : 'no'],
    ...[drill ? 'yes' : 'no', location, reason ?? ''],
  ],
  csvRow: (one) => stores.row({ ...one, isDefault: false }),
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
  addDrillCommand(store);
}

type Drilled = Answers['DrillStore'];

function addDrillCommand(store: Command): void {
  store
    .command('drill')
    .description('hide a share of what a store holds, as if it were lost, or show it again')
    .argument('<name>', 'of a store that declares `drills: yes`')
    .option('--lose <share>', 'of its extents, such as 1%', parseLost)
    .option('--seed <number>', 'which of them: the same of the same seed (default: 0)', parseSeed)
    .option('--undo', 'show again what drills have hidden, unless it was repaired or deleted')
    .addHelpText('after', drillHelp)
    .action(async (name: string, asked: DrillFlags, command: Command) => {
      const { connection, flags } = connect(command);
      const isUndo = asked.undo === true;
      if (isUndo === (asked.lose !== undefined) || (isUndo && asked.seed !== undefined)) {
        throw new CommandFailure('usage', 'give --lose, maybe with --seed, or --undo');
      }
      const { lose, seed } = asked;
      const done = { extents: 0, changed: 0 };
      for (let after: string | null = ''; after !== null; ) {
        const body: object = { lose, seed, after };
        const path = ['stores', name, 'drills'];
        const { json } = await callApi(connection, { method: 'POST', path, body });
        const slice = json as Drilled;
        done.extents += slice.extents;
        done.changed += slice.changed;
        after = slice.next;
      }
      if (flags.json) return printJson({ store: name, lose, seed, ...done });
      const what = isUndo ? 'shown again' : 'hidden';
      print(`${name}: ${done.changed} of ${done.extents} extents ${what}`);
    });
}

interface DrillFlags {
  lose?: number;
  seed?: number;
  undo?: boolean;
}

const drillHelp = `
Reads and \`bursar verify data\` find what is hidden: it is repaired from another copy, told as
lost, or damaged, as the class of the object says.

  bursar store drill disk1 --lose 1% --seed 7
  bursar store drill disk1 --undo
`;

function parseLost(text: string): number {
  const [, number] = /^(\d{1,3}(?:\.\d{1,6})?)%$/.exec(text) ?? [];
  const share = Number(number) / 100;
  if (share <= 1) return share;
  throw new InvalidArgumentError('Must be a share such as 1%.');
}

function parseSeed(text: string): number {
  if (/^\d{1,10}$/.test(text) && Number(text) < 2 ** 32) return Number(text);
  throw new InvalidArgumentError('Must be a whole number below 4294967296.');
}

// `bursar keys`: the root keys, from which all others are derived.

const rootKeys: Columns<Answers['RotateKeys']> = {
  heading: ['EPOCH', 'CREATED', 'WRAPPED BY'],
  row: ({ epoch, isCurrent, createdAt, wrappedBy }) => [
    ...[isCurrent ? `${epoch} *` : String(epoch), createdAt, wrappedBy ?? ''],
  ],
  csvRow: (one) => rootKeys.row({ ...one, isCurrent: false }),
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
