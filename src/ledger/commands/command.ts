// What the ledger has to know of one kind of change: what it writes, whom it takes rights from,
// what journals tell of it, what its record says, and what it makes of what is kept in memory.
// Invariant: each command of this folder answers all of that, so that none can be added in silence.
// Commands that change the same kind of thing share a file.
import type { Moment, Outcome } from '../../catalog/outcome.ts';
import type { Tx } from '../../core/database.ts';
import type { Billing } from '../../quota/billing.ts';
import type { Caused } from '../events.ts';
import type { Thing } from '../journal/identity-format.ts';
import type { LogSigning } from '../log-signing.ts';
import type { RecordedPlace, Scope } from '../scopes.ts';

/** What a command works with besides the transaction. */
export interface Work extends Moment {
  accounts: Billing['accounts'];
  signing: LogSigning;
}

export interface Command<C> {
  /**
   * Checks everything, then writes: a change that is refused has written nothing, and after the
   * checks no write can fail on a constraint, because the transaction is shared with others.
   */
  apply(tx: Tx, change: C, work: Work): Promise<Outcome<null>>;
  /** From whom, or of what, it may take rights; null: it takes none away. */
  takesFrom: ((change: C, record: RecordedPlace) => Scope | null) | null;
  /** Of changes of identities what journals in S3 stores tell; null: nothing. */
  told: Telling<C> | null;
  /**
   * What its record says that it changed; null: the record's action and target say all. Nothing
   * with which another could act is told: no secret, sealed or hashed.
   */
  account: ((change: C) => object | null) | null;
  /**
   * What of all that is kept in memory is another from then on; null: nothing in memory depends on
   * it. Asked before it is applied.
   */
  causes: ((change: C, tx: Tx) => Caused | Promise<Caused>) | null;
}

export interface Telling<C> {
  /** Which things are others from then on; asked before it is applied. */
  things(change: C, tx: Tx): Thing[] | Promise<Thing[]>;
  /**
   * Does its answer wait for the journals? A token or a link that a lost database takes along is
   * one right less, and many are made.
   */
  isAwaited: boolean;
  /** In whose name tokens are revoked along with it. */
  revokedWith?(change: C): { tenant: string; principal: string };
}
