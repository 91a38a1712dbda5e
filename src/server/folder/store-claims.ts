// Whose a store's place is, as the gateway and `bursar store adopt` decide it. Invariants: a place
// becomes ours only when it is nobody's and nothing of any gateway is in it, or when an operator
// says so; a place that has lost the mark of its owner while buckets are in the store is not used,
// since what is there may be an older copy, or nothing at all.
import { isStoreUsed, type StoreRow } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import type { Sealer } from '../../core/sealing.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { type Claim, claimStore, findOwner, type Owner } from '../../tiering/stores/store-owner.ts';

/** It does not pass by itself: somebody has to change the configuration. */
export class StoreProblem extends Error {
  override readonly name = 'StoreProblem';
}

/** The place has no mark, and is not to be claimed without an operator's word. */
export class MarkLost extends Error {
  override readonly name = 'MarkLost';
}

/** Names that only a gateway has written under a prefix. */
const gatewayFolders = ['extents/', 'journal/'];

/**
 * Makes sure that the place is ours, and claims it where that is allowed. Throws `StoreProblem`
 * when it is another's, `MarkLost` when it was ours.
 */
export async function ownPlace(
  store: RemoteStore,
  options: { sealer: Sealer; claim: Claim; row: StoreRow; location: string; read: Reader },
): Promise<void> {
  const { sealer, claim, row, location, read } = options;
  let owner = await findOwner(store, sealer, claim);
  if (owner === 'nobody') {
    await checkUnclaimed(store, { read, row, location });
    owner = await claimStore(store, sealer, claim);
  }
  if (owner !== 'us') throw new StoreProblem(explainOwner(owner, location));
}

/** Throws when a place without a mark must not be claimed for the store. */
async function checkUnclaimed(
  store: RemoteStore,
  { read, row, location }: { read: Reader; row: StoreRow; location: string },
): Promise<void> {
  if (await isStoreUsed(read, row.number)) {
    if (row.location !== location) {
      throw new StoreProblem(`it was at ${row.location}; ${location} has none of its data`);
    }
    throw new MarkLost(explainLoss(location));
  }
  for (const folder of gatewayFolders) {
    if (!(await holdsAny(store, folder))) continue;
    const what = `${location} holds a gateway's data (${folder}) and no mark of its owner`;
    throw new StoreProblem(`${what}: see "Owner" in docs/admin/stores.md`);
  }
}

/** Whether there is any object under a prefix of the place. */
export async function holdsAny(store: RemoteStore, prefix: string): Promise<boolean> {
  for await (const _ of store.listObjects(prefix)) return true;
  return false;
}

/** Looks twice before it believes that the mark is gone, since that closes the store. */
export async function lookForOwner(
  store: RemoteStore,
  sealer: Sealer,
  claim: Claim,
): Promise<Owner> {
  const owner = await findOwner(store, sealer, claim);
  return owner === 'nobody' ? findOwner(store, sealer, claim) : owner;
}

/** Why a place cannot be used, by whose it is. */
export function explainOwner(owner: Owner, location: string): string {
  switch (owner) {
    case 'nobody':
      return explainLoss(location);
    case 'otherStore':
      return `${location} is the place of another store of this gateway`;
    case 'former':
      return (
        `${location} belongs to another data folder with the same keys; if that one is lost, ` +
        'run bursar restore or rebuild'
      );
    default:
      return (
        `${location} belongs to another gateway, which would destroy what this one writes ` +
        'there'
      );
  }
}

function explainLoss(location: string): string {
  return (
    `${location} has lost the mark of its owner: it was emptied, or is another place; bring it ` +
    'back, or run bursar store adopt'
  );
}
