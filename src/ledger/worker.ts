// The one writer: a thread that owns the write connection. It takes batches of requests by its ends
// (ends.ts), applies what has come in one transaction with one fsync, and answers all. An answer is
// sent only after the commit. When the disk fails it stops the process: it must not answer for a
// state it cannot know.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { readTrueRecords } from '../audit/altered-records.ts';
import { RecordLog } from '../audit/record-log.ts';
import { readClassTerms } from '../catalog/class-terms.ts';
import { VersionMarker } from '../catalog/version-marks.ts';
import { monotonicMs } from '../core/clock.ts';
import { openDatabase, type Reader } from '../core/database.ts';
import { statusOf } from '../core/errors.ts';
import { Keyring, type RootKey } from '../core/keyring.ts';
import { type Unsealed, UnsealedRow } from '../core/seals/row-seal.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { Billing } from '../quota/billing.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import { PriceBooks } from '../quota/prices/price-books.ts';
import { type ChargedRecord, partsOfRecord } from '../quota/roll-up/charged-record.ts';
import { RecentUse } from '../quota/roll-up/recent-use.ts';
import { raiseAlarms } from './alarms.ts';
import { applyCommit, applyMaintenance, type MaintenanceContext } from './apply.ts';
import type { Change } from './commands/index.ts';
import type { Commit, CommitResult, LedgerAnswer, LedgerRequest } from './commit.ts';
import { LedgerEnds } from './ends.ts';
import { beginEpochs, claimEpochs } from './key-epochs.ts';
import { LogSigning } from './log-signing.ts';
import { createSchema } from './migrations/schema-state.ts';
import { useOf } from './recorded-use.ts';
import { RightsEpoch, takenFrom } from './rights-epoch.ts';
import { SealedState, verifySealedState } from './sealed-state.ts';
import { StoredLevels } from './stored-levels.ts';

export interface WorkerOptions {
  path: string;
  /** Of all epochs. */
  rootKeys: readonly RootKey[];
  priceBooks: readonly PriceBook[];
  /** Where it tells readers which versions may have changed. */
  marks: SharedArrayBuffer;
}

export type ToWorker =
  /** What requests are decided by was read. `told`: see `LedgerEnd`. */
  | { loaded: true; told: SharedArrayBuffer }
  /** Requests come by this port, too. */
  | { end: MessagePort }
  /** Nothing is under way. */
  | { close: true };
export type FromWorker =
  /** The tables are there, and stay as they are until `loaded`. */
  | { opened: true }
  /** What of them is not authentic. */
  | { ready: true; unsealed: Unsealed[] }
  /** A row that is not authentic, which a request came upon. */
  | { unsealed: Unsealed }
  /** Somebody else has written to the database. */
  | { touched: true }
  /** The log, signed as a batch left it, so long after the first batch that it covers began. */
  | { checkpoint: string; sinceAppendMs: number }
  /** Those of a batch, once they are durable; they are in the table too. */
  | { alarms: Alarm[] }
  /** Records that are not what was recorded. */
  | { altered: number[] }
  | { failed: string }
  | { fatal: string };

const port = parentPort;
if (!port) throw new Error('the ledger runs in a worker thread');
const { path, rootKeys, priceBooks, marks } = workerData as WorkerOptions;

/** One transaction's worth of leases that were left. */
const writtenOffMax = 1000;

/**
 * How long readers are waited for until the log of pages is emptied, and when that is tried again.
 */
const readersMsMax = 50;
const forgetAgainMs = 1000;

/** How often it is looked whether somebody else has written to the database. */
const watchEachMs = 1000;

const untoldMs = 1000;
/** So soon after a batch accounts are written that were not written with it. */
const accountsMsMax = 20;
const unwritten: LedgerAnswer = {
  ok: false,
  code: 'ServiceUnavailable',
  index: null,
  isUnwritten: true,
};

/** Tells this run of the gateway from earlier ones: their intents are orphans. */
const processId = randomUUID();
const db = openDatabase(path, { readonly: false, cacheKib: 64 * 1024 });
const keyring = new Keyring(rootKeys);
await createSchema(db, keyring);
await claimEpochs(db.tx, keyring);
/** While requests are decided by what others read now, nobody may write what was not verified. */
db.exec('BEGIN IMMEDIATE');
const loaded = once(port, 'message');
send({ opened: true });
const verified = await verifySealedState(db, keyring);
const [{ told }] = (await loaded) as [Extract<ToWorker, { loaded: true }>];
db.exec('ROLLBACK');
let dataVersion = db.dataVersion();
const seals = new SealedState(db, keyring, verified);
const marker = new VersionMarker(db, marks);
const billing = new Billing(db.tx, processId, new PriceBooks(priceBooks), {
  seals,
  classDays: async (tenant, name) => (await readClassTerms(db.tx, tenant, name)).minimum.days,
});
const levels = await StoredLevels.open(db);
const recentUse = new RecentUse();
const log = await RecordLog.open(db.tx, (draft, seal) => {
  recentUse.note(seal.index, useOf(draft, seal));
});
const signing = new LogSigning();
const rights = new RightsEpoch();
/**
 * Of the newest record. It may be later than the clock says: then records keep it until that is
 * past.
 */
let lastTimeMs = await readLastTime(db.tx);
/** Of each request in its turn: only its time is another. */
const context: MaintenanceContext = {
  ...{ timeMs: lastTimeMs, process: processId, keyring, billing, log, recentUse, signing, levels },
  onAltered: (altered) => send({ altered }),
  onUnsealed: (unsealed) => send({ unsealed }),
};
/** How long the commits of the batch took that is being applied. */
let committedMs = 0;
let toldUnwrittenMs = Number.NEGATIVE_INFINITY;

/** When the first batch began that no signature covers yet; null: there is none. */
let unsignedSinceMs: number | null = null;
let signTimer: NodeJS.Timeout | null = null;
let accountsTimer: NodeJS.Timeout | null = null;
let isApplying = false;
let closing = false;

const ends = new LedgerEnds(told, (requests) => applyNext(requests).catch(stop), signSoon);
port.on('message', (message: ToWorker) => {
  if ('close' in message) close().catch(stop);
  else if ('end' in message) ends.add(message.end);
});
// An erasure may have been the last thing that an earlier run did.
forgetPages();
await takeRecordedCharges();
await writeOffLeases();
send({ ready: true, unsealed: verified.unsealed });
const watch = setInterval(noticeOthers, watchEachMs);

async function applyNext(
  requests: LedgerRequest[],
): Promise<{ answers: LedgerAnswer[]; appliedMs: number; committedMs: number }> {
  const begunMs = monotonicMs();
  committedMs = 0;
  isApplying = true;
  const overwrites = requests.some(leavesNothing);
  if (overwrites) db.exec('PRAGMA secure_delete = ON');
  const answers = await applyBatch(requests);
  isApplying = false;
  const appliedMs = monotonicMs() - begunMs;
  if (overwrites) db.exec('PRAGMA secure_delete = FAST');
  if (requests.some(isErasure)) forgetPages();
  if (requests.length > 0) unsignedSinceMs ??= begunMs;
  if (billing.accounts.hasUnwritten) writeAccountsSoon();
  return { answers, appliedMs, committedMs };
}

/** Only this thread writes. Where somebody else did, all is to be verified again. */
function noticeOthers(): void {
  const now = db.dataVersion();
  if (now === dataVersion) return;
  dataVersion = now;
  send({ touched: true });
}

/** Who stops has nothing under way, but accounts may have to be written. */
async function close(): Promise<void> {
  closing = true;
  clearInterval(watch);
  if (accountsTimer !== null) clearTimeout(accountsTimer);
  await ends.applyNothing();
  if (signTimer !== null) clearTimeout(signTimer);
  if (!isApplying) signCheckpoint();
  db.close();
  ends.close();
  port?.close();
}

/** Of these, a record says whom they charged what (quota/roll-up/charged-record.ts). */
const toldChanges: ReadonlySet<Change['kind']> = new Set([
  'none',
  'putObject',
  'copyObject',
  'deleteObject',
]);

/** What it takes out of the database must not stay in a free page of it. */
function leavesNothing(request: LedgerRequest): boolean {
  return request.kind === 'archiveTile' || isErasure(request);
}

/** With a tenant goes the secret that its bytes are encrypted under. */
const erasures: ReadonlySet<Change['kind']> = new Set(['eraseRecords', 'deleteTenant']);

function isErasure(request: LedgerRequest): boolean {
  return request.kind === 'commit' && erasures.has(request.commit.change.kind);
}

/**
 * Whoever reads for long, as a verification does, must not hold up everybody: it is tried again.
 */
function forgetPages(): void {
  if (!closing && !emptyLog()) setTimeout(forgetPages, forgetAgainMs).unref();
}

/** Where the database cannot be written, the pages stay in the log, from which it is read. */
function emptyLog(): boolean {
  try {
    return db.emptyLog(readersMsMax);
  } catch (cause) {
    if (!isUnwritten(cause)) throw cause;
    tellFailure(cause);
    return false;
  }
}

/** All in one transaction; if that fails, each in its own, so that one fails without the others. */
async function applyBatch(requests: LedgerRequest[]): Promise<LedgerAnswer[]> {
  await db.tx.run('BEGIN IMMEDIATE');
  const answers: LedgerAnswer[] = [];
  let alarms: Alarm[];
  try {
    for (const request of requests) {
      // What this one reads of records has those of the requests before it.
      if (log.isHeld) await log.write();
      answers.push(await applyRequest(request));
    }
    alarms = await settleAccounts(requests.length === 0 || !requests.every(tellsCharges));
    await commit();
    marker.settle();
  } catch (cause) {
    billing.discard();
    seals.discard();
    rights.discard();
    recentUse.discard();
    rollback();
    marker.settle();
    await discardLog();
    await levels.discard();
    await billing.accounts.postAgain();
    return recover(requests, cause);
  }
  beginEpochs(keyring, requests, answers);
  rights.settle();
  seals.settle();
  billing.accounts.settle();
  levels.settle();
  await signing.settle(db.tx);
  if (alarms.length > 0) send({ alarms });
  return answers;
}

/**
 * Throws only when SQLite's log could not be written: its last frame, which makes a transaction
 * one, is not there, so there is none, and the next one is written in the same place. After any
 * other error, that of an fsync above all, nobody knows.
 */
async function commit(): Promise<void> {
  const begunMs = monotonicMs();
  try {
    await db.tx.run('COMMIT');
    committedMs += monotonicMs() - begunMs;
  } catch (cause) {
    if (!isUnwritten(cause)) stop(cause);
    throw cause;
  }
}

async function applyRequest(request: LedgerRequest): Promise<LedgerAnswer> {
  if (request.kind === 'commit' && request.commit.change.kind === 'confirmClock') {
    steadyClock.confirm();
  }
  // Records are in order of time even when the clock is set back.
  tick();
  context.timeMs = lastTimeMs;
  if (request.kind === 'commit') return applyDecided(request.commit);
  if (request.kind === 'draw') {
    return { ok: true, drawn: await billing.accounts.draw(request, lastTimeMs) };
  }
  const touched = await applyMaintenance(db.tx, request, context);
  const changed = levels.take();
  if (changed) await billing.countLevels(changed, lastTimeMs);
  return { ok: true, touched };
}

/** Unless what it was decided by has changed. */
async function applyDecided(commit: Commit): Promise<CommitResult> {
  const refused = rights.refuse(commit);
  if (refused) return refused;
  const result = await applyCommit(db.tx, commit, context);
  if (!result.ok) return result;
  const epoch = rights.note(commit);
  const taken = takenFrom(commit.change, commit.record);
  return epoch === undefined || taken === null ? result : { ...result, epoch, taken };
}

function tick(): void {
  const nowMs = steadyClock.nowMs();
  lastTimeMs = Math.max(lastTimeMs, nowMs);
  billing.accounts.aheadMs = lastTimeMs - nowMs;
}

/** Nobody waits for it. What is durable is signed: not within a batch, whose end does it. */
function signSoon(): void {
  if (isApplying) return;
  const waitMs = signing.waitMs(monotonicMs());
  if (waitMs === 0) {
    if (signTimer !== null) clearTimeout(signTimer);
    signTimer = null;
    signCheckpoint();
    return;
  }
  signTimer ??= setTimeout(() => {
    signTimer = null;
    signSoon();
  }, waitMs);
}

function signCheckpoint(): void {
  if (unsignedSinceMs === null) return;
  const checkpoint = signing.sign(log, lastTimeMs);
  if (checkpoint !== null) send({ checkpoint, sinceAppendMs: monotonicMs() - unsignedSinceMs });
  unsignedSinceMs = null;
}

/** The tables are right: they are what was committed. */
async function discardLog(): Promise<void> {
  try {
    await log.discard();
    await signing.settle(db.tx);
  } catch (cause) {
    stop(cause);
  }
}

/** What earlier runs had set aside when they died counts as used, before anybody is served. */
async function writeOffLeases(): Promise<void> {
  for (let writtenOff = 1; writtenOff > 0; ) {
    db.exec('BEGIN IMMEDIATE');
    tick();
    writtenOff = await billing.accounts.writeOffLeases(writtenOffMax, lastTimeMs);
    await settleAccounts(true);
    db.exec('COMMIT');
    seals.settle();
    billing.accounts.settle();
  }
}

/** What an earlier run recorded when it died, and the rows of accounts do not have. */
async function takeRecordedCharges(): Promise<void> {
  const from = verified.roots.chargedOf(log.size);
  if (from === log.size) return;
  db.exec('BEGIN IMMEDIATE');
  const { records } = await readTrueRecords(db.tx, from, log.size - from);
  for (const text of records) {
    const record = JSON.parse(text) as ChargedRecord;
    const draws = partsOfRecord(record).map(({ account, ...amounts }) => ({
      accounts: [account],
      amounts: { ...amounts, spend: Number(amounts.spend) },
    }));
    await billing.accounts.postRecorded(draws, Date.parse(record.time));
  }
  await settleAccounts(true);
  db.exec('COMMIT');
  seals.settle();
  billing.accounts.settle();
}

function writeAccountsSoon(): void {
  accountsTimer ??= setTimeout(() => {
    accountsTimer = null;
    if (billing.accounts.hasUnwritten) ends.applyNothing().catch(stop);
  }, accountsMsMax);
}

/**
 * Whether its record says all that it charges, so that the rows of accounts can wait
 * (`takeRecordedCharges`).
 */
function tellsCharges(request: LedgerRequest): boolean {
  if (request.kind === 'draw') return true;
  if (request.kind !== 'commit') return false;
  const { change, folds, backend } = request.commit;
  return !folds && !backend && toldChanges.has(change.kind);
}

/**
 * Writes what was charged and what the log's tree has come to, before each commit. Alarms come
 * last: what they tell of has its index. `mustWrite`: accounts, too, whatever they say.
 */
async function settleAccounts(mustWrite: boolean): Promise<Alarm[]> {
  const reached = billing.accounts.takeReached();
  const alarms = await raiseAlarms(db.tx, reached, { log, timeMs: lastTimeMs });
  const withAccounts = mustWrite || billing.accounts.isUrgent;
  await billing.flush({ withAccounts });
  await seals.flush(log, { withAccounts });
  return alarms;
}

async function recover(requests: LedgerRequest[], cause: unknown): Promise<LedgerAnswer[]> {
  const [only] = requests;
  if (requests.length > 1) return applyOneByOne(requests);
  if (!(cause instanceof UnsealedRow)) tellFailure(cause);
  if (only === undefined) return [];
  if (isUnwritten(cause)) return [unwritten];
  if (cause instanceof UnsealedRow) return [await refuseUnsealed(only, cause)];
  return [{ ok: false, code: 'InternalError', index: null }];
}

/**
 * What came upon a row that is not authentic changes nothing and is charged nothing; it is
 * recorded.
 */
async function refuseUnsealed(
  request: LedgerRequest,
  { unsealed }: UnsealedRow,
): Promise<LedgerAnswer> {
  send({ unsealed });
  const code = 'BursarIntegrityError';
  const isRecord =
    request.kind === 'commit' && !request.commit.charge && isNoChange(request.commit);
  if (request.kind !== 'commit' || isRecord) return { ok: false, code, index: null };
  const record = { ...request.commit.record, status: statusOf(code), error: code };
  const commit: Commit = { change: { kind: 'none' }, charge: null, record };
  const [recorded] = await applyBatch([{ kind: 'commit', commit }]);
  return { ok: false, code, index: recorded && 'index' in recorded ? recorded.index : null };
}

function isNoChange({ change }: Commit): boolean {
  return change.kind === 'none';
}

async function applyOneByOne(requests: LedgerRequest[]): Promise<LedgerAnswer[]> {
  const answers: LedgerAnswer[] = [];
  let isHopeless = false;
  for (const request of requests) {
    const isRecord = request.kind === 'commit' && request.commit.change.kind === 'none';
    // Nothing takes less room than a record by itself.
    const answer: LedgerAnswer[] =
      isRecord && isHopeless ? [unwritten] : await applyBatch([request]);
    isHopeless ||= isRecord && answer[0] === unwritten;
    answers.push(...answer);
  }
  return answers;
}

/** Where the disk takes nothing, once a second: each commit would say the same. */
function tellFailure(cause: unknown): void {
  const nowMs = monotonicMs();
  if (isUnwritten(cause)) {
    if (nowMs - toldUnwrittenMs < untoldMs) return;
    toldUnwrittenMs = nowMs;
  }
  send({ failed: describe(cause) });
}

function rollback(): void {
  try {
    db.rollback();
  } catch (cause) {
    stop(cause);
  }
}

function stop(cause: unknown): never {
  send({ fatal: describe(cause) });
  process.exit(1);
}

function send(message: FromWorker): void {
  port?.postMessage(message);
}

function describe(cause: unknown): string {
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}

/** No room, a quota, a file system that was made read-only, or a disk that refuses to write. */
function isUnwritten(cause: unknown): boolean {
  const { code } = cause as { code?: string };
  return code === 'SQLITE_FULL' || code === 'SQLITE_IOERR_WRITE';
}

async function readLastTime(read: Reader): Promise<number> {
  const sql = 'SELECT time_ms AS timeMs FROM records ORDER BY idx DESC LIMIT 1';
  return (await read.get<{ timeMs: number }>(sql))?.timeMs ?? 0;
}
