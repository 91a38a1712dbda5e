// Brings the buckets of S3 stores in a restored database to what their journals say: those that
// were made after the backup, set up otherwise, or deleted.

import { readSettings } from '../../catalog/bucket-settings.ts';
import { type Bucket, findBucket, getBucket, listStoreBuckets } from '../../catalog/buckets.ts';
import { listKept } from '../../catalog/kept-versions.ts';
import { principalId } from '../../core/principal.ts';
import type { IdentityChange } from '../../ledger/commands/identities.ts';
import { bucketEntry } from '../../ledger/journal/entries.ts';
import { readMode } from '../../ledger/rebuild/restore-identities.ts';
import type { StagedBucket } from '../../ledger/rebuild/staging.ts';
import type { Forward } from './forward.ts';

const bucketsPerPage = 100;
const versionsPerPage = 500;

/** Gives those that are there now and that a journal tells of, by id. */
export async function forwardBuckets(forward: Forward): Promise<Map<number, StagedBucket>> {
  const { work, stores } = forward;
  const { staging } = work;
  for (const { store } of stores) {
    for (const bucket of await listAll(forward, store.number)) {
      if ((await staging.findBucket(bucket.id)) === 'gone') await removeBucket(forward, bucket);
    }
  }
  const staged = await staging.listBuckets();
  for (const bucket of staged) {
    const found = await getBucket(forward.read, bucket.id);
    if (!found) await addBucket(forward, bucket);
    else await setUp(forward, bucket, found);
  }
  return new Map(staged.map((bucket) => [bucket.id, bucket]));
}

async function listAll({ read }: Forward, store: number): Promise<Bucket[]> {
  const buckets: Bucket[] = [];
  for await (const page of listStoreBuckets(read, store, bucketsPerPage)) buckets.push(...page);
  return buckets;
}

/** Deletes the bucket with everything in it. */
async function removeBucket({ read, commit, report }: Forward, bucket: Bucket): Promise<void> {
  const { id: bucketId } = bucket;
  for (;;) {
    const versions = await listKept(read, { bucketId, after: null, max: versionsPerPage });
    if (versions.length === 0) break;
    await Promise.all(
      versions.map(({ key, versionId }) =>
        commit(
          { kind: 'restoreEnd', bucketId, key, versionId },
          { action: 'bursar:RestoreEnd', bucket, key },
        ),
      ),
    );
    report.ended += versions.length;
  }
  await commit({ kind: 'deleteBucket', bucketId }, { action: 'bursar:RestoreEnd', bucket });
  report.removed++;
}

async function addBucket(forward: Forward, staged: StagedBucket): Promise<void> {
  const { read, commit, report } = forward;
  const { tenant, name } = staged;
  // The name was given to somebody else after the backup, so the bucket that had it was deleted.
  const former = await findBucket(read, tenant, name);
  if (former) await removeBucket(forward, former);
  await ensureOwner(forward, staged);
  const { kind: _, toldSeq: _2, documents, ...bucket } = staged;
  const { policy = null, ...settings } = documents;
  const restored = { ...bucket, policy, recordReads: readMode(bucket.recordReads) };
  const change = { kind: 'restoreBucket', bucket: restored, settings } as const;
  await commit(change, { action: 'bursar:RestoreBucket', bucket });
  report.buckets++;
}

async function setUp(forward: Forward, staged: StagedBucket, found: Bucket): Promise<void> {
  const { read, commit, report } = forward;
  const documents = await readSettings(read, found.id);
  if (found.policy !== null) documents.policy = found.policy;
  const { kind: _, toldSeq: _2, documents: told, store, ...others } = staged;
  const { kind: _3, toldSeq: _4, ...is } = bucketEntry(found, 0);
  // Release 0.1.0 does not tell how reads are recorded.
  const isUntold = staged.recordReads === undefined;
  const recordReads = isUntold ? found.recordReads : readMode(staged.recordReads);
  const bucket = { ...others, recordReads };
  if (store !== found.store) {
    throw new Error(`bucket ${staged.tenant}/${staged.name} is in another store in the backup`);
  }
  if (isSame(is, bucket) && isSame(documents, told)) return;
  await ensureOwner(forward, staged);
  const { policy = null, ...settings } = told;
  const change = {
    kind: 'restoreSettings',
    bucket: { ...bucket, store, policy },
    settings,
  } as const;
  await commit(change, { action: 'bursar:RestoreBucket', bucket: { ...bucket, store } });
  report.configured++;
}

/** Compares two flat objects. */
function isSame(a: object, b: object): boolean {
  const textOf = (one: object) => JSON.stringify(Object.entries(one).sort());
  return textOf(a) === textOf(b);
}

/**
 * The owner may have been created after the backup; then it becomes a member without access keys.
 */
async function ensureOwner(forward: Forward, { tenant, owner: name }: StagedBucket): Promise<void> {
  const { read, commit, report } = forward;
  if (!(await read.get('SELECT 1 FROM tenants WHERE name = ?', tenant))) {
    const change = { kind: 'createTenant', name: tenant, membersCreateBuckets: false } as const;
    const about = { action: 'bursar:RestoreTenant', tenant, target: `tenants/${tenant}` };
    await commit(change, about);
    report.tenants.push(tenant);
  }
  const sql = 'SELECT 1 FROM principals WHERE tenant = ? AND name = ?';
  if (await read.get(sql, tenant, name)) return;
  const change: IdentityChange = {
    ...{ kind: 'createPrincipal', tenant, name },
    ...{ principalKind: 'person', role: 'member', groups: [] },
  };
  const target = `tenants/${tenant}/principals/${name}`;
  await commit(change, { action: 'bursar:RestorePrincipal', tenant, target });
  report.principals.push(principalId(tenant, name));
}
