// Native API: how the versions of a bucket were used, from the records. Invariants: it tells when
// what was read, and never by whom; records of an earlier bucket of the name are not this one's;
// and one call looks at a bounded part of the log.
import { type ObjectUse, usesOf } from '../../audit/changes/object-use.ts';
import { Pace } from '../../core/pace.ts';
import { checkKeyLength } from '../s3/request.ts';
import { param, routeTable } from './route.ts';
import { answerObject, integer, integerOrNull, next, text, textOrNull, time } from './schemas.ts';
import { bucketOf } from './snapshot-routes.ts';

/** Each call is a record of the bucket, so a page has many more, and whoever goes on ends. */
const recordsPerPage = 1000;

const use = answerObject({
  index: integer('Of the record that says so.'),
  time: { ...time, description: 'Of reads that are one record, when the last was.' },
  what: text(
    'written: a version came; renamed: it was `from` before; hidden: a delete marker came over ' +
      'it; ended: it is gone; read: it was read, which HEAD, verifications and moves are not.',
    { enum: ['written', 'renamed', 'hidden', 'ended', 'read'] },
  ),
  key: { type: 'string' },
  version: integerOrNull('Its number; null: the newest of the key.'),
  versionId: textOrNull('As S3 names it; null: none was named.'),
  from: integerOrNull('The number that it had before it was renamed.'),
  size: integerOrNull('Of the version, bytes.'),
  reads: integer('How many reads there were.'),
  bytes: integer('What they read.'),
});

export const useRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/tenants/:t/buckets/:bucket/uses',
    action: 'bursar:ListUses',
    ofPart: true,
    summary:
      'How the versions of a bucket were used, by the records in their order: written, read, ' +
      'ended. A page may be empty and still have a `next`: go on there until it is null.',
    query: {
      prefix: text('Of object keys that begin so.'),
      after: text('The `next` of the page before.', { pattern: '^[0-9]{1,15}$' }),
    },
    answer: answerObject({
      uses: { type: 'array', items: use },
      altered: {
        type: 'array',
        description: 'Records that are not what was recorded: what they told cannot be known.',
        items: { type: 'integer' },
      },
      next,
    }),
    run: async (call) => {
      const { prefix = '', after } = call.query;
      checkKeyLength(prefix);
      await call.decideOn({ bucket: param(call, 'bucket'), prefix });
      const bucket = await bucketOf(call);
      const { tenant, name } = bucket;
      const begin = await call.deps.bucketBeginnings.find(bucket);
      const pastIndex = Math.max(begin, Number(after ?? -1));
      const { records, nextIndex } = await call.deps.search.find({
        ...{ tenant, bucket: name, prefix: prefix === '' ? undefined : prefix },
        ...{ pastIndex: pastIndex < 0 ? undefined : pastIndex },
        limit: recordsPerPage,
      });
      const uses: ObjectUse[] = [];
      const altered: number[] = [];
      const pace = new Pace();
      for (const { index, text: record } of records) {
        if (record === null) altered.push(index);
        else uses.push(...usesOf(record, bucket).filter(({ key }) => key.startsWith(prefix)));
        await pace.rest();
      }
      const goesOn = nextIndex === null ? null : String(nextIndex);
      return { answer: { uses, altered, next: goesOn } };
    },
  },
]);
