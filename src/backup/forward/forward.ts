// Rolls a restored database forward by the S3 stores that went on after its backup: by their
// journals, and by the extents of what these do not tell yet, so that no acknowledged write is
// missing whose bytes are in such a store. Invariants: a store belongs to the restored database
// before anything of it is read; each difference is a commit of the ledger, with its record; and a
// store's new journal counts only when it tells all of the database, so that the store ends ready
// and writable. A restore that dies can be run again.

import type { Reader } from '../../core/database.ts';
import { removeDatabase } from '../../core/database.ts';
import { Keyring } from '../../core/keyring.ts';
import { releaseHeldRun } from '../../ledger/held-upkeep.ts';
import { removeEarlierGenerations } from '../../ledger/journal/generation.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import {
  type CommitOne,
  committer,
  type TryCommit,
  tryCommitter,
} from '../../ledger/rebuild/committer.ts';
import { stage, takeOver, tellCost } from '../../ledger/rebuild/rebuild.ts';
import { isWhole, newReport } from '../../ledger/rebuild/report.ts';
import { enterOthers } from '../../ledger/rebuild/restore.ts';
import { chooseInstance } from '../../ledger/rebuild/staged-identities.ts';
import { type StagedExtent, Staging } from '../../ledger/rebuild/staging.ts';
import type { RebuildOptions, Work } from '../../ledger/rebuild/work.ts';
import { mustBeTold, stageDatabase } from './database.ts';
import { ForwardIdentities, stageIdentities } from './identities.ts';
import { forwardBuckets, forwardVersions } from './objects.ts';
import type { ForwardReport } from './report.ts';
import { type ForwardStore, fence, findForwardStores } from './stores.ts';

export interface ForwardOptions extends Omit<RebuildOptions, 'generation'> {
  /** The instance of the database before the restore, as its journals name it. */
  instance: string;
  /** The restored database, which no gateway serves yet. */
  ledger: Ledger;
  read: Reader;
}

/** What is counted on the way, also for `isWhole`. */
type Counted = Pick<
  ForwardReport,
  | ('ended' | 'amended' | 'configured' | 'removed' | 'abortedUploads' | 'buckets')
  | ('versions' | 'versionBytes' | 'tenants' | 'principals' | 'fromExtents' | 'lost')
  | ('snapshots' | 'heldVersions' | 'deletedSnapshots')
>;

/** The state that the steps share. */
export interface Forward {
  work: Work;
  stores: readonly ForwardStore[];
  read: Reader;
  attempt: TryCommit;
  commit: CommitOne;
  report: Counted & { compared: number };
}

export interface RolledForward {
  report: ForwardReport;
  /**
   * To be called when the database has its name: removes the older generations that the stores' new
   * journals replace.
   */
  settle(): Promise<void>;
}

/** Throws `WorkFailure`, or what a store throws that does not answer. */
export async function rollForward(options: ForwardOptions): Promise<RolledForward> {
  const { stores, read, rootKeys, sealer, databaseFile, ledger } = options;
  const keyring = new Keyring(rootKeys);
  const { instance } = options;
  const finding = { stores, read, keyring, sealer, instance };
  const { found, empty } = await findForwardStores(finding);
  await fence(found, { read, sealer });
  const stagingFile = `${databaseFile}.staging`;
  removeDatabase(stagingFile);
  const staging = Staging.open(stagingFile);
  const report = Object.assign(newReport(), noChanges());
  report.journals.push(...found.map(({ journal }) => journal));
  const known = (extent: StagedExtent) => mustBeTold(read, extent);
  const base = { ...options, generation: undefined, keyring, staging, report };
  const work: Work = { ...base, mustBeTold: known };
  const telling = chooseInstance(found, undefined);
  const own = found.filter(({ isOwnJournal }) => isOwnJournal);
  let isOwn = false;
  try {
    work.prices.enter(found.map(({ store }) => store));
    await stage(work, found, async ({ store }) => {
      const one = own.find((known) => known.store === store);
      if (!one) return undefined;
      await stageDatabase(work, read, one);
      if (telling !== instance || one !== own[0]) return undefined;
      const known = await stageIdentities(work, read, own);
      isOwn = known !== undefined;
      return known;
    });
    for (const { store, known, newGeneration: generation } of found) {
      const { number, name } = store;
      await ledger.maintain(
        known
          ? { kind: 'beginGeneration', store: number, generation }
          : { kind: 'restoreStore', number, name, generation },
      );
    }
    const attempt = tryCommitter({ ledger, read }, work.prices, 'bursar restore');
    const commit = committer(attempt);
    const forward: Forward = { work, stores: found, read, attempt, commit, report };
    const isTold = telling !== undefined;
    const identities = new ForwardIdentities({ work, read, commit: attempt, isOwn, isTold });
    await identities.bringPeople();
    await forwardVersions(forward, await forwardBuckets(forward));
    await releasePassed(forward, ledger);
    await identities.bringRights();
    await enterOthers(work, { ledger, read, stores: found });
    for (const one of found) await takeOver(work, { ledger, read }, one);
    await tellCost(work, ledger, found, 'bursar restore');
  } finally {
    staging.close();
    removeDatabase(stagingFile);
  }
  const whole = isWhole(report);
  const { compared: _, recordPacks: _2, ownerlessBuckets: _4, ...told } = report;
  return {
    report: { ...told, empty, isWhole: whole },
    settle: async () => {
      // While something is missing, earlier generations of the journal stay, so that an operator
      // can try again.
      if (!whole) return;
      for (const { store, newGeneration } of found) {
        await removeEarlierGenerations(store, newGeneration, () => {});
      }
    },
  };
}

/** What was let go of after the backup, or was to be, is not in the stores any more. */
async function releasePassed({ read, work }: Forward, ledger: Ledger): Promise<void> {
  const release = releaseHeldRun({
    ...{ read, ledger, bookOf: (store) => work.prices.bookOf(store).name, isAlone: true },
    onError: (error) => {
      throw error;
    },
  });
  await release(new AbortController().signal);
}

function noChanges() {
  return {
    ended: 0,
    amended: 0,
    configured: 0,
    removed: 0,
    deletedSnapshots: 0,
    abortedUploads: 0,
    compared: 0,
  };
}
