// All commands of the ledger by the kind of their change. To add a command is to add it to the file
// of what it changes, or to add a file, and a row here.

import { recordedChange } from '../../audit/recorded-change.ts';
import type { Tx } from '../../core/database.ts';
import type { Caused } from '../events.ts';
import * as buckets from './buckets.ts';
import type { Command } from './command.ts';
import * as gateway from './gateway.ts';
import { identityCommands } from './identities.ts';
import * as limits from './limits.ts';
import { objectCommands } from './objects.ts';
import { restoreIdentity } from './restore-identity.ts';
import * as snapshots from './snapshots.ts';
import { useUpShare } from './use-up-share.ts';

const all = {
  ...identityCommands,
  ...buckets,
  ...objectCommands,
  ...limits,
  ...snapshots,
  ...gateway,
  useUpShare,
  restoreIdentity,
};

export type Change = {
  [K in keyof typeof all]: (typeof all)[K] extends Command<infer C> ? C : never;
}[keyof typeof all];

/** Each under the kind of its change: the compiler refuses one that has another name. */
const commands: {
  readonly [K in Change['kind']]: Command<Extract<Change, { kind: K }>>;
} = all;

export function commandOf(change: Change): Command<Change> {
  return commands[change.kind] as Command<Change>;
}

/** What a change changed, as records say it; null: the record's action and target say all. */
export function membersOf(change: Change): object | null {
  return commandOf(change).account?.(change) ?? null;
}

/** The same in the form of records. */
export function accountOf(change: Change): object | null {
  const members = membersOf(change);
  return members && recordedChange(members);
}

/**
 * What a change makes of what is kept in memory; null: nothing there depends on it. To be called
 * before it is applied.
 */
export function eventsOf(tx: Tx, change: Change): Caused | Promise<Caused> | null {
  return commandOf(change).causes?.(change, tx) ?? null;
}
