// Native API: settings of a bucket for which S3 has no request: how its reads are recorded.
import { findBucket } from '../../catalog/buckets.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import type { RecordReads } from '../../core/record-reads.ts';
import { type Call, type NativeRoute, param } from './route.ts';
import { answerObject, closedObject, name, recordReads, time } from './schemas.ts';

const url = '/_/v1/tenants/:t/buckets/:bucket';

const ofBucket = {
  ...recordReads,
  type: ['string', 'null'],
  enum: [...recordReads.enum, null],
  description: `${recordReads.description} null: as the tenant says.`,
} as const;

const bucket = answerObject({
  tenant: name,
  name: { type: 'string' },
  owner: name,
  store: { type: 'string' },
  recordReads: ofBucket,
  createdAt: time,
});

export const bucketRoutes: NativeRoute[] = [
  {
    method: 'GET',
    url,
    action: 'bursar:GetBucket',
    summary: 'Show a bucket.',
    answer: bucket,
    run: async (call) => ({ answer: await showBucket(call) }),
  },
  {
    method: 'PATCH',
    url,
    action: 'bursar:UpdateBucket',
    summary: "Change a bucket's settings.",
    body: closedObject({ recordReads: ofBucket }, ['recordReads']),
    answer: bucket,
    run: async (call) => {
      const { recordReads } = call.body as { recordReads: RecordReads | null };
      const [tenant, bucketName] = [param(call, 't'), param(call, 'bucket')];
      return {
        change: { kind: 'setRecordReads', tenant, name: bucketName, recordReads },
        answer: () => showBucket(call),
      };
    },
  },
];

async function showBucket(call: Call): Promise<object> {
  const { read, stores } = call.deps;
  const tenant = param(call, 't');
  const found = await findBucket(read, tenant, param(call, 'bucket'));
  if (!found) {
    const isThere = await call.deps.directory.readTenant(tenant);
    throw new Refusal(isThere ? 'NoSuchBucket' : 'NoSuchTenant');
  }
  const { name, owner, store, recordReads, createdMs } = found;
  const createdAt = isoTime(createdMs);
  return { tenant, name, owner, store: stores.nameOf(store), recordReads, createdAt };
}
