// All that the ledger has to know of one kind of change: what it writes, from whom it takes rights,
// what journals tell of it, what its record says, and which events it causes.
// Invariant: each command of this folder answers all of that, so that none can be added in silence.
// Commands that change the same kind of thing share a file.
import type { Moment, Outcome } from '../../catalog/outcome.ts';
import type { Tx } from '../../core/database.ts';
import type { Billing } from '../../quota/billing.ts';
import type { Caused } from '../events.ts';
import type { Thing } from '../journal/identity-format.ts';
import type { LogSigning } from '../log-signing.ts';
import type { RecordedPlace, Scope } from '../scopes.ts';
import type { StoredLevels } from '../stored-levels.ts';

/** What a command may use besides the transaction. */
export interface Work extends Moment {
  accounts: Billing['accounts'];
  signing: LogSigning;
  /** What is stored under prefixes and by writers that have limits. */
  levels: StoredLevels;
}

export interface Command<C> {
  /**
   * Checks everything, then writes: a change that is refused has written nothing, and after the
   * checks no write can fail on a constraint, because the transaction is shared with others.
   */
  apply(tx: Tx, change: C, work: Work): Promise<Outcome<null>>;
  /** From whom, or on which bucket, it may take rights away; null: it takes none away. */
  takesFrom: ((change: C, record: RecordedPlace) => Scope | null) | null;
  /** What the journals in S3 stores are told of a change of identities; null: nothing. */
  told: Telling<C> | null;
  /**
   * What its record says that it changed; null: the record's action and target say all. A record
   * has nothing with which another could act: no secret, not even sealed or hashed.
   */
  account: ((change: C) => object | null) | null;
  /**
   * The events that it causes, which say what of all that is kept in memory is different from then
   * on; null: nothing in memory depends on it. Called before the change is applied.
   */
  causes: ((change: C, tx: Tx) => Caused | Promise<Caused>) | null;
}

export interface Telling<C> {
  /** The things that are different from then on. Called before the change is applied. */
  things(change: C, tx: Tx): Thing[] | Promise<Thing[]>;
  /**
   * Whether its answer waits for the journals. That of a new token or share link does not: one that
   * is lost with the database is only one right less, and many are made.
   */
  isAwaited: boolean;
  /** In whose name the tokens were made that are revoked along with it. */
  revokedWith?(change: C): { tenant: string; principal: string };
}
