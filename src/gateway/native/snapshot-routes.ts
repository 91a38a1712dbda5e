// Native API: snapshots of a bucket. What is in one is read by S3, through a mount of it.
import { verifyListed } from '../../catalog/authentic.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { readHeldBelow, readHeldTotal } from '../../catalog/held-totals.ts';
import { readListedAt } from '../../catalog/snapshot-reads.ts';
import {
  type ListedSnapshot,
  listSnapshots,
  showSnapshot as readSnapshot,
  type Snapshot,
  type SnapshotLock,
  snapshotLocks,
} from '../../catalog/snapshots.ts';
import { isSameObject } from '../../catalog/undelete.ts';
import { beginOf, readMoment, readWindow } from '../../catalog/undelete-window.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { isName, nameCharactersMax, notTheName } from '../../core/names.ts';
import { Pace } from '../../core/pace.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import type { KeptSnapshot } from '../../state/snapshot-cache.ts';
import { checkKeyLength } from '../s3/request.ts';
import { keyPageQuery, readKeyPage } from './key-pages.ts';
import { administers } from './rights.ts';
import { type Call, nameOf, nextOf, pageOf, param, refuseMissing, routeTable } from './route.ts';
import {
  answerObject,
  closedObject,
  integer,
  name,
  next,
  pageQuery,
  text,
  textOrNull,
  time,
  timeOrNull,
} from './schemas.ts';
import { showWindow, windowSchema } from './undelete-window.ts';

const collection = '/_/v1/tenants/:t/buckets/:bucket/snapshots';
const one = `${collection}/:snapshot`;

/** What a mount may show: a snapshot's name, or a moment, as it is stored. Throws `Refusal`. */
export function readShown(asked: string): string {
  const timeMs = readMoment(asked);
  if (timeMs !== null) return isoTime(timeMs);
  checkSnapshotName(asked);
  return asked;
}

/** Throws `Refusal` InvalidInput. */
function checkSnapshotName(asked: string): void {
  if (isName(asked)) return;
  const message = notTheName(asked, 'a snapshot');
  throw new Refusal('InvalidInput', { message, fields: { field: 'snapshot' } });
}

const wanted = {
  prefix: text('Of the keys that it is of. Absent: of all.'),
  expiresAt: { ...time, description: 'When it is deleted by itself. Absent: never.' },
  lock: {
    type: 'string',
    enum: [...snapshotLocks],
    description:
      'Until it expires: with `governance` only administrators can delete it, and only if they ' +
      'say so; with `compliance` nobody can.',
  },
} as const;

const heldVersions = integer(
  'Versions that ended or changed since, and that no newer snapshot has.',
);
const heldBytes = integer('Of these, what is stored for it.');

const snapshot = answerObject({
  tenant: name,
  bucket: { type: 'string' },
  name: { type: 'string' },
  index: { type: 'integer', description: 'Of its record: it shows the bucket as of then.' },
  prefix: wanted.prefix,
  createdAt: time,
  expiresAt: timeOrNull,
  lock: textOrNull('`governance`, `compliance`, or none.'),
  heldVersions,
  heldBytes,
});

const difference = answerObject({
  key: { type: 'string' },
  change: { type: 'string', enum: ['added', 'changed', 'deleted'] },
  size: { type: ['integer', 'null'], description: 'Afterwards; null: it is not there.' },
  sizeBefore: { type: ['integer', 'null'], description: 'In the snapshot.' },
  class: textOrNull('Its storage class in the snapshot.'),
});

export const snapshotRoutes = routeTable([
  {
    method: 'PUT',
    url: one,
    action: 'bursar:CreateSnapshot',
    ofPart: true,
    summary: 'Make a snapshot of a bucket, or of the keys with a prefix, as they are now.',
    body: closedObject(wanted, []),
    answer: snapshot,
    run: async (call) => {
      const asked = call.body as { prefix?: string; expiresAt?: string; lock?: SnapshotLock };
      const snapshotName = param(call, 'snapshot');
      checkSnapshotName(snapshotName);
      const { prefix = '', expiresAt, lock = null } = asked;
      checkKeyLength(prefix);
      const expiresMs = expiresAt === undefined ? null : Date.parse(expiresAt);
      if (expiresMs !== null && !(expiresMs > nowMs())) {
        throw invalid('expiresAt', 'It must be a time in the future.');
      }
      if (lock && expiresMs === null) throw invalid('lock', 'What is locked must expire.');
      await call.decideOn({ bucket: param(call, 'bucket'), prefix });
      const { id: bucketId } = await bucketOf(call);
      return {
        change: { kind: 'createSnapshot', bucketId, name: snapshotName, prefix, expiresMs, lock },
        answer: async () => {
          const { bucket, found } = await lookFor(call);
          return bucket && found ? show(bucket, found) : null;
        },
      };
    },
  },
  {
    method: 'GET',
    url: collection,
    action: 'bursar:ListSnapshots',
    ofPart: true,
    summary: "List a bucket's snapshots, by name, and what they hold.",
    query: {
      ...pageQuery,
      prefix: text('Only those of keys that begin with it. Absent: all.'),
    },
    answer: answerObject({
      snapshots: { type: 'array', items: snapshot },
      next,
      heldVersions: integer('Of all snapshots and the undelete window together.'),
      heldBytes: integer('Of all together; it counts as stored.'),
      undelete: windowSchema,
    }),
    run: async (call) => {
      const { prefix = '' } = call.query;
      await call.decideOn({ bucket: param(call, 'bucket'), prefix });
      const bucket = await bucketOf(call);
      const { read } = call.deps;
      const page = pageOf(call);
      const wanted = { bucketId: bucket.id, prefix, after: page.after, max: page.limit };
      const entries = await listSnapshots(read, wanted);
      const held = await (prefix === ''
        ? readHeldTotal(read, bucket.id)
        : readHeldBelow(read, bucket.id, prefix));
      return {
        answer: {
          snapshots: entries.map((entry) => show(bucket, entry)),
          next: nextOf(page, entries, nameOf),
          heldVersions: held.versions,
          heldBytes: held.bytes,
          undelete: await showWindow(read, bucket.id),
        },
      };
    },
  },
  {
    method: 'GET',
    url: one,
    action: 'bursar:GetSnapshot',
    ofPart: true,
    summary: 'Show a snapshot.',
    answer: snapshot,
    run: async (call) => {
      const { bucket, found } = await findDecided(call);
      return { answer: show(bucket, found) };
    },
  },
  {
    method: 'DELETE',
    url: one,
    action: 'bursar:DeleteSnapshot',
    ofPart: true,
    summary: 'Delete a snapshot. What it alone held is let go of afterwards.',
    query: {
      bypassGovernance: {
        type: 'string',
        enum: ['true'],
        description: 'A lock of governance does not hold it. Only administrators may.',
      },
    },
    run: async (call) => {
      const bypassGovernance = call.query.bypassGovernance === 'true';
      if (bypassGovernance && !administers(call.who, param(call, 't'))) {
        throw new Refusal('AccessDenied');
      }
      const { bucket, found } = await findDecided(call);
      const { name, seq } = found;
      const change = { kind: 'deleteSnapshot', bucketId: bucket.id, name, seq } as const;
      return { change: bypassGovernance ? { ...change, bypassGovernance } : change };
    },
  },
  {
    method: 'GET',
    url: `${one}/diff`,
    action: 'bursar:GetSnapshot',
    operation: 'DiffSnapshot',
    ofPart: true,
    summary:
      'List what is different since a snapshot, or since a time in the undelete window: in ' +
      'another one, or now. By key.',
    query: {
      ...keyPageQuery,
      to: { ...text('The other snapshot. Absent: now.'), maxLength: nameCharactersMax },
      prefix: text('Of the keys that are compared. Absent: all.'),
    },
    answer: answerObject({
      index: { type: 'integer', description: 'Of the record that the bucket is shown as of.' },
      differences: { type: 'array', items: difference },
      next,
    }),
    run: async (call) => ({ answer: await readDiff(call) }),
  },
]);

function invalid(field: string, message: string): Refusal {
  return new Refusal('InvalidInput', { message, fields: { field } });
}

export async function bucketOf(call: Call): Promise<Bucket> {
  const [tenant, name] = [param(call, 't'), param(call, 'bucket')];
  const found = await call.deps.buckets.find(tenant, name);
  if (found) return found;
  if (await call.deps.mounts.read(tenant, name)) {
    const message = `${name} is a mount: settings, snapshots and undelete windows are of buckets.`;
    throw new Refusal('NoSuchBucket', { message });
  }
  return refuseMissing(call, 'NoSuchBucket');
}

/** A snapshot, or what shows the bucket as of a moment in its undelete window. */
export async function shownOf(call: Call, bucket: Bucket, asked: string): Promise<Shown> {
  const { tenant, name, id } = bucket;
  const found = await call.deps.snapshots.find({ tenant, bucket: name, id }, asked);
  if (found) return found;
  if (readMoment(asked) === null) return refuseMissing(call, 'NoSuchSnapshot');
  const window = await readWindow(call.deps.read, id);
  throw new Refusal('MomentNotKept', {
    message: window
      ? `The bucket can be shown as of ${isoTime(beginOf(window, steadyClock.nowMs()))} and later.`
      : 'The bucket has no undelete window, so that it is shown as of its snapshots only.',
  });
}

/** The bucket and the snapshot that the path names, where they are there. */
async function lookFor(
  call: Call,
): Promise<{ bucket: Bucket | undefined; found: ListedSnapshot | undefined }> {
  const { read, buckets } = call.deps;
  const bucket = await buckets.find(param(call, 't'), param(call, 'bucket'));
  // It is looked for in any case, so that the time does not tell whether the bucket is there.
  const found = await readSnapshot(read, bucket?.id ?? noBucket, param(call, 'snapshot'));
  return { bucket, found };
}

/** No bucket has it. */
const noBucket = -1;

/**
 * The same where who asks has the right to that snapshot. One that is not there is decided as if it
 * were of the whole bucket: only who may have any of them learns that.
 */
async function findDecided(call: Call): Promise<{ bucket: Bucket; found: ListedSnapshot }> {
  const { bucket, found } = await lookFor(call);
  await call.decideOn({ bucket: param(call, 'bucket'), prefix: found?.prefix ?? '' });
  if (!bucket) return refuseMissing(call, 'NoSuchBucket');
  if (!found) return refuseMissing(call, 'NoSuchSnapshot');
  return { bucket, found };
}

function show({ tenant, name: bucket }: Bucket, found: ListedSnapshot): object {
  const { name, seq, prefix, createdMs, expiresMs, lock, heldVersions, heldBytes } = found;
  return {
    ...{ tenant, bucket, name, index: seq, prefix, createdAt: isoTime(createdMs) },
    ...{ expiresAt: expiresMs === null ? null : isoTime(expiresMs), lock },
    ...{ heldVersions, heldBytes },
  };
}

type Shown = Pick<Snapshot, 'seq' | 'prefix'>;

/** The state of now, as snapshots are told apart: no version is newer. */
const now: Shown = { seq: Number.MAX_SAFE_INTEGER, prefix: '' };

/**
 * Who compares snapshots has the right to each of them, and for a time to the keys that are
 * compared.
 */
async function decideDiff(call: Call): Promise<void> {
  const { buckets, snapshots } = call.deps;
  const [tenant, bucket] = [param(call, 't'), param(call, 'bucket')];
  const { to, prefix = '' } = call.query;
  const id = (await buckets.find(tenant, bucket))?.id;
  const names = [param(call, 'snapshot'), ...(to === undefined ? [] : [to])];
  const found: KeptSnapshot[] = [];
  for (const one of names) found.push(await snapshots.find({ tenant, bucket, id }, one));
  const compared = longest([prefix, ...found.map((one) => one?.prefix ?? '')]);
  const prefixOf = (name: string, one: KeptSnapshot | undefined) =>
    readMoment(name) === null ? (one?.prefix ?? '') : compared;
  await call.decideOn(...names.map((name, i) => ({ bucket, prefix: prefixOf(name, found[i]) })));
}

function longest(prefixes: readonly string[]): string {
  return prefixes.reduce((a, b) => (b.length > a.length ? b : a));
}

async function readDiff(call: Call): Promise<object> {
  const { read, keyring } = call.deps;
  await decideDiff(call);
  const bucket = await bucketOf(call);
  const from = await shownOf(call, bucket, param(call, 'snapshot'));
  const { to: other, prefix: asked = '' } = call.query;
  const to = other === undefined ? now : await shownOf(call, bucket, other);
  const prefix = longest([asked, from.prefix, to.prefix]);
  const differences: object[] = [];
  const areOfOne = [asked, from.prefix, to.prefix].every((one) => prefix.startsWith(one));
  if (!areOfOne) return { index: from.seq, differences, next: null };
  const { keys, next } = await readKeyPage(read, { bucketId: bucket.id, prefix }, call.query);
  const pace = new Pace();
  const readAt = async (key: string, at: number) => {
    const row = await readListedAt(read, { bucketId: bucket.id, key, at });
    if (row) verifyListed(keyring, bucket, row);
    return row?.isMarker ? undefined : row;
  };
  for (const key of keys) {
    const [before, then] = [await readAt(key, from.seq), await readAt(key, to.seq)];
    await pace.rest();
    if (isSameObject(before, then)) continue;
    const change = !before ? 'added' : then ? 'changed' : 'deleted';
    const [size, sizeBefore] = [then?.sizeBytes ?? null, before?.sizeBytes ?? null];
    differences.push({ key, change, size, sizeBefore, class: before?.class ?? null });
  }
  return { index: from.seq, differences, next };
}
