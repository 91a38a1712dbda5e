// Which of a record's costs are one account's. Invariant: over all records they add up to what the
// account has spent, because the accounts are named by the function that charged them.
import { drawsOf } from '../charge.ts';
import { chargedOf, type Parties } from '../roll-up/charged-record.ts';
import type { CostRecord } from './record-costs.ts';

/** The record with those of its costs that the account was charged; null: none. */
export function costsOfAccount(record: CostRecord & Parties, account: string): CostRecord | null {
  const who = chargedOf(record);
  const isCharged = drawsOf(who, {}, null).some((draw) => draw.account === account);
  if (record.storageCost === undefined) return isCharged ? record : null;
  // The cost of what is stored is the owner's, whoever makes the request.
  const { cost, storageCost, ...rest } = record;
  const { bucket } = who;
  const asOwner = bucket && { tenant: bucket.tenant, principal: bucket.owner, tokens: [], bucket };
  const isStored = asOwner && drawsOf(asOwner, {}, null).some((draw) => draw.account === account);
  if (!isCharged && !isStored) return null;
  return {
    ...rest,
    ...(isCharged && cost !== undefined && { cost }),
    ...(isStored && { storageCost }),
  };
}
