// Rolls a restored database forward by the S3 stores that went on after its backup: by their journals, and
// by the extents of what these do not tell yet, so that no acknowledged write is missing whose bytes are in
// such a store. Invariants: a store belongs to the restored database before anything of it is read; each
// difference is a commit of the ledger, with its record; and a store's new journal counts only when it tells
// all of the database, so that the store ends ready and writable. A restore that dies can be run again.
import { rmSync } from 'node:fs';
import type { Reader } from '../../core/database.ts';
import { Keyring } from '../../core/keyring.ts';
import { removeEarlierGenerations } from '../../ledger/journal/generation.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import {
  type CommitOne,
  committer,
  type TryCommit,
  tryCommitter,
} from '../../ledger/rebuild/committer.ts';
import { RebuildFailure, stage, takeOver, tellCost } from '../../ledger/rebuild/rebuild.ts';
import { isWhole, type Listed, newReport, type ObjectName } from '../../ledger/rebuild/report.ts';
import { enterOthers } from '../../ledger/rebuild/restore.ts';
import { restoreRevocation } from '../../ledger/rebuild/restore-identities.ts';
import { Staging } from '../../ledger/rebuild/staging.ts';
import type { RebuildOptions, Work } from '../../ledger/rebuild/work.ts';
import { BackupFailure } from '../place.ts';
import { forwardBuckets } from './buckets.ts';
import { stageDatabase } from './database.ts';
import type { ForwardReport } from './report.ts';
import { type ForwardStore, fence, findForwardStores } from './stores.ts';
import { forwardVersions } from './versions.ts';

export interface ForwardOptions extends Omit<RebuildOptions, 'generation' | 'withKeys'> {
  /** Of the restored database, which nobody serves. */
  ledger: Ledger;
  read: Reader;
}

/** What the steps share. */
export interface Forward {
  work: Work;
  stores: readonly ForwardStore[];
  read: Reader;
  commit: CommitOne;
  report: {
    ended: number;
    amended: number;
    configured: number;
    removed: number;
    abortedUploads: number;
    compared: number;
    /** Those of the rebuild's, which `isWhole` goes by. */
    buckets: number;
    versions: number;
    versionBytes: number;
    tenants: string[];
    principals: string[];
    fromExtents: Listed<ObjectName>;
    lost: Listed<ObjectName & { reason: string }>;
  };
}

export interface RolledForward {
  report: ForwardReport;
  /** When the database has its name: removes what the stores' new journals tell anew. */
  settle(): Promise<void>;
}

/** Throws `BackupFailure`, or what a store throws that does not answer. */
export async function rollForward(options: ForwardOptions): Promise<RolledForward> {
  const { stores, read, rootKeys, sealer, databaseFile, ledger } = options;
  const keyring = new Keyring(rootKeys);
  const { found, empty } = await findForwardStores({ stores, read, keyring, sealer });
  await fence(found, { read, sealer });
  const stagingFile = `${databaseFile}.staging`;
  const removeStaging = () => {
    for (const end of ['', '-wal', '-shm']) rmSync(stagingFile + end, { force: true });
  };
  removeStaging();
  const staging = Staging.open(stagingFile);
  const report = Object.assign(newReport(), noChanges());
  report.journals.push(...found.map(({ journal }) => journal));
  const asRebuild = { generation: undefined, withKeys: false };
  const work: Work = { ...options, ...asRebuild, keyring, staging, report };
  try {
    work.prices.enter(found.map(({ store }) => store));
    await stage(work, found, async (one) => {
      const own = found.find(({ store, isOwnJournal }) => isOwnJournal && store === one.store);
      if (own) await stageDatabase(work, read, own);
    });
    for (const { store, known, newGeneration: generation } of found) {
      const { number, name } = store;
      await ledger.keepHouse(
        known
          ? { kind: 'beginGeneration', store: number, generation }
          : { kind: 'restoreStore', number, name, generation },
      );
    }
    const attempt = tryCommitter(ledger, work.prices, 'bursar restore');
    const commit = committer(attempt);
    const forward: Forward = { work, stores: found, read, commit, report };
    await forwardVersions(forward, await forwardBuckets(forward));
    report.revocations = await revokeAgain(work, read, attempt);
    await enterOthers(work, { ledger, stores: found });
    for (const one of found) await takeOver(work, { ledger, read }, one);
    await tellCost(work, ledger, found, 'bursar restore');
  } catch (error) {
    if (error instanceof RebuildFailure) throw new BackupFailure(error.message, { cause: error });
    throw error;
  } finally {
    staging.close();
    removeStaging();
  }
  const whole = isWhole(report);
  const { compared: _, recordPacks: _2, identities: _3, ownerlessBuckets: _4, ...told } = report;
  return {
    report: { ...told, empty, isWhole: whole },
    settle: async () => {
      // Who wants to try again what was lost needs the journal that tells of it.
      if (!whole) return;
      for (const { store, newGeneration } of found) {
        await removeEarlierGenerations(store, newGeneration, () => {});
      }
    },
  };
}

/** What was revoked after the backup, as far as the journals tell. */
async function revokeAgain(work: Work, read: Reader, commit: TryCommit): Promise<number> {
  let revoked = 0;
  for await (const entry of work.staging.identities.list('revocation')) {
    if (await read.get('SELECT 1 FROM revocations WHERE id = ?', entry.name)) continue;
    await restoreRevocation({ work, commit, isDoubtful: false }, entry);
    revoked++;
  }
  return revoked;
}

function noChanges() {
  return {
    ended: 0,
    amended: 0,
    configured: 0,
    removed: 0,
    abortedUploads: 0,
    compared: 0,
    revocations: 0,
  };
}
