// Who there is, who may what and how much, as it was sealed last (docs/formats/row-seals.md): the
// rows of the tables, the heads of the tenants, the accounts, what is charged for by time and by
// what the tiers of prices go, and the roots that go with the log's newest record. Invariant: each
// transaction that changes one of them, or makes a record, leaves roots that fit; so what was put
// back to an earlier state does not fit, unless the whole database was.
import { readLogSize } from '../audit/log/stored-tiles.ts';
import { writeRoots } from '../audit/record-log.ts';
import type { OpenDatabase, Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { type Unsealed, UnsealedRow } from '../core/seals/row-seal.ts';
import type { SealHeads } from '../core/seals/seal-heads.ts';
import { SealTriggers } from '../core/seals/seal-triggers.ts';
import { VerifiedRows } from '../core/seals/verified-rows.ts';
import { verifySeals } from '../core/seals/verify-seals.ts';
import { AccountMacs } from '../quota/leases/account-macs.ts';
import { verifyAccounts } from '../quota/leases/account-tables.ts';
import {
  listTransfers,
  nameOfTransfer,
  type TransferSeals,
} from '../quota/prices/transfer-totals.ts';
import { verifyLevels } from '../quota/storage/storage-tables.ts';
import { type RootedLog, SealRoots } from './seal-roots.ts';

export interface VerifiedState {
  unsealed: Unsealed[];
  /** Rows that were looked at. */
  rows: number;
  heads: SealHeads;
  /** Of what the tables have. */
  accounts: AccountMacs;
  /** As they are stored. */
  roots: SealRoots;
}

/**
 * Verifies all of it. The reader is in one transaction, or nobody else writes. `toldMax`: how many
 * rows are told of at most; absent: 1,000.
 */
export async function verifySealedState(
  db: OpenDatabase,
  keyring: Keyring,
  { toldMax }: { toldMax?: number } = {},
): Promise<VerifiedState> {
  const { unsealed, rows, heads } = await verifySeals(db, keyring, toldMax);
  const accounts = new AccountMacs(keyring);
  for (const wrong of await verifyAccounts(db.tx, accounts)) unsealed.push(wrong.unsealed);
  for (const wrong of await verifyLevels(db.tx, accounts)) unsealed.push(wrong.unsealed);
  accounts.settle();
  const roots = await SealRoots.read(db.tx, keyring);
  const logSize = await readLogSize(db.tx);
  const whole = { logSize, rights: heads.digest };
  unsealed.push(...roots.verify(whole, accounts.digests, await listTransfers(db.tx)));
  return { unsealed, rows, heads, accounts, roots };
}

/** Keeps all that is sealed in step with what the ledger writes. */
export class SealedState {
  readonly accounts: AccountMacs;
  readonly transfers: TransferSeals;
  readonly #tx: Tx;
  readonly #triggers: SealTriggers;
  readonly #heads: SealHeads;
  readonly #roots: SealRoots;
  readonly #rows: VerifiedRows;

  /** From now on what is written to the database is sealed. `verified`: what it has now. */
  constructor(
    db: OpenDatabase,
    keyring: Keyring,
    verified: Pick<VerifiedState, 'heads' | 'accounts' | 'roots'>,
  ) {
    this.#tx = db.tx;
    this.#heads = verified.heads;
    this.accounts = verified.accounts;
    this.#roots = verified.roots;
    this.transfers = verified.roots;
    this.#triggers = new SealTriggers(db, keyring);
    this.#rows = new VerifiedRows(db, keyring);
    this.#tx.rows = this.#rows;
  }

  /**
   * Before each commit, as the last that writes: the log, too, which has the roots. `withAccounts`:
   * the rows of accounts have all that was charged. Throws UnsealedRow where it must not be
   * committed.
   */
  async flush(
    log: RootedLog & { flush(): Promise<void> },
    { withAccounts }: { withAccounts: boolean },
  ): Promise<void> {
    if (this.#triggers.hasChanges) await this.#changeHeads();
    const charged = withAccounts ? log.size : null;
    const whole = { log, rights: this.#heads.digest, charged };
    await this.#roots.seal(this.#tx, whole, this.accounts.changed());
    await log.flush();
    // Nothing of that writes to a sealed table: it was a trigger which is not Bursar's.
    if (this.#triggers.hasChanges) await this.#triggers.takeChanges();
  }

  async #changeHeads(): Promise<void> {
    const changes = await this.#triggers.takeChanges();
    this.#rows.forget();
    for (const [tenant, change] of changes) await this.#heads.change(this.#tx, tenant, change);
  }

  /** After each commit. */
  settle(): void {
    this.#heads.settle();
    this.accounts.settle();
    this.#roots.settle();
  }

  /** After each rollback. */
  discard(): void {
    this.#triggers.discard();
    this.#rows.discard();
    this.#heads.discard();
    this.accounts.discard();
    this.#roots.discard();
  }
}

/**
 * Makes the roots fit what there is, and what was recorded since they were made: of a database that
 * is new, or whose schema has changed. Throws UnsealedRow for what is not authentic besides.
 */
export async function sealRoots(db: OpenDatabase, keyring: Keyring): Promise<void> {
  const { unsealed, heads, accounts, roots: before } = await verifySealedState(db, keyring);
  const wrong = unsealed.find(({ fault }) => fault !== 'replaced');
  if (wrong) throw new UnsealedRow(wrong);
  const roots = await SealRoots.make(db.tx, keyring);
  for (const total of await listTransfers(db.tx)) roots.noteTransfer(nameOfTransfer(total), total);
  const size = await readLogSize(db.tx);
  const log = { size, setRoots: (made: Uint8Array) => writeRoots(db.tx, size - 1, made) };
  const whole = { log, rights: heads.digest, charged: before.chargedOf(size) };
  await roots.seal(db.tx, whole, accounts.digests);
}
