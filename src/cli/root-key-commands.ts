// `bursar keys`: the root keys, from which all others are derived.
import type { Command } from 'commander';
import { type Columns, calling, listing } from './api-command.ts';
import type { Answers } from './api-types.ts';

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
