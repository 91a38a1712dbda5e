// Puts back what the journal of an S3 store says (ledger/rebuild): buckets under their own ids and
// with what is set of them, versions with their own ids and times, the older ones of a key first,
// extents that are in the store already. Only into a new database, where nothing else is.
// Invariant: as with any write, version, extents, counters and record are one transaction, and the
// row's MAC is made where its seq is known.
import type { Tx } from '../core/database.ts';
import { decodeManifest } from '../core/manifest.ts';
import { configured } from './bucket-changes.ts';
import { type BucketRow, findBucket, getBucket, storeSetting } from './buckets.ts';
import { listLegStores } from './class-terms.ts';
import { enterCopies } from './extent-copies.ts';
import { countReferences, extentState } from './extents.ts';
import { type Moment, type Outcome, refused } from './outcome.ts';
import { putBackSettings } from './put-back-settings.ts';
import { openKey } from './version-places.ts';
import { insertVersion, keepAsNoncurrent } from './version-rows.ts';
import { type ObjectDraft, placedMs, readNamed } from './versions.ts';

/** Gives a store its number again, and the journal that is about to be begun in it. */
export async function restoreStore(
  tx: Tx,
  store: { number: number; name: string; generation: string },
): Promise<number> {
  // A start finds out where the store is, and notes it.
  const sql = "INSERT INTO stores (number, name, location, generation) VALUES (?, ?, '', ?)";
  return (await tx.run(sql, store.number, store.name, store.generation)).changes;
}

export interface RestoreBucket {
  kind: 'restoreBucket';
  bucket: BucketRow;
  /** JSON, by name. */
  settings: Record<string, string>;
}

/** Refuses AlreadyExists when its id or its name is taken. */
export async function restoreBucket(
  tx: Tx,
  change: RestoreBucket,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const { bucket } = change;
  const settings = putBackSettings(change.settings, moment);
  const { id, tenant, name } = bucket;
  if ((await getBucket(tx, id)) || (await findBucket(tx, tenant, name))) {
    return refused('AlreadyExists');
  }
  await tx.run(
    `INSERT INTO buckets (id, tenant, name, owner, created_ms, store, policy, versioning,
         object_lock, public_access, ownership, record_reads)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[id, tenant, name, bucket.owner, bucket.createdMs, bucket.store, bucket.policy],
    ...[bucket.versioning, bucket.objectLock, bucket.publicAccess, bucket.ownership],
    bucket.recordReads,
  );
  for (const [setting, document] of Object.entries(settings)) {
    await storeSetting(tx, id, setting, document);
  }
  return { ok: true, storage: await configured(tx, id), result: null };
}

export interface RestoreVersion {
  kind: 'restoreVersion';
  bucketId: number;
  key: string;
  /** Null: S3's `null` version. */
  versionId: string | null;
  isMarker: boolean;
  createdMs: number;
  /** Its extents are in the stores that its manifest says, or at least in those of `places`. */
  object: ObjectDraft;
  /** Of a class of a tenant's own: by extent, in hex, the stores that were found to have it. */
  places?: Record<string, number[]> | undefined;
}

/**
 * Makes the version the current one of its key, and keeps the one before as noncurrent since then.
 * Refuses AlreadyExists when the key has one of this id.
 */
export async function restoreVersion(
  tx: Tx,
  change: RestoreVersion,
  moment: Moment,
): Promise<Outcome<null>> {
  const { bucketId, key, versionId, isMarker, createdMs, object } = change;
  const conditions = { ifMatch: null, ifNoneMatch: null };
  const name = { key, versionId: versionId ?? 'null' };
  const opening = await openKey(tx, { bucketId, ...name, conditions }, moment);
  if (!opening.ok) return opening;
  const { bucket, found } = opening.result;
  if (found) return refused('AlreadyExists');
  const newest = await readNamed(tx, bucketId, { key });
  if (newest) {
    const since = { ...moment, timeMs: placedMs({ createdMs, attributes: object.attributes }) };
    await keepAsNoncurrent(tx, bucket, { ...newest, isDamaged: false }, since);
  }
  await adoptFromStores(tx, bucket, object.manifest, moment.timeMs);
  if (change.places) await placeCopies(tx, bucket, change.places, object, moment);
  const version = { key, versionId, isMarker: isMarker ? 1 : 0, createdMs, object };
  const added = await insertVersion(tx, bucket, version, moment);
  const storage = {
    storedBytes: object.sizeBytes,
    storedObjects: isMarker ? 0 : 1,
    billed: isMarker ? [] : [added],
    ended: null,
    makesVersion: true,
    ...(bucket.versioning !== 'Unversioned' && { named: { versionId, isMarker } }),
  } as const;
  return { ok: true, storage, result: null };
}

export async function adoptFromStores(
  tx: Tx,
  { tenant }: { tenant: string },
  manifest: Uint8Array,
  timeMs: number,
): Promise<void> {
  const storeOf = new Map(
    decodeManifest(manifest).map(({ id, store }) => [id.toString('hex'), store]),
  );
  for (const [id, count] of countReferences(manifest)) {
    const store = storeOf.get(id.toString('hex')) as number;
    await tx.run(
      `INSERT INTO extents (id, store, tenant, state, refs, changed_ms) VALUES (?, ?, ?, 1, ?, ?)
         ON CONFLICT (id) DO UPDATE SET refs = refs + excluded.refs, state = 1, process = NULL,
           tenant = excluded.tenant,
           store = CASE WHEN state = 1 THEN store ELSE excluded.store END`,
      ...[id, store, tenant, count, timeMs],
    );
  }
}

/** What is in several stores, or should be, as the class says, is known to be. */
export async function placeCopies(
  tx: Tx,
  { tenant }: { tenant: string },
  places: Record<string, number[]>,
  { class: storageClass, manifest }: Pick<ObjectDraft, 'class' | 'manifest'>,
  { timeMs }: Pick<Moment, 'timeMs'>,
): Promise<void> {
  const stores = await listLegStores(tx, tenant, storageClass);
  const legs = stores.filter((store) => store !== null);
  for (const { id, store } of decodeManifest(manifest)) {
    const good = places[id.toString('hex')] ?? [store];
    const isAlone = legs.length < 2 && good.length < 2 && good[0] === store;
    if (!isAlone) await enterCopies(tx, id, { good, due: [...legs, store] }, timeMs);
  }
}

/**
 * Enters extents that lie in a store and that nothing restored names, as condemned or as left
 * alone: also those that an older database knows as about to be written, which the journal must
 * know as garbage, or the next restore would take them for writes; and those that it would remove,
 * where they are to be left alone. Gives how many there were.
 */
export async function enterUnnamed(
  tx: Tx,
  extents: { store: number; ids: readonly Uint8Array[]; state: 'condemned' | 'left' },
  timeMs: number,
): Promise<number> {
  const { store, ids, state } = extents;
  let entered = 0;
  for (const id of ids) {
    const { changes } = await tx.run(
      `INSERT INTO extents (id, store, state, refs, changed_ms) VALUES (?, ?, ?, 0, ?)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, changed_ms = excluded.changed_ms
           WHERE extents.state = 0 OR (extents.state = 2 AND excluded.state = 3)`,
      id,
      store,
      extentState[state],
      timeMs,
    );
    entered += changes;
    await noteCopy(tx, id, store, timeMs);
  }
  return entered;
}

/** What another store has, too, goes with it. */
async function noteCopy(tx: Tx, id: Uint8Array, store: number, timeMs: number): Promise<void> {
  const sql = 'SELECT store FROM extents WHERE id = ?';
  const home = await tx.get<{ store: number }>(sql, id);
  if (!home || home.store === store) return;
  await enterCopies(tx, id, { good: [home.store, store], due: [] }, timeMs);
}
