// Moves a version into the class that lifecycle rules say, in the ledger's transactions, in the
// name of the bucket's owner. Invariants: it is decided by the rules, the row and the ledger's
// clock as they are in the transaction, so asking twice moves nothing twice; row, charge and record
// are one commit; and what the owner's limits do not let be paid waits, and is not recorded.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { getBucket, readConfigurations, readSetting } from '../catalog/buckets.ts';
import { type DueMove, noRules, readLifecycle } from '../catalog/lifecycle.ts';
import { findDueRule } from '../catalog/lifecycle-due.ts';
import { findDueMove } from '../catalog/lifecycle-moves.ts';
import { forgetRestore } from '../catalog/restore-rows.ts';
import { beginUse, readChains, type TieringConfig } from '../catalog/tiers.ts';
import { endedOf, findMovable, type MovedBytes } from '../catalog/version-moves.ts';
import { openBucket } from '../catalog/version-places.ts';
import type { FoundVersion } from '../catalog/version-rows.ts';
import type { Tx } from '../core/database.ts';
import type { Billing } from '../quota/billing.ts';
import { type Charge, noTransfer } from '../quota/charge.ts';
import type { Commit, Maintenance } from './commit.ts';
import type { LifecycleContext } from './lifecycle-upkeep.ts';
import { CommitTerms } from './storage-upkeep.ts';
import type { StoredLevels } from './stored-levels.ts';

/** A move that rules ask for. `dayMs`: how long a day lasts. */
export interface MoveDue {
  kind: 'moveDue';
  bucketId: number;
  key: string;
  seq: number;
  class: string;
  dayMs: number;
  /** The price books in force of the bucket's store, and of that of the class. */
  book: string;
  storageBook: string;
  /**
   * What was written; `shared`: its bytes are where they are to be; null: it is only asked whether
   * it may be moved.
   */
  bytes: MovedBytes | 'shared' | null;
}

export interface MoveContext extends LifecycleContext {
  billing: Billing;
  levels: StoredLevels;
}

/** Gives 1 where it was moved, or may be; 0: it stays. */
export async function moveDue(
  tx: Tx,
  work: Extract<Maintenance, MoveDue>,
  { timeMs, keyring, billing, levels, apply }: MoveContext,
): Promise<number> {
  const { bucketId, bytes, dayMs } = work;
  const [bucket, opened] = [await getBucket(tx, bucketId), await openBucket(tx, bucketId)];
  if (!bucket || !opened) return 0;
  const found = await findMovable(tx, opened, work, { keyring });
  const document = await readSetting(tx, bucketId, 'lifecycle');
  const rules = document === null ? noRules : readLifecycle(document);
  const chains = await readChains(tx, bucket.tenant);
  const tierings = await readConfigurations<TieringConfig>(tx, bucketId, 'intelligentTiering');
  const terms = { bucket, rules, chains, tierings, timeMs, dayMs };
  const due = found && (await findDueMove(tx, terms, found));
  if (!found || due?.class !== work.class) return 0;
  // What is to end is not moved before.
  if ((await findDueRule(tx, terms, found)) !== null) return 0;
  const { tenant, name, owner } = bucket;
  const charge = chargeOf(work, { tenant, name, owner });
  if (!(await new CommitTerms({ billing, levels, timeMs }, charge).mayMove(endedOf(found))))
    return 0;
  if (bytes === null) return 1;
  const { key, seq, class: of } = work;
  const change = {
    ...({ kind: 'moveVersion', bucketId, key, seq, class: of } as const),
    bytes: bytes === 'shared' ? null : bytes,
  };
  const record = recordOf({ tenant, name, owner }, found, due);
  if (!(await apply({ change, charge, record })).ok) return 0;
  // What was restored is where it was asked for, and that is a use of it.
  const isBack = chains.get(of)?.class === of && (await forgetRestore(tx, seq)) > 0;
  // What comes from elsewhere may have been written long ago, and no read of it was noted.
  const isNew = chains.has(of) && chains.get(found.class) !== chains.get(of);
  if (isBack || isNew) await beginUse(tx, work, timeMs);
  return 1;
}

interface OwnedBucket {
  tenant: string;
  name: string;
  owner: string;
}

/** As one that puts it there would be charged, but for bytes that come from outside. */
function chargeOf(
  { class: storageClass, book, storageBook }: MoveDue,
  bucket: OwnedBucket,
): Charge {
  const who = { tenant: bucket.tenant, principal: bucket.owner, tokens: [], bucket };
  return {
    who,
    transfer: { ...noTransfer, requests: 1 },
    pricing: { book, storageBook, storageClass, sourceClass: null, price: 'put' },
    settlement: null,
  };
}

function recordOf(
  { tenant, name, owner }: OwnedBucket,
  { key, seq, sizeBytes, etag, sha256, class: from }: FoundVersion,
  { ruleId, class: to, tierOf: tier }: DueMove,
): Commit['record'] {
  return draftRecord(unasked(tenant, owner), ownOrigin('bursar serve'), {
    action: 'bursar:MoveObject',
    ...{ bucket: name, bucketOwner: owner, key, sizeBytes, etag, class: to },
    sha256: sha256 && Buffer.from(sha256).toString('hex'),
    change: { moved: { from, to, version: seq }, rule: ruleId, ...(tier && { tier }) },
    status: 200,
  });
}
