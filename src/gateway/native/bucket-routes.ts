// Native API: settings of a bucket for which S3 has no request: how its reads are recorded, for how
// long what is deleted can be brought back, and whose it is.

import { type Bucket, readPayerOf } from '../../catalog/buckets.ts';
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { isName, notTheName } from '../../core/names.ts';
import { principalId } from '../../core/principal.ts';
import { type ReadPayer, readPayers } from '../../core/read-payer.ts';
import type { RecordReads } from '../../core/record-reads.ts';
import { protectOthers } from './rights.ts';
import { type Call, type Outcome, param, refuseMissing, routeTable } from './route.ts';
import { answerObject, closedObject, name, recordReads, text, time } from './schemas.ts';
import { showWindow, windowSchema, windowSeconds } from './undelete-window.ts';

const url = '/_/v1/tenants/:t/buckets/:bucket';

const ofBucket = {
  ...recordReads,
  type: ['string', 'null'],
  enum: [...recordReads.enum, null],
  description: `${recordReads.description} null: as the tenant says.`,
} as const;

const readsPaidBy = text(
  'Who pays for reads besides who reads. owner: the bucket, its owner and their tenant. ' +
    'requester: nobody, if the requester is of another tenant and says that they pay. tenant: ' +
    'the bucket and its tenant.',
  { enum: [...readPayers] },
);

const bucket = answerObject({
  tenant: name,
  name: { type: 'string' },
  owner: name,
  store: { type: 'string' },
  recordReads: ofBucket,
  readsPaidBy,
  undelete: windowSchema,
  createdAt: time,
});

export const bucketRoutes = routeTable([
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
    body: {
      ...closedObject({ recordReads: ofBucket, readsPaidBy }),
      ...{ minProperties: 1, maxProperties: 1 },
    },
    answer: bucket,
    run: async (call) => {
      const wanted = call.body as { recordReads?: RecordReads | null; readsPaidBy?: ReadPayer };
      const of = { tenant: param(call, 't'), name: param(call, 'bucket') };
      const { recordReads = null } = wanted;
      return {
        change: wanted.readsPaidBy
          ? {
              ...{ kind: 'setReadPayer', ...of, bucketId: (await bucketOf(call)).id },
              readsPaidBy: wanted.readsPaidBy,
            }
          : { kind: 'setRecordReads', ...of, recordReads },
        answer: () => showBucket(call),
      };
    },
  },
  {
    method: 'PUT',
    url: `${url}/owner`,
    action: 'bursar:ChangeOwner',
    summary: 'Give a bucket to another principal of its tenant, who pays for it from then on.',
    body: closedObject(
      {
        owner: text('The principal whose it is to be: `lab`, or with its tenant `cms/lab`.'),
        from: { ...name, description: 'Refuse unless it is still the bucket of this principal.' },
      },
      ['owner'],
    ),
    answer: bucket,
    run: changeOwner,
  },
  {
    method: 'PUT',
    url: `${url}/uploads/:upload/initiator`,
    action: 'bursar:TransferUpload',
    summary: "Have an unfinished upload be another principal's, who may list and abort it.",
    body: closedObject({ initiator: name, from: name }, ['initiator', 'from']),
    run: transferUpload,
  },
  {
    method: 'PUT',
    url: `${url}/undelete`,
    action: 'bursar:PutUndelete',
    summary: 'Hold what is overwritten or deleted in a bucket for a while. It counts as stored.',
    body: closedObject({ seconds: windowSeconds }, ['seconds']),
    answer: answerObject({
      ...bucket.properties,
      notice: text('What it costs, in words.'),
    }),
    run: async (call) => {
      const { seconds: asked } = call.body as { seconds: number };
      return {
        change: {
          kind: 'setUndelete',
          bucketId: (await bucketOf(call)).id,
          windowMs: asked * 1000,
        },
        answer: async () => ({ ...(await showBucket(call)), notice }),
      };
    },
  },
  {
    method: 'DELETE',
    url: `${url}/undelete`,
    action: 'bursar:DeleteUndelete',
    summary: 'Hold nothing any more, and let go of what was held.',
    run: async (call) => ({
      change: { kind: 'setUndelete', bucketId: (await bucketOf(call)).id, windowMs: null },
    }),
  },
]);

async function transferUpload(call: Call): Promise<Outcome> {
  const { initiator, from } = call.body as { initiator: string; from: string };
  const tenant = param(call, 't');
  const { id: bucketId } = await bucketOf(call);
  const { directory } = call.deps;
  if (!(await directory.readPrincipal(tenant, initiator))) throw new Refusal('NoSuchPrincipal');
  for (const principal of [from, initiator]) {
    await protectOthers(call.who, directory, { tenant, principal });
  }
  const [before, after] = [principalId(tenant, from), principalId(tenant, initiator)];
  const id = param(call, 'upload');
  return { change: { kind: 'transferUpload', bucketId, id, from: before, to: after } };
}

/** Asking again for what is so already changes nothing. */
async function changeOwner(call: Call): Promise<Outcome> {
  const wanted = call.body as { owner: string; from?: string };
  const [tenant, bucketName] = [param(call, 't'), param(call, 'bucket')];
  const to = ownerIn(tenant, wanted.owner);
  const { owner: from } = await bucketOf(call);
  if (from === to) return { answer: await showBucket(call) };
  if (wanted.from !== undefined && wanted.from !== from) {
    const message = `The bucket is ${tenant}/${from}'s.`;
    throw new Refusal('PreconditionFailed', { message });
  }
  const { directory } = call.deps;
  for (const principal of [from, to]) {
    await protectOthers(call.who, directory, { tenant, principal });
  }
  return {
    change: { kind: 'changeOwner', tenant, name: bucketName, from, to },
    answer: () => showBucket(call),
  };
}

/** The name of a principal of the tenant. Throws `Refusal` for one of another. */
function ownerIn(tenant: string, written: string): string {
  const [, of = tenant, principal] = /^(?:([^/]*)\/)?([^/]*)$/.exec(written) ?? [];
  if (principal === undefined || !isName(principal)) {
    const message = notTheName(written, 'a principal');
    throw new Refusal('InvalidInput', { message, fields: { field: 'owner' } });
  }
  if (of !== tenant) throw new Refusal('OtherTenant');
  return principal;
}

async function bucketOf(call: Call): Promise<Bucket> {
  const found = await call.deps.buckets.find(param(call, 't'), param(call, 'bucket'));
  return found ?? refuseMissing(call, 'NoSuchBucket');
}

const notice =
  'What is overwritten or deleted counts as stored until then: it is charged, and limits of ' +
  'stored bytes see it.';

async function showBucket(call: Call): Promise<object> {
  const { stores } = call.deps;
  const found = await bucketOf(call);
  const { id, tenant, name, owner, store, recordReads, createdMs } = found;
  const createdAt = isoTime(createdMs);
  const undelete = await showWindow(call.deps.read, id);
  const settings = { recordReads, readsPaidBy: readPayerOf(found), undelete };
  return { tenant, name, owner, store: stores.nameOf(store), ...settings, createdAt };
}
