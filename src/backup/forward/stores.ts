// The S3 stores that a restored database is rolled forward by: what their journals are, and that
// they are its own from now on. Invariants: a store is taken only when its journal opens and is of
// the store that the database has under its name; whoever wrote there before finds the mark of
// another owner before the first of its journal is read here, so what it acknowledges after that is
// nothing that is read too late.

import { setTimeout as sleep } from 'node:timers/promises';
import { type JournalObjectRow, listJournalObjects } from '../../catalog/journal-objects.ts';
import { type KnownJournal, listStores, readInstance, readJournal } from '../../catalog/stores.ts';
import { WorkFailure } from '../../core/command-failure.ts';
import type { Reader } from '../../core/database.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { Sealer } from '../../core/sealing.ts';
import { beginName, objectName, snapshotOf } from '../../ledger/journal/format.ts';
import { compareGenerations, listGeneration } from '../../ledger/journal/generation.ts';
import { nameGeneration } from '../../ledger/rebuild/rebuild.ts';
import { type FoundJournal, findJournal } from '../../ledger/rebuild/replay.ts';
import { newJournalReport } from '../../ledger/rebuild/report.ts';
import type { RebuiltStore } from '../../ledger/rebuild/work.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { StoreGate } from '../../tiering/stores/store-gate.ts';
import { claimStore, findClaim } from '../../tiering/stores/store-owner.ts';

/** A store, and what the database knows of it. */
export interface ForwardStore extends RebuiltStore {
  /** The database has written this very journal, and knows what that has to tell up to then. */
  isOwnJournal: boolean;
  /** Up to this change the database knows all of the store; -1: its numbers are others. */
  databaseSeq: number;
  /** Null: the database does not know the store. */
  known: { generation: string | null } | null;
}

interface Finding {
  stores: readonly RemoteStore[];
  read: Reader;
  keyring: Keyring;
  sealer: Sealer;
  /** What the database was before it was restored. */
  instance: string;
}

/** Finds them by name. Changes nothing. Throws `WorkFailure`. */
export async function findForwardStores(
  options: Finding,
): Promise<{ found: ForwardStore[]; empty: string[] }> {
  const { stores, read, keyring, sealer, instance } = options;
  const rows = await listStores(read);
  const forwarded: ForwardStore[] = [];
  const empty: string[] = [];
  for (const store of stores) {
    const { name } = store;
    const row = rows.find((one) => one.name === name);
    const claim = await findClaim(store, sealer);
    if (claim === 'foreign') {
      throw new WorkFailure(`store ${name} has the mark of another gateway, or a damaged one`);
    }
    const marked = typeof claim === 'string' ? null : claim.store;
    const number = row?.number ?? marked;
    const known = row ? await readJournal(read, row.number) : null;
    const found = await findJournal({ store, keyring, number }, undefined);
    const own = row && known && { number: row.number, ...known, marked, instance };
    const journal = await knownJournal(read, store, found, own);
    if (!journal) {
      if (known?.generation != null || marked !== null) throw new WorkFailure(explainNone(name));
      empty.push(name);
      continue;
    }
    const other = rows.find((one) => one.number === journal.begin.store && one.name !== name);
    if (other || (row && journal.begin.store !== row.number)) {
      throw new WorkFailure(
        `store ${name} has the journal of store ${journal.begin.store}, which the backup ` +
          `knows as ${other?.name ?? 'another'}: are the settings swapped?`,
      );
    }
    const gate = new StoreGate({ number: journal.begin.store, name, reason: '' });
    gate.open(store);
    const isOwnJournal = known?.generation === journal.report.generation;
    const written = isOwnJournal ? await listJournalObjects(read, gate.number) : [];
    if (isOwnJournal) journal.report.toldSeq = toldIn(written, known.journaledSeq);
    forwarded.push({
      ...{ store: gate, journal: journal.report, begin: journal.begin, isOwnJournal, written },
      ...{ snapshotMs: null, snapshotSeq: 0, toldSeq: -1, databaseSeq: -1, known },
      newGeneration: nameGeneration(journal.newestGeneration),
    });
  }
  return { found: forwarded, empty };
}

/** The last change that is sure to be in a journal. Of one that 0.1.0 wrote there is no list. */
function toldIn(written: readonly JournalObjectRow[], journaledSeq: number): number {
  if (written.length === 0) return journaledSeq;
  const told = written.map(({ name, lastSeq }) => lastSeq ?? (snapshotOf(name)?.beginSeq ?? 0) - 1);
  return told.reduce((most, one) => Math.max(most, one), -1);
}

interface OwnJournal extends KnownJournal {
  number: number;
  instance: string;
  /** The store of the mark of the owner; null: there is none. */
  marked: number | null;
}

/**
 * The journal that was found; or that which the database itself has written, where it is newer: its
 * marker is gone then, maybe more, and an older journal that was put back says nothing of what came
 * after it. Undefined where nothing shows that the store is the one that the database knows.
 */
async function knownJournal(
  read: Reader,
  store: RemoteStore,
  found: FoundJournal | undefined,
  own: OwnJournal | undefined | null,
): Promise<FoundJournal | undefined> {
  if (!own || own.generation === null) return found;
  const { generation, number, marked, instance } = own;
  if (found && compareGenerations(found.report.generation, generation) >= 0) return found;
  const { segments, snapshots } = await listGeneration(store, generation);
  const isThere =
    found !== undefined ||
    marked === number ||
    segments.length + snapshots.length > 0 ||
    (await hasAnyExtent(read, store, number));
  if (!isThere) return undefined;
  const name = objectName({ generation, name: beginName });
  const report = { ...newJournalReport(store.name, generation), missing: [name] };
  const begin = { kind: 'begin', store: number, name: store.name, losses: 0, timeMs: 0 } as const;
  return { store, report, begin: { ...begin, instance }, newestGeneration: generation };
}

/** At most so many extents are looked for. */
const extentsTried = 1000;

/** Whether the store has an extent that the database knows to be there. */
async function hasAnyExtent(read: Reader, store: RemoteStore, number: number): Promise<boolean> {
  let tried = 0;
  for await (const { id } of store.list()) {
    const sql = `SELECT 1 FROM extents WHERE id = ? AND store = ?
      UNION ALL SELECT 1 FROM extent_copies WHERE extent_id = ? AND store = ? AND state >= 1`;
    if (await read.get(sql, id, number, id, number)) return true;
    if (++tried === extentsTried) return false;
  }
  return false;
}

function explainNone(name: string): string {
  return (
    `no journal under these keys is in store ${name}: it was emptied, or the settings lead ` +
    'elsewhere'
  );
}

/**
 * A gateway that wrote there notices with its next segment, which comes at most this long after a
 * change.
 */
const noticedMs = 3000;

/**
 * From here on they belong to this database, and a gateway that still serves them leaves them
 * alone.
 */
export async function fence(
  stores: readonly ForwardStore[],
  { read, sealer }: Pick<Finding, 'read' | 'sealer'>,
): Promise<void> {
  if (stores.length === 0) return;
  const instance = await readInstance(read);
  for (const { store } of stores) {
    const claim = { instance, store: store.number };
    const owner = await claimStore(store, sealer, claim, { takeOver: true });
    if (owner !== 'us') throw new WorkFailure(`store ${store.name} was taken by another restore`);
  }
  await sleep(noticedMs);
}
