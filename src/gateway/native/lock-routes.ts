// Native API: which versions of a bucket object lock holds, and until when.
import {
  type LockedVersion,
  readLocked,
  type VersionPlace,
} from '../../catalog/locked-versions.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { keyBytesMax } from '../../core/limits.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import { routeTable } from './route.ts';
import { answerObject, boolean, integer, next, pageQuery, text, timeOrNull } from './schemas.ts';
import { bucketOf } from './snapshot-routes.ts';

/** One page looks at so many versions, whether they are locked or not. */
const versionsPerPage = 1000;

const locked = answerObject({
  key: { type: 'string' },
  versionId: text('Of S3; `null` of what was written before the bucket had versions.'),
  size: integer('Bytes.'),
  mode: {
    type: ['string', 'null'],
    enum: ['GOVERNANCE', 'COMPLIANCE', null],
    description: 'Of its retention; null: no retention holds it.',
  },
  until: { ...timeOrNull, description: 'When its retention ends.' },
  legalHold: boolean('It is held until somebody ends that.'),
});

export const lockRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/buckets/:bucket/locks',
    action: 'bursar:ListLocks',
    summary: 'List the versions that cannot be deleted now, by key, and until when.',
    query: {
      ...pageQuery,
      after: text('The `next` of the page before.', { maxLength: keyBytesMax + 17 }),
    },
    answer: answerObject({ locked: { type: 'array', items: locked }, next }),
    run: async (call) => {
      const { read, keyring } = call.deps;
      const bucket = await bucketOf(call);
      const { after, limit } = call.query;
      const max = limit === undefined ? versionsPerPage : Number(limit);
      const wanted = { after: placeOf(after), max, timeMs: steadyClock.nowMs() };
      const page = await readLocked({ read, keyring }, bucket, wanted);
      const last = page.last && `${page.last.seq}:${page.last.key}`;
      return { answer: { locked: page.locked.map(show), next: last } };
    },
  },
]);

/** Throws `Refusal` InvalidInput. */
function placeOf(after: string | undefined): VersionPlace {
  if (after === undefined) return { key: '', seq: 0 };
  const [, seq, key] = /^(\d{1,16}):(.+)$/s.exec(after) ?? [];
  if (key !== undefined && Number.isSafeInteger(Number(seq))) return { key, seq: Number(seq) };
  const message = 'It must be the next of the page before.';
  throw new Refusal('InvalidInput', { message, fields: { field: 'query.after' } });
}

function show({ key, versionId, sizeBytes, retention, legalHold }: LockedVersion): object {
  return {
    ...{ key, versionId: versionId ?? 'null', size: sizeBytes },
    ...{ mode: retention?.mode ?? null, until: retention && isoTime(retention.untilMs) },
    legalHold,
  };
}
