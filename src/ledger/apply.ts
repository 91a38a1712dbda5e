// Applies one request to the ledger inside the batch's transaction. Every change checks everything
// before its first write, so a refusal leaves nothing behind and needs no savepoint.

import { noteAltered, readTrueRecords } from '../audit/altered-records.ts';
import { archiveTile } from '../audit/archive/archived-tiles.ts';
import { noteProgress } from '../audit/changes/targets.ts';
import { keepEvidence } from '../audit/evidence.ts';
import { noteCosigned } from '../audit/log/cosignatures.ts';
import type { LimitedEntry, RecordDraft, RecordSeal } from '../audit/record.ts';
import type { RecordLog } from '../audit/record-log.ts';
import { noteTokenUse, purgeTokens } from '../authz/issued-tokens.ts';
import { countDownload } from '../authz/shares.ts';
import { deferCopies, hastenCopies, noteMade, retryCopies } from '../catalog/extent-copies.ts';
import {
  condemnIntents,
  declareExtents,
  deferExtents,
  forgetSwept,
  noteSwept,
} from '../catalog/extents.ts';
import { countAll } from '../catalog/held-totals.ts';
import { noteJournalObject, noteSnapshot } from '../catalog/journal-objects.ts';
import { dropLongManifest } from '../catalog/long-manifests.ts';
import { deferLosses, forgetLosses, hastenLosses } from '../catalog/lost-versions.ts';
import { forgetJournaled } from '../catalog/outbox.ts';
import { noStorage, type OtherKey, type Outcome } from '../catalog/outcome.ts';
import { forgetTokens } from '../catalog/rename-tokens.ts';
import { enterUnnamed, restoreStore } from '../catalog/restore.ts';
import { deferRestore, forgetRestore } from '../catalog/restore-rows.ts';
import { beginGeneration, noteJournaled, registerStore } from '../catalog/stores.ts';
import { beginUses, forgetUses, noteUse } from '../catalog/tiers.ts';
import { forgetCompleted } from '../catalog/uploads.ts';
import { purgeEnded } from '../catalog/version-rows.ts';
import { amendWork, leaseWork } from '../catalog/work.ts';
import type { Tx } from '../core/database.ts';
import { type ErrorCode, statusOf } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Unsealed } from '../core/seals/row-seal.ts';
import type { Billing } from '../quota/billing.ts';
import { chargeStored, type LimitedLevels } from '../quota/charge.ts';
import { forgetAlarms } from '../quota/limits/alarms.ts';
import { partsOf } from '../quota/roll-up/charged-record.ts';
import type { RecentUse } from '../quota/roll-up/recent-use.ts';
import { addToDays, nextUnsummed } from '../quota/roll-up/usage-days.ts';
import { addCost, type StorageCosts, sumCosts } from '../quota/storage/storage-charges.ts';
import { enterPackedRecords, takeBackTiles } from './archive/pack-entry.ts';
import { type Change, commandOf, eventsOf } from './commands/index.ts';
import type { Commit, CommitResult, Maintenance } from './commit.ts';
import { tellConcerned } from './erasure-notices.ts';
import { countReleased, releasePurged, releaseSlice } from './held-upkeep.ts';
import {
  beginTelling,
  endTelling,
  forgetThings,
  noteThings,
  noteTold,
} from './journal/identity-outbox.ts';
import { endDue } from './lifecycle-upkeep.ts';
import type { LogSigning } from './log-signing.ts';
import { moveDue } from './move-upkeep.ts';
import { closeFolds, foldRequest } from './record-folds.ts';
import { CommitTerms, chargeAccrued, handOver } from './storage-upkeep.ts';
import type { StoredLevels } from './stored-levels.ts';

export interface CommitContext {
  timeMs: number;
  keyring: Keyring;
  billing: Billing;
  /** Its size is the index of the record that is appended next. */
  log: RecordLog;
  signing: LogSigning;
  /** What is stored under prefixes and by writers that have limits. */
  levels: StoredLevels;
}

/** Who asked reads again what the change was made of; how that ends is what is recorded. */
const toBeRetried: CommitResult = { ok: false, code: 'SlowDown', index: null };

/** Change, charge and record of one operation. */
export async function applyCommit(
  tx: Tx,
  commit: Commit,
  context: CommitContext,
): Promise<CommitResult> {
  const { timeMs, keyring, billing, log, signing, levels } = context;
  const index = log.size;
  const { change, record, evidence } = commit;
  const terms = new CommitTerms(context, commit.charge);
  const clockMs = timeMs - billing.accounts.aheadMs;
  const { accounts } = billing;
  const work = { seq: index, timeMs, clockMs, keyring, terms, accounts, signing, levels };
  const command = commandOf(change);
  const things = command.told ? await command.told.things(change, tx) : null;
  const caused = eventsOf(tx, change);
  const events = caused === null ? null : await caused;
  const outcome = await command.apply(tx, change, work);
  if (outcome.ok && things)
    await noteThings(tx, things, command.told?.revokedWith?.(change) ?? null, work);
  if (!outcome.ok && outcome.code === 'SlowDown') return toBeRetried;
  if (outcome.ok && commit.used) await noteUse(tx, commit.used, timeMs);
  const backend = commit.backend && (await billing.chargeBackend(commit.backend, timeMs));
  const charged = await chargeCommit(commit, outcome, context, levels.take());
  const told = toldOf(record, outcome, terms);
  if (commit.folds && changesNothing(change, outcome)) {
    await foldRequest(tx, told, { ...charged, backend }, timeMs);
    return { ...resultOf(outcome, { timeMs, terms, index: null }), isFolded: true };
  }
  const seal = sealOf(outcome, { index, timeMs, charged, backend });
  if (evidence) await keepEvidence(tx, index, evidence);
  await log.append(told, seal);
  if (outcome.ok && outcome.also) await tellOtherKey(commit, told, outcome.also, context);
  if (outcome.ok && outcome.handedOver) {
    await handOver(outcome.handedOver, record.requestId, context);
  }
  if (outcome.ok && outcome.purged) {
    await releasePurged(tx, outcome.purged, index, (one) => applyCommit(tx, one, context));
  }
  if (change.kind === 'eraseRecords' && outcome.ok) {
    await tellConcerned(tx, log, { record: told, index, timeMs, indexes: change.indexes });
  }
  const result = resultOf(outcome, { timeMs, terms, index });
  return result.ok && events?.length ? { ...result, events } : result;
}

/**
 * Appends the second record of a change, of what it did at another key: what was asked for, sent
 * and signed is in the first one.
 */
async function tellOtherKey(
  { charge }: Commit,
  record: RecordDraft,
  { key, storage }: OtherKey,
  { timeMs, billing, log }: CommitContext,
): Promise<void> {
  const index = log.size;
  const { storedBytes, storedObjects, billed, makesVersion, supersededSeq, named } = storage;
  const isStored = storedBytes !== 0 || billed.length > 0;
  const stored = charge && isStored ? chargeStored(charge.who, charge.pricing.book) : null;
  const cost = stored && (await billing.charge(stored, storage, timeMs));
  const storageCosts = stored && (await billing.storage.change(stored, storage, timeMs));
  const about = {
    key,
    versionId: null,
    change: { renamedTo: { key: record.key, version: index - 1 } },
    ...{ sizeBytes: null, etag: null, sha256: null, bytesIn: 0, bytesOut: 0 },
    evidenceHash: null,
    evidenceAt: record.evidenceAt ?? (record.evidenceHash ? index - 1 : null),
  };
  await log.append(
    { ...record, ...about },
    {
      ...{ index, timeMs, storedBytes, storedObjects, makesVersion, supersededSeq, named },
      ...{ cost, ...(storageCosts && storageOf(storageCosts, null)) },
    },
  );
}

/** Member by member: this is of each request, and to leave some out of a copy costs far more. */
function sealOf(
  outcome: Outcome<null>,
  {
    index,
    timeMs,
    charged: { cost, storageCost, storageCosts, priced, limited },
    backend,
  }: Pick<RecordSeal, 'index' | 'timeMs' | 'backend'> & { charged: Charged },
): RecordSeal {
  const storage = outcome.ok ? outcome.storage : noStorage;
  const { storedBytes, storedObjects, makesVersion, supersededSeq, named } = storage;
  const { amended, configured } = storage;
  return {
    index,
    timeMs,
    storedBytes,
    storedObjects,
    makesVersion,
    supersededSeq,
    named,
    amended,
    configured,
    cost,
    storageCost,
    storageCosts,
    priced,
    limited,
    backend,
  };
}

/** What the record says, now that it is known how it ended. */
function toldOf(record: RecordDraft, outcome: Outcome<null>, terms: CommitTerms): RecordDraft {
  if (!outcome.ok) {
    const { code } = outcome;
    const bucketOwner = terms.shortage ? null : record.bucketOwner;
    return { ...record, bucketOwner, status: statusOf(code), error: code };
  }
  // Of which class it was that is gone, only the transaction knows.
  const [changed] = outcome.storage.billed;
  return record.class || !changed ? record : { ...record, class: changed.class };
}

function resultOf(
  outcome: Outcome<null>,
  {
    timeMs,
    terms: { shortage },
    index,
  }: { timeMs: number; terms: CommitTerms; index: number | null },
): CommitResult {
  if (outcome.ok) {
    const { storage, purged } = outcome;
    const { named } = storage;
    if (purged) return { ok: true, index, timeMs, released: countReleased(purged.rows) };
    return named ? { ok: true, index, timeMs, version: named } : { ok: true, index, timeMs };
  }
  const { code, fields } = outcome;
  return { ok: false, code, index, ...(fields && { fields }), ...(shortage && { shortage }) };
}

/** Reads, refusals, and deletes of what is absent. */
function changesNothing({ kind }: Change, outcome: Outcome<null>): boolean {
  if (!outcome.ok || kind === 'none') return true;
  const { makesVersion, supersededSeq } = outcome.storage;
  return kind === 'deleteObject' && !makesVersion && supersededSeq === undefined;
}

type Charged = Pick<RecordSeal, 'cost' | 'storageCost' | 'storageCosts' | 'priced' | 'limited'>;

/** Who was refused for want of budget, or since what is stored is damaged, is charged nothing. */
async function chargeCommit(
  { change, charge }: Commit,
  outcome: Outcome<null>,
  { timeMs, billing }: CommitContext,
  levels: LimitedLevels | null,
): Promise<Charged> {
  const limited = entriesOf(charge?.who.limited, levels);
  if (!charge) {
    if (levels) await billing.countLevels(levels, timeMs);
    return { cost: null, limited };
  }
  if (!outcome.ok && freeRefusals.has(outcome.code)) {
    await billing.refuse(charge, timeMs);
    return { cost: null };
  }
  const storage = outcome.ok ? outcome.storage : noStorage;
  const stored = levels ? { ...storage, levels } : storage;
  const cost = await billing.charge(charge, stored, timeMs);
  const priced = charge.transfer.requests > 0 ? charge.pricing : null;
  if (storage.billed.length === 0 && change.kind !== 'deleteBucket') {
    return { cost, priced, limited };
  }
  const storageCosts = await billing.storage.change(charge, storage, timeMs);
  if (outcome.ok && change.kind === 'deleteBucket') {
    for (const [book, rest] of await billing.storage.close(charge, timeMs)) {
      addCost(storageCosts, { book, cost: rest });
    }
  }
  return { cost, ...storageOf(storageCosts, priced), limited };
}

/** What a record says of charges for storage, which have a price also where nobody asked. */
function storageOf(
  costs: StorageCosts,
  asked: RecordSeal['priced'],
): Pick<Charged, 'storageCost' | 'storageCosts' | 'priced'> {
  const [book] = costs.keys();
  const priced = asked ?? (book === undefined ? null : { book });
  const isOne = [...costs.keys()].every((name) => name === priced?.book);
  return { storageCost: sumCosts(costs), storageCosts: isOne ? undefined : costs, priced };
}

/** What the record says of prefixes and writers with limits; undefined: none was concerned. */
function entriesOf(
  charged: readonly string[] | undefined,
  levels: LimitedLevels | null,
): readonly LimitedEntry[] | undefined {
  if (!charged && !levels) return undefined;
  if (charged && !levels) return entriesOfMoved(charged);
  const entries: LimitedEntry[] = [];
  for (const account of charged ?? []) entries.push(entryOf(account, true, levels));
  for (const account of levels?.keys() ?? []) {
    if (!charged?.includes(account)) entries.push(entryOf(account, false, levels));
  }
  return entries;
}

function entryOf(account: string, charged: boolean, levels: LimitedLevels | null): LimitedEntry {
  const { storedBytes = 0, storedObjects = 0 } = levels?.get(account) ?? {};
  return { account, charged, storedBytes, storedObjects };
}

/** Requests that are charged to the same ones, and come together, share one list. */
const moved = new WeakMap<readonly string[], readonly LimitedEntry[]>();

function entriesOfMoved(charged: readonly string[]): readonly LimitedEntry[] {
  let entries = moved.get(charged);
  if (!entries) {
    const nothing = { storedBytes: 0, storedObjects: 0 };
    entries = charged.map((account) => ({ account, charged: true, ...nothing }));
    moved.set(charged, entries);
  }
  return entries;
}

const freeRefusals: ReadonlySet<ErrorCode> = new Set(['QuotaExceeded', 'BursarIntegrityError']);

export interface MaintenanceContext extends CommitContext {
  process: string;
  /** Of all that `log` has appended since it was opened. */
  recentUse: RecentUse;
  /** Told of records that turn out not to be what was recorded. */
  onAltered?: (indexes: number[]) => void;
  /** Told of rows that are not authentic, without which the work went on. */
  onUnsealed?: (unsealed: Unsealed) => void;
}

/** The file's own version, which changes nothing and is a page to be written all the same. */
async function tryWriting(tx: Tx): Promise<number> {
  const row = await tx.get<{ user_version: number }>('PRAGMA user_version');
  await tx.run(`PRAGMA user_version = ${Number(row?.user_version)}`);
  return 1;
}

/** Gives how many rows were touched. */
export async function applyMaintenance(
  tx: Tx,
  work: Maintenance,
  context: MaintenanceContext,
): Promise<number> {
  const { timeMs, process } = context;
  switch (work.kind) {
    case 'declareExtents':
      await declareExtents(tx, { ...work, process, timeMs });
      return work.ids.length;
    case 'condemnIntents':
      return condemnIntents(tx, { ...work, process, timeMs });
    case 'registerStore':
      return registerStore(tx, work.name, work.location);
    case 'noteAltered':
      await noteAltered(tx, work.rows);
      return work.rows.length;
    case 'tryWriting':
      return tryWriting(tx);
    case 'writeAccounts':
      // All maintenance writes them.
      return 0;
    case 'dropLongManifest':
      return dropLongManifest(tx, timeMs);
    case 'purgeEnded':
      return purgeEnded(tx, work.max, context);
    case 'beginGeneration':
      return beginGeneration(tx, work.store, work.generation);
    case 'noteJournaled':
      return noteJournaled(tx, work.store, work.seq);
    case 'forgetJournaled':
      await forgetThings(tx, work.store, work.lastSeq);
      return forgetJournaled(tx, work);
    case 'noteSnapshot':
      await noteTold(tx, work.store, work.tells);
      return noteSnapshot(tx, work);
    case 'beginTelling':
      return beginTelling(tx, work.store);
    case 'endTelling':
      return endTelling(tx, work.store);
    case 'noteJournalObject':
      await noteJournalObject(tx, work.store, work.object);
      return 1;
    case 'restoreStore':
      return restoreStore(tx, work);
    case 'enterUnnamed':
      return enterUnnamed(tx, work, timeMs);
    case 'noteSwept':
      await noteSwept(tx, work.ids, timeMs);
      return work.ids.length;
    case 'deferExtents':
      await deferExtents(tx, work.ids, timeMs);
      return work.ids.length;
    case 'noteCopies':
      return noteMade(tx, work.made, timeMs);
    case 'deferCopies':
      return deferCopies(tx, work.copies);
    case 'retryCopies':
      return retryCopies(tx, work.id, timeMs);
    case 'deferLosses':
      return deferLosses(tx, work.losses);
    case 'forgetLosses':
      return forgetLosses(tx, work.seqs);
    case 'leaseWork':
      return leaseWork(tx, work, timeMs);
    case 'amendWork':
      return amendWork(tx, work, timeMs);
    case 'deferRestore':
      return deferRestore(tx, work.seq, work.dueMs);
    case 'forgetRestore':
      return forgetRestore(tx, work.seq);
    case 'hastenRepairs':
      return (
        (await hastenCopies(tx, work.store, timeMs, work.max)) +
        (await hastenLosses(tx, timeMs, work.max))
      );
    case 'forgetSwept':
      return forgetSwept(tx, work.beforeMs, work.max);
    case 'forgetCompleted':
      return forgetCompleted(tx, work.beforeMs, work.max);
    case 'forgetTokens':
      return forgetTokens(tx, work.beforeMs, work.max);
    case 'noteTokenUse':
      return noteTokenUse(tx, work, timeMs);
    case 'purgeTokens':
      return purgeTokens(tx, work.max, timeMs);
    case 'closeFolds':
      return closeFolds(tx, work.max, context);
    case 'sumUsage':
      return sumUsage(tx, work.max, context);
    case 'chargeStorage':
      return chargeAccrued(tx, work, context);
    case 'endDue': {
      const apply = (commit: Commit) => applyCommit(tx, commit, context);
      return endDue(tx, work, { timeMs, keyring: context.keyring, apply });
    }
    case 'moveDue': {
      const apply = (commit: Commit) => applyCommit(tx, commit, context);
      return moveDue(tx, work, { ...context, apply });
    }
    case 'beginUses':
      return beginUses(tx, timeMs);
    case 'forgetUses':
      return forgetUses(tx, work.after, work.max);
    case 'releaseHeld': {
      const apply = (commit: Commit) => applyCommit(tx, commit, context);
      return releaseSlice(tx, work, { timeMs, keyring: context.keyring, apply });
    }
    case 'countHeld':
      return Number(await countAll(tx, work, timeMs));
    case 'enterPack':
      return enterPackedRecords(tx, work, timeMs);
    case 'unpackTiles':
      return takeBackTiles(tx, work.tile, timeMs);
    case 'archiveTile':
      return archiveTile(tx, work.tile);
    case 'countDownload':
      return countDownload(tx, work.id, timeMs);
    case 'noteToldAlarms':
      return forgetAlarms(tx, work.ids);
    case 'noteTold':
      return Number(await noteProgress(tx, work, timeMs));
    case 'purgeTokenAccounts':
      return context.billing.accounts.purgeTokens(work.max, timeMs);
    case 'signLog':
      await context.signing.begin(tx, work.keys, timeMs);
      return work.keys.length;
    case 'noteCosigned':
      await noteCosigned(tx, work.witness, work.note);
      return 1;
    case 'giveBack':
      await context.billing.accounts.giveBack(work, timeMs);
      return work.returns.length;
  }
}

/**
 * What is not what was recorded is left out, and noted. What the others charged is known of those
 * that this run has made, and read out of the texts of older ones.
 */
async function sumUsage(
  tx: Tx,
  max: number,
  { recentUse, onAltered }: MaintenanceContext,
): Promise<number> {
  const from = await nextUnsummed(tx);
  const recent = recentUse.take(from);
  const { records, altered, end } = await readTrueRecords(tx, from, recent?.count ?? max);
  if (end === null) return 0;
  await noteAltered(tx, altered);
  if (altered.length > 0) onAltered?.(altered.map(({ index }) => index));
  const isKnown = altered.length === 0 && recent?.count === records.length;
  await addToDays(tx, isKnown ? recent.parts() : records.flatMap(partsOf), end);
  return records.length + altered.length;
}
