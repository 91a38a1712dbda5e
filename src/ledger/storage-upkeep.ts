// How commits and housekeeping meet the prices of storage: it lives here, above the rooms, because
// the catalog says what is stored and the quota room what that costs (docs/admin/charges.md).

import type { RecordDraft } from '../audit/record.ts';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { listLegStores } from '../catalog/class-terms.ts';
import type { EndedObject, HandedOver, StorageTerms } from '../catalog/outcome.ts';
import { isoTime } from '../core/clock.ts';
import type { Tx } from '../core/database.ts';
import { newRequestId } from '../core/ids.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import { bucketAccount, principalAccount } from '../quota/account-names.ts';
import type { Billing } from '../quota/billing.ts';
import { type Charge, chargeStored, drawsOf, type Stored } from '../quota/charge.ts';
import type { AccountBook } from '../quota/leases/account-book.ts';
import type { Shortage } from '../quota/leases/requests.ts';
import type { StorageCharge, StorageCharges } from '../quota/storage/storage-charges.ts';
import type { OwnedPlace, UnchargedPlace } from '../quota/storage/storage-tables.ts';
import type { CommitContext, MaintenanceContext } from './apply.ts';
import type { Maintenance } from './commit.ts';
import type { StoredLevels } from './stored-levels.ts';

/** The prices of storage as the change of one commit meets them. Who is not charged has none. */
export class CommitTerms implements StorageTerms {
  readonly #billing: Billing;
  readonly #storage: StorageCharges;
  readonly #accounts: AccountBook;
  readonly #levels: StoredLevels;
  readonly #charge: Charge | null;
  readonly #timeMs: number;
  /** Why the change was refused. */
  shortage: Shortage | undefined;

  constructor(
    { billing, levels, timeMs }: Pick<CommitContext, 'billing' | 'levels' | 'timeMs'>,
    charge: Charge | null,
  ) {
    this.#billing = billing;
    this.#storage = billing.storage;
    this.#accounts = billing.accounts;
    this.#levels = levels;
    this.#charge = charge;
    this.#timeMs = timeMs;
  }

  billedBytes(storageClass: string, sizeBytes: number, copies: number): number | Promise<number> {
    if (!this.#charge) return copies * sizeBytes;
    const object = { sizeBytes, copies };
    return this.#storage.billedBytes(this.#charge, storageClass, object, this.#timeMs);
  }

  async mayEnd(ended: EndedObject): Promise<boolean> {
    if (!this.#charge) return true;
    this.shortage = await this.#storage.findShortage(this.#charge, ended, this.#timeMs);
    return this.shortage === undefined;
  }

  /** Resolves to whether all that the charge costs can be paid, along with what is owed. */
  async mayMove(ended: EndedObject): Promise<boolean> {
    const charge = this.#charge;
    if (!charge) return true;
    const { who, transfer } = charge;
    const owed = await this.#storage.owedFor(charge, ended, this.#timeMs);
    const spend = Number(this.#billing.costAtMost(charge) + owed);
    const draws = drawsOf(who, { requests: transfer.requests, spend }, null);
    this.shortage = await this.#accounts.findShortage(draws, this.#timeMs);
    return this.shortage === undefined;
  }

  async mayOwn({ tenant, name }: { tenant: string; name: string }, owner: string) {
    const amounts = await storedIn(this.#accounts, { tenant, name }, this.#timeMs);
    const draw = { accounts: [principalAccount(tenant, owner)], amounts };
    this.shortage = await this.#accounts.findShortage([draw], this.#timeMs);
    return this.shortage === undefined;
  }

  async mayHaveWritten(
    { tenant, name }: { tenant: string; name: string },
    writer: string,
    storedBytes: number,
  ): Promise<boolean> {
    const accounts = this.#levels.accountsOf({ tenant, bucket: name, writer });
    const draw = { accounts, amounts: { storedBytes } };
    this.shortage = await this.#accounts.findShortage([draw], this.#timeMs);
    return this.shortage === undefined;
  }
}

/** What a bucket keeps, as its account has it: its owner's has the same, and its tenant's. */
async function storedIn(
  accounts: AccountBook,
  { tenant, name }: { tenant: string; name: string },
  timeMs: number,
): Promise<Stored> {
  const { used } = await accounts.read(bucketAccount(tenant, name), timeMs);
  return {
    storedBytes: Number(used.storedBytes),
    storedObjects: Number(used.storedObjects),
  };
}

/**
 * Moves what is stored in a bucket from the account of one owner to that of the next: what has
 * accrued until now is charged to the former, and each has a record of what it no longer, or from
 * now on, keeps. Throws UnsealedRow where an account, or what is charged by time, is not what was
 * written.
 */
export async function handOver(
  { bucket: { tenant, name }, from, to }: HandedOver,
  requestId: string,
  { timeMs, log, billing }: CommitContext,
): Promise<void> {
  const charged = await billing.storage.chargeBucket({ tenant, name, owner: from }, timeMs);
  for (const { place, charges } of charged) {
    await recordCharges(place, charges, { requestId, timeMs, log });
  }
  const { storedBytes, storedObjects } = await storedIn(billing.accounts, { tenant, name }, timeMs);
  const gone = { storedBytes: 0 - storedBytes, storedObjects: 0 - storedObjects };
  for (const [owner, moved] of [
    [from, gone],
    [to, { storedBytes, storedObjects }],
  ] as const) {
    const bucket = { tenant, name, owner };
    const charge = chargeStored({ tenant, principal: owner, tokens: [], bucket }, '');
    const cost = await billing.charge(charge, moved, timeMs);
    const draft = draftRecord(unasked(tenant, owner), ownOrigin('bursar serve', requestId), {
      action: 'bursar:ChangeOwner',
      bucket: name,
      bucketOwner: owner,
      target: `tenants/${tenant}/buckets/${name}/owner`,
      change: { from, to },
      status: 200,
    });
    await log.append(draft, { index: log.size, timeMs, cost, ...moved });
  }
}

/**
 * Gives in how many places something may have accrued. One that is not what was written goes on
 * accruing, and is charged when it is put right.
 */
export async function chargeAccrued(
  tx: Tx,
  { beforeMs, max, books }: Extract<Maintenance, { kind: 'chargeStorage' }>,
  { timeMs, log, billing: { storage }, onUnsealed }: MaintenanceContext,
): Promise<number> {
  // Not those that this charges, should the clock have been set back.
  const places = await storage.listUncharged(Math.min(beforeMs, timeMs), max);
  const requestId = newRequestId();
  for (const place of places) {
    const stores = await storesOf(tx, place);
    // A store that is not configured any more has no prices but those it had.
    const now = stores.map((store) => (store === null ? undefined : books.get(store)));
    const charges = await storage.charge(place, now, timeMs).catch((error) => {
      if (!(error instanceof UnsealedRow)) throw error;
      storage.passOver(place);
      onUnsealed?.(error.unsealed);
      return [];
    });
    await recordCharges(place, charges, { requestId, timeMs, log });
  }
  return places.length;
}

/** Of each copy one; null: it is not known. */
async function storesOf(
  tx: Tx,
  { tenant, class: of, store }: UnchargedPlace,
): Promise<(number | null)[]> {
  const stores = await listLegStores(tx, tenant, of);
  return stores.length > 0 ? stores : [store];
}

async function recordCharges(
  place: OwnedPlace,
  charges: readonly StorageCharge[],
  { requestId, timeMs, log }: { requestId: string } & Pick<CommitContext, 'timeMs' | 'log'>,
): Promise<void> {
  for (const charge of charges) {
    const { cost, book } = charge;
    const seal = { index: log.size, timeMs, cost, priced: { book } };
    const draft = draftOf(place, charge, requestId);
    await log.append(draft, { ...seal, storedBytes: 0, storedObjects: 0 });
  }
}

/** In the name of the bucket's owner, whom it is charged to. */
function draftOf(
  { tenant, owner, bucket, class: storageClass }: OwnedPlace,
  { fromMs, toMs, byteMs }: StorageCharge,
  requestId: string,
): RecordDraft {
  return draftRecord(unasked(tenant, owner), ownOrigin('bursar serve', requestId), {
    action: 'bursar:ChargeStorage',
    bucket,
    bucketOwner: owner,
    class: storageClass,
    period: `${isoTime(fromMs)}/${isoTime(toMs)}`,
    byteMs: String(byteMs),
    status: 200,
  });
}
