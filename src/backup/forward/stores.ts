// The S3 stores that a restored database is rolled forward by: what their journals are, and that they are
// its own from now on. Invariants: a store is taken only when its journal opens and is of the store that
// the database has under its name; whoever wrote there before finds the mark of another owner before the
// first of its journal is read here, so what it acknowledges after that is nothing that is read too late.
import { setTimeout as sleep } from 'node:timers/promises';
import { listStores, readInstance, readJournal } from '../../catalog/stores.ts';
import type { Reader } from '../../core/database.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { Sealer } from '../../core/sealing.ts';
import { nameGeneration } from '../../ledger/rebuild/rebuild.ts';
import { findJournal } from '../../ledger/rebuild/replay.ts';
import type { RebuiltStore } from '../../ledger/rebuild/work.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { StoreGate } from '../../tiering/stores/store-gate.ts';
import { claimStore, findClaim } from '../../tiering/stores/store-owner.ts';
import { BackupFailure } from '../place.ts';

/** A store, and what the database knows of it. */
export interface ForwardStore extends RebuiltStore {
  /** The database has written this very journal, and knows what it has not told yet. */
  isOwnJournal: boolean;
  /** Null: the database does not know the store. */
  known: { generation: string | null } | null;
}

interface Finding {
  stores: readonly RemoteStore[];
  read: Reader;
  keyring: Keyring;
  sealer: Sealer;
}

/** By name; throws `BackupFailure`. Nothing is changed. */
export async function findForwardStores(
  options: Finding,
): Promise<{ found: ForwardStore[]; empty: string[] }> {
  const { stores, read, keyring, sealer } = options;
  const rows = await listStores(read);
  const found: ForwardStore[] = [];
  const empty: string[] = [];
  for (const store of stores) {
    const { name } = store;
    const row = rows.find((one) => one.name === name);
    const claim = await findClaim(store, sealer);
    if (claim === 'foreign') {
      throw new BackupFailure(`store ${name} has the mark of another gateway, or a damaged one`);
    }
    const marked = typeof claim === 'string' ? null : claim.store;
    const number = row?.number ?? marked;
    const journal = await findJournal({ store, keyring, number }, undefined);
    const known = row ? await readJournal(read, row.number) : null;
    if (!journal) {
      if (known?.generation != null || marked !== null) throw new BackupFailure(explainNone(name));
      empty.push(name);
      continue;
    }
    const other = rows.find((one) => one.number === journal.begin.store && one.name !== name);
    if (other || (row && journal.begin.store !== row.number)) {
      throw new BackupFailure(
        `store ${name} has the journal of store ${journal.begin.store}, which the backup knows as ${other?.name ?? 'another'}: are the settings swapped?`,
      );
    }
    const gate = new StoreGate({ number: journal.begin.store, name, reason: '' });
    gate.open(store);
    found.push({
      store: gate,
      journal: journal.report,
      begin: journal.begin,
      snapshotMs: null,
      newGeneration: nameGeneration(journal.newestGeneration),
      isOwnJournal: known?.generation === journal.report.generation,
      known,
    });
  }
  return { found, empty };
}

function explainNone(name: string): string {
  return `no journal under these keys is in store ${name}: it was emptied, or the settings lead elsewhere`;
}

/** A gateway that wrote there finds out with its next segment, at most so long after a change. */
const noticedMs = 3000;

/** From here on they belong to this database, and a gateway that still serves them leaves them alone. */
export async function fence(
  stores: readonly ForwardStore[],
  { read, sealer }: Pick<Finding, 'read' | 'sealer'>,
): Promise<void> {
  if (stores.length === 0) return;
  const instance = await readInstance(read);
  for (const { store } of stores) {
    const claim = { instance, store: store.number };
    const owner = await claimStore(store, sealer, claim, { takeOver: true });
    if (owner !== 'us') throw new BackupFailure(`store ${store.name} was taken by another restore`);
  }
  await sleep(noticedMs);
}
