// Applies one request to the ledger inside the batch's transaction. Every change checks everything
// before its first write, so a refusal leaves nothing behind and needs no savepoint.
import type { RecordSeal } from '../audit/record.ts';
import { appendRecord, readRecordsFrom } from '../audit/records.ts';
import { applyAuthzChange } from '../authz/changes.ts';
import { countDownload } from '../authz/share-changes.ts';
import { noteTokenUse, purgeTokens } from '../authz/token-rows.ts';
import { createBucket, deleteBucket, putBucketPolicy } from '../catalog/buckets.ts';
import { condemnIntents, declareExtents, forgetExtents } from '../catalog/extents.ts';
import { forgetJournaled } from '../catalog/outbox.ts';
import { type Moment, noStorage, type Outcome } from '../catalog/outcome.ts';
import { enterUnnamed, restoreBucket, restoreObject, restoreStore } from '../catalog/restore.ts';
import { beginGeneration, noteJournaled, registerStore } from '../catalog/stores.ts';
import {
  abortUpload,
  completeUpload,
  createUpload,
  forgetCompleted,
  putPart,
} from '../catalog/uploads.ts';
import { copyObject, deleteObject, purgeSuperseded, putObject } from '../catalog/versions.ts';
import type { Tx } from '../core/database.ts';
import { statusOf } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Cashier } from '../quota/cashier.ts';
import { addToDays, nextUnsummed } from '../quota/roll-up/usage-days.ts';
import type { Change, Commit, CommitResult, Housekeeping, SetLimits } from './commit.ts';
import { addRootKey } from './key-epochs.ts';

/** Change, charge and record of one operation. */
export async function applyCommit(
  tx: Tx,
  commit: Commit,
  moment: Moment,
  cashier: Cashier,
): Promise<CommitResult> {
  const outcome = await applyChange(tx, commit.change, moment, cashier);
  const storage = outcome.ok ? outcome.storage : noStorage;
  const { charge } = commit;
  const cost = charge && (await cashier.charge(charge, storage, moment.timeMs));
  const priced = charge && charge.transfer.requests > 0 ? charge.pricing : null;
  const backend = commit.backend && (await cashier.chargeBackend(commit.backend, moment.timeMs));
  const { seq: index, timeMs } = moment;
  const seal: RecordSeal = { index, timeMs, ...storage, cost, priced, backend };
  if (outcome.ok) {
    await appendRecord(tx, commit.record, seal);
    return { ok: true, index: moment.seq, timeMs: moment.timeMs };
  }
  const { code, fields } = outcome;
  await appendRecord(tx, { ...commit.record, status: statusOf(code), error: code }, seal);
  return fields
    ? { ok: false, code, fields, index: moment.seq }
    : { ok: false, code, index: moment.seq };
}

async function applyChange(
  tx: Tx,
  change: Change,
  moment: Moment,
  { accounts }: Cashier,
): Promise<Outcome<null>> {
  switch (change.kind) {
    case 'none':
      return { ok: true, storage: noStorage, result: null };
    case 'createBucket':
      return createBucket(tx, change, moment);
    case 'deleteBucket':
      return deleteBucket(tx, change, moment);
    case 'putBucketPolicy':
      return putBucketPolicy(tx, change);
    case 'putObject':
      return putObject(tx, change, moment);
    case 'copyObject':
      return copyObject(tx, change, moment);
    case 'deleteObject':
      return deleteObject(tx, change, moment);
    case 'createUpload':
      return createUpload(tx, change, moment);
    case 'putPart':
      return putPart(tx, change, moment);
    case 'completeUpload':
      return completeUpload(tx, change, moment);
    case 'abortUpload':
      return abortUpload(tx, change, moment);
    case 'restoreBucket':
      return restoreBucket(tx, change);
    case 'restoreObject':
      return restoreObject(tx, change, moment);
    case 'addRootKey':
      await addRootKey(tx, moment.keyring, change.key);
      return { ok: true, storage: noStorage, result: null };
    case 'setLimits':
      return setLimits(accounts, change, moment.timeMs);
    case 'forgetLost':
      await accounts.forgetLost(change.account, moment.timeMs);
      return { ok: true, storage: noStorage, result: null };
    case 'identity': {
      const outcome = await applyAuthzChange(tx, change.identity, moment.timeMs);
      return outcome.ok ? { ok: true, storage: noStorage, result: null } : outcome;
    }
  }
}

async function setLimits(
  accounts: Cashier['accounts'],
  { account, limits, before }: SetLimits,
  timeMs: number,
): Promise<Outcome<null>> {
  const now = (await accounts.read(account, timeMs)).limits?.limits ?? null;
  if (before !== undefined && JSON.stringify(before) !== JSON.stringify(now)) {
    return { ok: false, code: 'ConditionalRequestConflict' };
  }
  await accounts.setLimits(account, limits, timeMs);
  return { ok: true, storage: noStorage, result: null };
}

/** Gives how many rows were touched. */
export async function applyHousekeeping(
  tx: Tx,
  work: Housekeeping,
  context: { timeMs: number; process: string; keyring: Keyring; cashier: Cashier },
): Promise<number> {
  const { timeMs, process } = context;
  switch (work.kind) {
    case 'declareExtents':
      await declareExtents(tx, { store: work.store, ids: work.ids, process, timeMs });
      return work.ids.length;
    case 'condemnIntents':
      return condemnIntents(tx, { ...work, process, timeMs });
    case 'registerStore':
      return registerStore(tx, work.name, work.location);
    case 'purgeSuperseded':
      return purgeSuperseded(tx, work.max, context);
    case 'beginGeneration':
      return beginGeneration(tx, work.store, work.generation);
    case 'noteJournaled':
      return noteJournaled(tx, work.store, work.seq);
    case 'forgetJournaled':
      return forgetJournaled(tx, work.store, work.lastSeq);
    case 'restoreStore':
      return restoreStore(tx, work);
    case 'enterUnnamed':
      return enterUnnamed(tx, work, timeMs);
    case 'forgetExtents':
      await forgetExtents(tx, work.ids);
      return work.ids.length;
    case 'forgetCompleted':
      return forgetCompleted(tx, work.beforeMs, work.max);
    case 'noteTokenUse':
      return noteTokenUse(tx, work, timeMs);
    case 'purgeTokens':
      return purgeTokens(tx, work.max, timeMs);
    case 'sumUsage':
      return sumUsage(tx, work.max);
    case 'countDownload':
      return countDownload(tx, work.id, timeMs);
    case 'giveBack':
      await context.cashier.accounts.giveBack(work.draws, timeMs);
      return work.draws.length;
  }
}

async function sumUsage(tx: Tx, max: number): Promise<number> {
  const begin = await nextUnsummed(tx);
  const records = await readRecordsFrom(tx, begin, max);
  if (records.length > 0) await addToDays(tx, records, begin + records.length);
  return records.length;
}
