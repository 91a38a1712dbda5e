// How commits and housekeeping meet the prices of storage: it lives here, above the rooms, because
// the catalog says what is stored and the quota room what that costs (docs/admin/charges.md).

import type { RecordDraft } from '../audit/record.ts';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import type { EndedObject, StorageTerms } from '../catalog/outcome.ts';
import { isoTime } from '../core/clock.ts';
import { newRequestId } from '../core/ids.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import type { Charge } from '../quota/charge.ts';
import type { Shortage } from '../quota/leases/requests.ts';
import type { StorageCharge, StorageCharges } from '../quota/storage/storage-charges.ts';
import type { OwnedPlace } from '../quota/storage/storage-tables.ts';
import type { MaintenanceContext } from './apply.ts';
import type { Maintenance } from './commit.ts';

/** The prices of storage as the change of one commit meets them. Who is not charged has none. */
export class CommitTerms implements StorageTerms {
  readonly #storage: StorageCharges;
  readonly #charge: Charge | null;
  readonly #timeMs: number;
  /** Why the change was refused. */
  shortage: Shortage | undefined;

  constructor(storage: StorageCharges, charge: Charge | null, timeMs: number) {
    this.#storage = storage;
    this.#charge = charge;
    this.#timeMs = timeMs;
  }

  billedBytes(storageClass: string, sizeBytes: number): number {
    if (!this.#charge) return sizeBytes;
    return this.#storage.billedBytes(this.#charge.pricing.book, storageClass, sizeBytes);
  }

  async mayEnd(ended: EndedObject): Promise<boolean> {
    if (!this.#charge) return true;
    this.shortage = await this.#storage.findShortage(this.#charge, ended, this.#timeMs);
    return this.shortage === undefined;
  }
}

/**
 * Gives in how many places something may have accrued. One that is not what was written goes on
 * accruing, and is charged when it is put right.
 */
export async function chargeAccrued(
  { beforeMs, max, books }: Extract<Maintenance, { kind: 'chargeStorage' }>,
  { timeMs, log, billing: { storage }, onUnsealed }: MaintenanceContext,
): Promise<number> {
  // Not those that this charges, should the clock have been set back.
  const places = await storage.listUncharged(Math.min(beforeMs, timeMs), max);
  const requestId = newRequestId();
  for (const place of places) {
    // A store that is not configured any more has no prices but those it had.
    const charges = await storage.charge(place, books.get(place.store), timeMs).catch((error) => {
      if (!(error instanceof UnsealedRow)) throw error;
      storage.passOver(place);
      onUnsealed?.(error.unsealed);
      return [];
    });
    for (const charge of charges) {
      const { cost, book } = charge;
      const seal = { index: log.size, timeMs, cost, priced: { book } };
      const draft = draftOf(place, charge, requestId);
      await log.append(draft, { ...seal, storedBytes: 0, storedObjects: 0 });
    }
  }
  return places.length;
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
