// Restores what was staged, through the ledger and in the order in which it was made. Invariant: a
// version is restored only when each extent that it names is listed in its bucket's store with the
// very size that the manifest says.

import { sealObject } from '../../catalog/authentic.ts';
import type { Reader } from '../../core/database.ts';
import { inParallel } from '../../core/in-parallel.ts';
import { countBytes, decodeManifest, type ExtentRun } from '../../core/manifest.ts';
import { isOwnClass } from '../../core/own-class.ts';
import { principalId } from '../../core/principal.ts';
import { sealedBytes } from '../../tiering/chunk-format.ts';
import type { IdentityChange } from '../commands/identities.ts';
import { accountOf, type Change } from '../commands/index.ts';
import { snapshotTarget } from '../held-upkeep.ts';
import type { VersionEntry } from '../journal/format.ts';
import type { Ledger } from '../ledger.ts';
import {
  type About,
  type CommitOne,
  committer,
  refusedError,
  type TryCommit,
  tryCommitter,
} from './committer.ts';
import { isWhole } from './report.ts';
import { readMode, restorePeople, restoreRights } from './restore-identities.ts';
import type { KeptStep } from './staged-kept.ts';
import type { StagedBucket, Staging } from './staging.ts';
import type { RebuiltStore, Work } from './work.ts';

/** Commits that wait together: enough to fill the ledger's batches. */
const commitsAtOnce = 500;

interface Target {
  ledger: Ledger;
  read: Reader;
  stores: readonly RebuiltStore[];
}

export async function restoreAll(work: Work, target: Target): Promise<void> {
  const attempt = tryCommitter(target, work.prices);
  const commit = committer(attempt);
  await commit({ kind: 'none' }, { action: 'bursar:Rebuild', target: namesOf(target.stores) });
  const buckets = await work.staging.listBuckets();
  const isDoubtful = work.report.identities.doubtful;
  const restoring = { work, commit: attempt, isDoubtful };
  await restorePeople(restoring);
  await restoreOwners(work, { buckets, isDoubtful }, commit);
  for (const { kind: _, documents, ...bucket } of buckets) {
    const { policy = null, ...settings } = documents;
    const recordReads = readMode(bucket.recordReads);
    const restored = { ...bucket, policy, recordReads };
    const change = { kind: 'restoreBucket', bucket: restored, settings } as const;
    await commit(change, { action: 'bursar:RestoreBucket', bucket });
    work.report.buckets++;
  }
  await restoreRights(restoring);
  const byId = new Map(buckets.map((bucket) => [bucket.id, bucket]));
  // They are handed to the ledger in order, which applies them in order.
  const redoing: Redoing = {
    buckets: byId,
    doneSeq: () => -1,
    make: (bucket, version, told) => makeStep(work, bucket, version, told),
  };
  await inParallel(listSteps(work, redoing), commitsAtOnce, (step) => step(attempt, commit));
  await enterOthers(work, target);
}

/**
 * Of the buckets' tenants and owners those of whom the journals told nothing: tenants whose members
 * may create no buckets, and members without access keys, who are not active where they may have
 * been changed.
 */
async function restoreOwners(
  { report, staging }: Work,
  { buckets, isDoubtful }: { buckets: readonly StagedBucket[]; isDoubtful: boolean },
  commit: CommitOne,
): Promise<void> {
  const madeMs = Date.now();
  for (const name of new Set(buckets.map(({ tenant }) => tenant))) {
    if (report.tenants.includes(name) || (await staging.identities.has('tenant', name, '')))
      continue;
    const members = { membersCreateBuckets: false, membersMountBuckets: false };
    const change = { kind: 'createTenant', name, ...members } as const;
    const about = { action: 'bursar:RestoreTenant', tenant: name, target: `tenants/${name}` };
    await commit({ kind: 'restoreIdentity', changes: [change], madeMs }, about);
    report.tenants.push(name);
  }
  const owners = new Map(buckets.map((one) => [principalId(one.tenant, one.owner), one]));
  for (const [id, { tenant, owner: name }] of owners) {
    if (await staging.identities.has('principal', tenant, name)) continue;
    const changes: IdentityChange[] = [
      {
        ...{ kind: 'createPrincipal', tenant, name },
        ...{ principalKind: 'person', role: 'member', groups: [] },
      },
    ];
    if (isDoubtful) changes.push({ kind: 'updatePrincipal', tenant, name, active: false });
    const target = `tenants/${tenant}/principals/${name}`;
    const about = { action: 'bursar:RestorePrincipal', tenant, target };
    await commit({ kind: 'restoreIdentity', changes, madeMs }, about);
    report.principals.push(id);
  }
}

/** One commit, or none. They are called in order, and each hands its commits over at once. */
export type Step = (attempt: TryCommit, commit: CommitOne) => Promise<void>;

export interface Redoing {
  /** Those that are there, by id. */
  buckets: ReadonlyMap<number, StagedBucket>;
  /** What was done up to this change of a bucket is done already. */
  doneSeq(bucket: StagedBucket): number;
  /** Undefined: it is not to be made, or cannot be, which is reported. */
  make(
    bucket: StagedBucket,
    version: VersionEntry,
    told: { isTail?: boolean; isHeld?: boolean },
  ): Promise<Step | undefined>;
}

/**
 * Versions that are there, and before each what was done until then with those that snapshots hold:
 * by the order in which all of it was first done. What only extents tell comes last.
 */
export async function* listSteps(work: Work, redoing: Redoing): AsyncGenerator<Step> {
  const { staging } = work;
  const { buckets, doneSeq } = redoing;
  const make = async (version: VersionEntry, told: { isTail?: boolean; isHeld?: boolean }) => {
    const bucket = buckets.get(version.bucketId);
    if (!bucket) return undefined;
    const first = await staging.kept.attributesAfter(version, doneSeq(bucket));
    return redoing.make(bucket, { ...version, attributes: first ?? version.attributes }, told);
  };
  const kept = staging.kept.list();
  let next = await kept.next();
  async function* keptUntil(seq: number): AsyncGenerator<Step> {
    for (; !next.done && next.value.seq <= seq; next = await kept.next()) {
      const one = next.value;
      const bucket = buckets.get(one.bucketId);
      if (!bucket || one.seq <= doneSeq(bucket)) continue;
      const step =
        one.kind === 'make'
          ? await make(one.version, { isHeld: true })
          : await keptStep(work, bucket, one);
      if (step) yield step;
    }
  }
  for await (const { version, isTail } of staging.listVersions()) {
    // What a version ended was ended by its own number.
    yield* keptUntil(isTail ? Number.MAX_SAFE_INTEGER : version.seq);
    const step = await make(version, { isTail });
    if (step) yield step;
  }
  yield* keptUntil(Number.MAX_SAFE_INTEGER);
}

async function makeStep(
  work: Work,
  bucket: StagedBucket,
  version: VersionEntry,
  { isTail = false, isHeld = false },
): Promise<Step | undefined> {
  const { staging, report } = work;
  const { key, versionId } = version;
  const name = { tenant: bucket.tenant, bucket: bucket.name, key, versionId };
  const checked = await checkExtents(staging, version);
  if (!checked.runs) {
    report.lost.add({ ...name, reason: checked.reason });
    return undefined;
  }
  if (isTail) report.fromExtents.add(name);
  return async (_, commit) => {
    await commit(...restoreVersion(work, bucket, version, checked.places));
    work.onProgress('restoring versions', ++report.versions);
    report.versionBytes += version.sizeBytes;
    if (isHeld) report.heldVersions++;
  };
}

async function keptStep(
  { staging, report }: Work,
  bucket: StagedBucket,
  step: Exclude<KeptStep, { kind: 'make' }>,
): Promise<Step | undefined> {
  if (step.kind === 'snapshot') {
    const { kind: _, seq: __, ...snapshot } = step.snapshot;
    const target = snapshotTarget(bucket.tenant, bucket.name, snapshot.name);
    const change = { kind: 'restoreSnapshot', ...snapshot } as const;
    const about = { action: 'bursar:RestoreSnapshot', bucket, target, change: accountOf(change) };
    return async (attempt) => {
      const refused = await attempt(change, about);
      if (!refused) report.snapshots++;
      // Where a part of a journal is missing, it may lack that one of this name was deleted.
      else if (refused !== 'AlreadyExists') throw refusedError(about, refused);
    };
  }
  const { bucketId, key, versionId } = step.held;
  const named = { bucketId, key, versionId };
  if (step.kind === 'end') {
    const about = { action: 'bursar:RestoreEnd', bucket, key };
    return unlessLost({ kind: 'restoreEnd', ...named }, about);
  }
  const now = await staging.findByNumber(step.held);
  const attributes = step.attributes ?? now?.attributes;
  if (attributes === undefined) return undefined;
  const about = { action: 'bursar:RestoreAttributes', bucket, key };
  return unlessLost({ kind: 'restoreAttributes', ...named, attributes }, about);
}

/** Of a version whose bytes are lost, which is reported, nothing is there to be changed. */
function unlessLost(change: Change, about: About): Step {
  return async (attempt) => {
    const refused = await attempt(change, about);
    if (refused && refused !== 'NoSuchVersion') throw refusedError(about, refused);
  };
}

/** The runs of a version whose bytes are all in the stores, or why they are not. */
export type CheckedExtents =
  | {
      runs: ExtentRun[];
      /** Of a class of a tenant's own: by extent, in hex, all stores that have it. */
      places?: Record<string, number[]>;
      reason: null;
    }
  | { runs: null; reason: string };

/** What is in a class of a tenant's own may have copies in other stores than its manifest names. */
export async function checkExtents(
  staging: Staging,
  version: Pick<VersionEntry, 'manifest' | 'sizeBytes' | 'class'>,
): Promise<CheckedExtents> {
  if (isOwnClass(version.class)) return checkCopies(staging, version);
  const runs = decodeManifest(Buffer.from(version.manifest, 'base64'));
  if (countBytes(runs) !== version.sizeBytes) return { runs: null, reason: 'its size is another' };
  for (const run of runs) {
    const name = `extent ${run.id.toString('hex')}`;
    const found = await staging.findExtent(run.store, run.id);
    if (!found) return { runs: null, reason: `${name} is missing in store ${run.store}` };
    const sizeBytes = sealedBytes(run.extentBytes) + run.trailerBytes;
    if (found.sizeBytes !== sizeBytes) {
      const reason = `${name} has ${found.sizeBytes} bytes instead of ${sizeBytes}`;
      return { runs: null, reason };
    }
  }
  return { runs, reason: null };
}

/** All that is named along with a version, in whichever store. */
export function placesOf({
  runs,
  places = {},
}: Extract<CheckedExtents, { reason: null }>): { store: number; id: Buffer }[] {
  return runs.flatMap(({ store, id }) =>
    [...new Set([store, ...(places[id.toString('hex')] ?? [])])].map((one) => ({ store: one, id })),
  );
}

async function checkCopies(
  staging: Staging,
  version: Pick<VersionEntry, 'manifest' | 'sizeBytes'>,
): Promise<CheckedExtents> {
  const runs = decodeManifest(Buffer.from(version.manifest, 'base64'));
  if (countBytes(runs) !== version.sizeBytes) return { runs: null, reason: 'its size is another' };
  const places: Record<string, number[]> = {};
  for (const { id, store, extentBytes, trailerBytes } of runs) {
    const found = await staging.findPlaces(id, sealedBytes(extentBytes) + trailerBytes);
    if (found.length === 0) {
      return { runs: null, reason: `extent ${id.toString('hex')} is missing in store ${store}` };
    }
    places[id.toString('hex')] = found;
  }
  return { runs, places, reason: null };
}

export function restoreVersion(
  { keyring }: Work,
  bucket: StagedBucket,
  version: VersionEntry,
  places?: Record<string, number[]>,
): [Change, About] {
  const { key, versionId, isMarker, createdMs, sizeBytes, etag, owner, attributes, sha256 } =
    version;
  const object = sealObject(keyring, {
    tenant: bucket.tenant,
    sizeBytes,
    etag,
    sha256: sha256 === null ? null : Buffer.from(sha256, 'hex'),
    class: version.class,
    owner,
    attributes,
    manifest: Buffer.from(version.manifest, 'base64'),
  });
  const about = { action: 'bursar:RestoreVersion', bucket, key };
  return [
    {
      ...{ kind: 'restoreVersion', bucketId: bucket.id, key, versionId },
      ...{ isMarker, createdMs, object, places },
    },
    isMarker ? about : { ...about, sizeBytes, etag, sha256, class: version.class },
  ];
}

/** Extents that nothing restored names: for the sweeper, or left alone while some may be needed. */
export async function enterOthers(work: Work, { ledger, stores }: Target): Promise<void> {
  const { staging, report, discard } = work;
  const state = discard || isWhole(report) ? 'condemned' : 'left';
  for (const { store } of stores) {
    for await (const ids of staging.listPacks(store.number)) {
      const packs = { kind: 'enterUnnamed', store: store.number, ids, state: 'left' } as const;
      report.recordPacks += await ledger.maintain(packs);
    }
    for await (const ids of staging.listExtents(store.number)) {
      const others = { kind: 'enterUnnamed', store: store.number, ids, state } as const;
      const entered = await ledger.maintain(others);
      if (state === 'condemned') report.condemnedExtents += entered;
      else report.leftExtents += entered;
    }
  }
}

function namesOf(stores: readonly RebuiltStore[]): string {
  return `stores/${stores.map(({ store }) => store.name).join(',')}`;
}
