// Makes the database anew from S3 stores and the root keys alone (docs/admin/rebuild.md): what the
// journals say, then plain writes that they do not say yet, told by their extents. Invariants:
// nothing is restored whose bytes are not all there; each thing is restored through the ledger, so
// that catalog, counters and records tell one story; the database takes its name, and the stores
// their new journal, only when all is done: a rebuild that dies can be run again.

import { existsSync } from 'node:fs';
import { readInstance } from '../../catalog/stores.ts';
import { WorkFailure } from '../../core/command-failure.ts';
import { openDatabase, type Reader, removeDatabase } from '../../core/database.ts';
import { renameDurably } from '../../core/durable-file.ts';
import { Keyring } from '../../core/keyring.ts';
import { localStore } from '../../core/manifest.ts';
import { verifyReads } from '../../core/seals/sealed-views.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { StoreGate } from '../../tiering/stores/store-gate.ts';
import { claimStore, findClaim, ownerName } from '../../tiering/stores/store-owner.ts';
import { commitOf, nameUses } from '../backend-upkeep.ts';
import { generationTime, newGeneration, removeEarlierGenerations } from '../journal/generation.ts';
import { putBegin } from '../journal/opened-journal.ts';
import { writeSnapshot } from '../journal/snapshot.ts';
import { tellsOf } from '../journal/upkeep.ts';
import { Ledger } from '../ledger.ts';
import { findJournal, replayJournal } from './replay.ts';
import { isWhole, listedMax, newReport, type RebuildReport } from './report.ts';
import { checkExtents, placesOf, restoreAll } from './restore.ts';
import { chooseInstance, isDoubtful, type ToldIdentities } from './staged-identities.ts';
import { Staging } from './staging.ts';
import { placeTails, readUnnamed, type TailBucket, takeUnlisted } from './tail.ts';
import type { RebuildOptions, RebuiltStore, Work } from './work.ts';

/** Throws `WorkFailure`, or what a store throws that does not answer. */
export async function rebuild(options: RebuildOptions): Promise<RebuildReport> {
  const { databaseFile, rootKeys } = options;
  if (existsSync(databaseFile)) throw new WorkFailure(`${databaseFile} is there already`);
  const stagingFile = `${databaseFile}.staging`;
  const newFile = `${databaseFile}.rebuilding`;
  removeDatabase(stagingFile);
  removeDatabase(newFile);
  const staging = Staging.open(stagingFile);
  const work = { ...options, keyring: new Keyring(rootKeys), staging, report: newReport() };
  try {
    const stores = await findStores(work);
    await stage(work, stores);
    await restore(work, stores, newFile);
    renameDurably(newFile, databaseFile);
    // Who wants to try again what was lost needs the journal that tells of it.
    if (!isWhole(work.report)) return work.report;
    for (const { store, newGeneration } of stores) {
      // What cannot be removed is told by the new one, and does not count beside it.
      await removeEarlierGenerations(store, newGeneration, () => {});
    }
  } finally {
    staging.close();
    removeDatabase(stagingFile);
  }
  return work.report;
}

async function findStores(work: Work): Promise<RebuiltStore[]> {
  const { keyring, sealer, report } = work;
  const found: RebuiltStore[] = [];
  const without: string[] = [];
  for (const store of work.stores) {
    const claim = await findClaim(store, sealer);
    const marked = typeof claim === 'string' ? null : claim.store;
    const journal = await findJournal({ store, keyring, number: marked }, work.generation);
    if (!journal) {
      without.push(store.name);
      continue;
    }
    if (claim === 'foreign') {
      throw new WorkFailure(
        `the mark of the owner of store ${store.name} is another gateway's, or damaged: if no ` +
          `other gateway uses the store, remove its object ${ownerName} and run this again`,
      );
    }
    const number = journal.begin.store;
    const other = found.find((one) => one.store.number === number);
    if (other) {
      const names = `${other.store.name} and ${store.name}`;
      const reason = 'are of different gateways, or one has a copy of what is in the other';
      throw new WorkFailure(`stores ${names} ${reason}: rebuild them apart`);
    }
    const gate = new StoreGate({ number, name: store.name, reason: '' });
    gate.open(store);
    report.journals.push(journal.report);
    const newGeneration = nameGeneration(journal.newestGeneration);
    const { begin, report: told } = journal;
    const unread = { snapshotMs: null, snapshotSeq: 0, toldSeq: -1 };
    found.push({ store: gate, journal: told, begin, ...unread, newGeneration });
  }
  const { generation: wanted } = work;
  if (wanted !== undefined && !report.journals.some(({ generation }) => generation === wanted)) {
    throw new WorkFailure(`no journal ${wanted} under these keys is in any of the stores`);
  }
  if (found.length > 0 && without.length === 0) return found;
  // Whatever has been served with a store has begun a journal there: so one that has none was
  // emptied, or is another place, and what was acknowledged there would be gone in silence.
  const advice = found.length > 0 ? ': bring it back, or leave the store out' : '';
  const names = without.join(', ') || 'any store';
  throw new WorkFailure(`no journal under these keys is in ${names}${advice}`);
}

/**
 * Gathers what journals and extents say, and decides which version of each key is restored.
 * `onReplayed` may add what else is known of a store once its journal was read; it gives how far
 * that is known of identities, where it is.
 */
export async function stage(
  work: Work,
  stores: RebuiltStore[],
  onReplayed: (one: RebuiltStore) => Promise<ToldIdentities | undefined> = async () => undefined,
): Promise<void> {
  const { staging, keyring, report } = work;
  const instance = chooseInstance(stores, work.generation);
  const told: ToldIdentities[] = [];
  for (const one of stores) {
    const { store, journal, begin } = one;
    const isOurs = instance !== undefined && begin.instance === instance;
    work.onProgress(`reading the journal of ${store.name}`, 0);
    const { written } = one;
    const reading = { store, keyring, report: journal, begin, revocationsAlone: !isOurs, written };
    const { snapshotMs, snapshotSeq, identities } = await replayJournal(reading, staging);
    Object.assign(one, { snapshotMs, snapshotSeq, toldSeq: journal.lastSeq });
    const known = await onReplayed(one);
    if (known) told.push(known);
    // An older marker was put back: what the rest tells of is not told whole.
    if (begin.instance === undefined && identities.tells !== null) {
      told.push({ ...identities, holes: [{ firstSeq: 0, lastSeq: Number.MAX_SAFE_INTEGER }] });
    }
    if (isOurs) {
      told.push(identities);
      report.identities.stores.push(store.name);
    }
    await stageExtents(work, store);
  }
  await staging.identities.settle(Math.max(0, ...told.map(({ floorSeq }) => floorSeq)));
  report.identities.doubtful = isDoubtful(told);
  await staging.dropReplacedBuckets();
  report.ownerlessBuckets = await staging.identities.dropBucketsOfRetired(listedMax);
  await staging.replaceInGoneBuckets();
  const conflicts = await staging.listConflicts();
  if (conflicts.length > 0) {
    const names = conflicts.slice(0, 3).join(', ');
    throw new WorkFailure(`several stores claim the bucket ${names}: rebuild them apart`);
  }
  const buckets = await listBuckets(staging, stores);
  await takeUnlisted(staging, buckets, stores);
  await nameExtents(staging, buckets, stores);
  for (const { store, toldSeq } of stores) {
    let read = 0;
    const { mustBeTold } = work;
    await readUnnamed({ store, toldSeq, keyring, staging, report, mustBeTold }, () =>
      work.onProgress(`reading what extents in ${store.name} say that nothing names`, ++read),
    );
  }
  for (const { store, snapshotMs } of stores) {
    // All that was made since the snapshot was begun is in the segments.
    const untold = await staging.listUntold(store.number, snapshotMs ?? -1, listedMax);
    report.untoldBuckets.push(...untold);
  }
  await placeTails(staging, buckets);
  await staging.kept.settle();
  report.uploads = await staging.listUploads(listedMax);
}

async function stageExtents({ staging, onProgress }: Work, store: RemoteStore): Promise<void> {
  const pageMax = 1000;
  let listed = 0;
  let page: { id: Buffer; sizeBytes: number }[] = [];
  for await (const extent of store.list()) {
    page.push(extent);
    if (page.length < pageMax) continue;
    await staging.takeExtents(store.number, page);
    listed += page.length;
    onProgress(`listing extents in ${store.name}`, listed);
    page = [];
  }
  await staging.takeExtents(store.number, page);
}

async function listBuckets(
  staging: Staging,
  stores: readonly RebuiltStore[],
): Promise<Map<number, TailBucket>> {
  const snapshots = new Map(stores.map(({ store, snapshotMs }) => [store.number, snapshotMs]));
  const buckets = await staging.listBuckets();
  return new Map(
    buckets.map((one) => [one.id, { ...one, snapshotMs: snapshots.get(one.store) ?? null }]),
  );
}

/**
 * Extents of versions that are whole need not be asked what they are; but for versions that are
 * newer than what the journal is sure to tell, and may be copies of what it does not tell yet.
 */
async function nameExtents(
  staging: Staging,
  buckets: ReadonlyMap<number, TailBucket>,
  stores: readonly RebuiltStore[],
): Promise<void> {
  const toldSeqs = new Map(stores.map(({ store, toldSeq }) => [store.number, toldSeq]));
  for await (const { version } of staging.listVersions()) {
    const bucket = buckets.get(version.bucketId);
    if (bucket && version.seq > (toldSeqs.get(bucket.store) ?? -1)) continue;
    const checked = bucket && (await checkExtents(staging, version));
    if (checked?.runs) await staging.nameExtents(placesOf(checked));
  }
  // What was held is no write that the journal lacks, also where no snapshot has it any more.
  for await (const held of staging.kept.listHeld()) {
    const bucket = buckets.get(held.bucketId);
    const checked = bucket && (await checkExtents(staging, held));
    if (checked?.runs) await staging.nameExtents(placesOf(checked));
  }
}

/** Makes the database file, and begins a new journal in each store, which then is the new one's. */
async function restore(work: Work, stores: RebuiltStore[], path: string): Promise<void> {
  let fail: (error: Error) => void = () => {};
  let isDead = false;
  const fatal = new Promise<never>((_, reject) => {
    fail = reject;
  });
  fatal.catch(() => {});
  const ledger = await Ledger.open({
    path,
    rootKeys: work.rootKeys,
    priceBooks: [...work.prices.books],
    onFatal: (reason) => {
      isDead = true;
      fail(new Error(reason));
    },
    onFailure: (reason) => fail(new Error(reason)),
  });
  work.prices.enter(stores.map(({ store }) => store));
  const db = openDatabase(path, { readonly: true, cacheKib: 64 * 1024 });
  // What the stores' new journals are told is read here.
  verifyReads(db, work.keyring);
  try {
    const task = async (): Promise<void> => {
      for (const { store, newGeneration: generation } of stores) {
        const { number, name } = store;
        await ledger.maintain({ kind: 'restoreStore', number, name, generation });
      }
      await restoreAll(work, { ledger, read: db.tx, stores });
      for (const one of stores) await takeOver(work, { ledger, read: db.tx }, one);
      await tellCost(work, ledger, stores);
    };
    await Promise.race([task(), fatal]);
  } finally {
    db.close();
    if (!isDead) await ledger.close();
  }
}

/** After all that count, whatever the clock says. */
export function nameGeneration(newestGeneration: string): string {
  return newGeneration(Math.max(Date.now(), (generationTime(newestGeneration) ?? 0) + 1));
}

/** From here on the new journal counts, and the store belongs to the new database. */
export async function takeOver(
  { keyring, sealer, report, onProgress, withKeys }: Work,
  { ledger, read }: { ledger: Ledger; read: Reader },
  { store, newGeneration: generation }: RebuiltStore,
): Promise<void> {
  onProgress(`writing the new journal of ${store.name}`, 0);
  const newest = await read.get<{ idx: number }>('SELECT max(idx) AS idx FROM records');
  const beginSeq = (newest?.idx ?? -1) + 1;
  await ledger.maintain({ kind: 'noteJournaled', store: store.number, seq: beginSeq - 1 });
  const place = { store, keyring, generation };
  const tells = tellsOf({ withKeys });
  const pages = await writeSnapshot({ ...place, read, beginSeq, tells });
  const losses = isWhole(report) ? 0 : Math.max(1, report.lost.count);
  const instance = await readInstance(read);
  const begin = { losses, snapshot: beginSeq, instance };
  const objects = [...(pages ?? []), await putBegin(place, begin)];
  const noted = { store: store.number, beginSeq, objects, tells };
  await ledger.maintain({ kind: 'noteSnapshot', ...noted });
  const claim = { instance, store: store.number };
  const owner = await claimStore(store, sealer, claim, { takeOver: true });
  if (owner !== 'us') throw new WorkFailure(`store ${store.name} was taken by another rebuild`);
}

/** What the stores were asked until here: what is left is to remove the journals of before. */
export async function tellCost(
  { stores: asked, tallies, prices }: Work,
  ledger: Ledger,
  stores: readonly RebuiltStore[],
  source = 'bursar rebuild',
): Promise<void> {
  const nameOf = (number: number): string =>
    (asked.find((one) => one.number === number) as RemoteStore).name;
  const numberOf = (name: string): number =>
    stores.find(({ store }) => store.name === name)?.store.number ?? localStore;
  const bookOf = (number: number) => prices.bookOf(numberOf(nameOf(number)));
  const uses = nameUses(tallies.take(), { stores: { nameOf }, bookOf });
  const result = await ledger.commit(commitOf(uses, source));
  if (!result.ok) throw new Error(`what the rebuild cost was refused: ${result.code}`);
}
