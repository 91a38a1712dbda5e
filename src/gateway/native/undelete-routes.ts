// Native API: what brings back objects that were deleted or overwritten. It is done by S3, object
// by object: markers are deleted, and what else was is copied as of a record.

import { firstSince } from '../../audit/record-times.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { readHeldOf } from '../../catalog/held-release.ts';
import { readListedAt } from '../../catalog/snapshot-reads.ts';
import { planAsOf, planDeleted, type Undeletion } from '../../catalog/undelete.ts';
import { readHeldSince, readMoment } from '../../catalog/undelete-window.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import { textSuccessor } from '../../core/text-order.ts';
import { checkKeyLength } from '../s3/request.ts';
import { keyPageQuery, readKeyPage } from './key-pages.ts';
import { type Call, param, refuseMissing, routeTable } from './route.ts';
import {
  answerObject,
  boolean,
  closedObject,
  integer,
  integerOrNull,
  next,
  reason,
  text,
  textOrNull,
  time,
} from './schemas.ts';
import { bucketOf, shownOf } from './snapshot-routes.ts';

const undeletion = answerObject({
  key: { type: 'string' },
  was: { type: 'string', enum: ['deleted', 'overwritten'] },
  size: integer('Of what it was.'),
  class: text('Its storage class then.'),
  markers: {
    type: 'array',
    items: { type: 'string' },
    description: 'Delete markers: without them it is there again. Empty: it is copied.',
  },
  versionId: textOrNull('The version that is copied.'),
  index: integerOrNull('As of which record it is copied, by `x-bursar-copy-source-as-of`.'),
});

export const undeleteRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/buckets/:bucket/undelete',
    action: 'bursar:Undelete',
    ofPart: true,
    summary: 'List what brings back a deleted object, or what was deleted and overwritten since.',
    query: {
      ...keyPageQuery,
      key: text('One object.'),
      prefix: text('All objects that begin with it. Absent, with `asOf`: all of the bucket.'),
      asOf: {
        ...time,
        description: 'As they were then. Absent: as each that is deleted was before that.',
      },
    },
    answer: answerObject({ objects: { type: 'array', items: undeletion }, next }),
    run: async (call) => ({ answer: await readPlan(call) }),
  },
  {
    method: 'POST',
    url: '/_/v1/tenants/:t/buckets/:bucket/purges',
    action: 'bursar:PurgeHeld',
    summary:
      'Let go at once of what snapshots and the undelete window hold of a key, or of all keys ' +
      'with a prefix: some of it with each call.',
    body: closedObject(
      {
        key: text('The key.'),
        prefix: text('Or what keys begin with.'),
        reason,
      },
      ['reason'],
    ),
    answer: answerObject({
      versions: integer('How many versions this call has let go of.'),
      bytes: integer('Their bytes.'),
      isDone: boolean('Is nothing of it held any more?'),
    }),
    run: async (call) => {
      const asked = call.body as { key?: string; prefix?: string; reason: string };
      const { key, prefix, reason } = asked;
      const name = key ?? prefix;
      if (name === undefined || name === '' || (key !== undefined && prefix !== undefined)) {
        const message = 'Either a key or a prefix must be given.';
        throw new Refusal('InvalidInput', { message, fields: { field: 'key, prefix' } });
      }
      checkKeyLength(name);
      const { id: bucketId, store } = await bucketOf(call);
      const isPrefix = key === undefined;
      const book = call.deps.bookOf(store).name;
      const below = isPrefix ? textSuccessor(name) : null;
      const left = { bucketId, from: name, below, isPrefix, max: 1 };
      return {
        change: { kind: 'purgeHeld', bucketId, key: name, isPrefix, reason, book },
        answer: async (released) => ({
          ...released,
          isDone: (await readHeldOf(call.deps.read, left)).length === 0,
        }),
      };
    },
  },
]);

const notKept =
  'There is no object with this key, and nothing of one is kept: what is deleted can be brought ' +
  'back while an undelete window, or a snapshot, holds it.';

async function readPlan(call: Call): Promise<object> {
  const { read, keyring } = call.deps;
  const { key, prefix = '', asOf } = call.query;
  const name = param(call, 'bucket');
  await call.decideOn(key === undefined ? { bucket: name, prefix } : { bucket: name, key });
  const bucket = await bucketOf(call);
  const catalog = { read, keyring };
  if (key !== undefined) {
    checkKeyLength(key);
    const found =
      asOf === undefined
        ? await planDeleted(catalog, bucket, { key, heldSinceMs: 0 })
        : await planAsOf(catalog, bucket, { key, at: await indexOf(call, bucket, asOf) });
    if (!found && !(await isKnown(call, bucket, key)))
      throw new Refusal('NoSuchKey', { message: notKept });
    return { objects: found ? [show(found)] : [], next: null };
  }
  if (asOf === undefined && call.query.prefix === undefined) {
    const message = 'A key, a prefix or a time must be given.';
    throw new Refusal('InvalidInput', { message, fields: { field: 'key, prefix, asOf' } });
  }
  const at = asOf === undefined ? null : await indexOf(call, bucket, asOf);
  const heldSinceMs = await readHeldSince(read, bucket.id, steadyClock.nowMs());
  const page = await readKeyPage(read, { bucketId: bucket.id, prefix }, call.query);
  const pace = new Pace();
  const objects: object[] = [];
  for (const one of page.keys) {
    const found =
      at === null
        ? await planDeleted(catalog, bucket, { key: one, heldSinceMs })
        : await planAsOf(catalog, bucket, { key: one, at });
    if (found) objects.push(show(found));
    await pace.rest();
  }
  return { objects, next: page.next };
}

/** Whether there is an object of the key, or what there was is still held. */
async function isKnown({ deps: { read } }: Call, bucket: Bucket, key: string): Promise<boolean> {
  const row = await readListedAt(read, { bucketId: bucket.id, key, at: Number.MAX_SAFE_INTEGER });
  return row !== undefined && !row.isMarker;
}

/**
 * Where the bucket has versions, it shows those of any time that were not deleted for good. Throws
 * `Refusal` MomentNotKept.
 */
async function indexOf(call: Call, bucket: Bucket, asOf: string): Promise<number> {
  const { read, records, snapshots } = call.deps;
  const { id, tenant, name, versioning } = bucket;
  const timeMs = readMoment(asOf);
  if (timeMs === null) return refuseMissing(call, 'MomentNotKept');
  const kept = await snapshots.find({ tenant, bucket: name, id }, asOf);
  if (kept) return kept.seq;
  const isPast = timeMs < steadyClock.nowMs();
  if (versioning === 'Unversioned' || !isPast) return (await shownOf(call, bucket, asOf)).seq;
  return (await firstSince(read, records, timeMs + 1)) - 1;
}

function show({ isOverwritten, sizeBytes: size, ...undeletion }: Undeletion): object {
  return { ...undeletion, size, was: isOverwritten ? 'overwritten' : 'deleted' };
}
