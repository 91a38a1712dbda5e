// The retention of a version: until when it cannot be deleted.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { Lock, Retention } from '../../../catalog/object-lock.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, type Reply, xmlReply } from '../../http/reply.ts';
import { findAsked, shownId } from '../asked-version.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { bypassesGovernance, demandObjectLock, shownRetention } from '../objects/object-lock.ts';
import { parseRetention, retentionElements } from '../objects/object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import type { Asked, Reserved } from '../stages.ts';

export const getObjectRetention: Operation<'object'> = {
  name: 'GetObjectRetention',
  action: 's3:GetObjectRetention',
  takesVersion: true,
  resource: 'object',
  price: 'get',
  run: get,
};

async function get(context: Reserved<'object'>): Promise<Reply> {
  demandObjectLock(context);
  const { attributes } = await findAsked(context);
  const { retention } = JSON.parse(attributes) as Lock;
  if (!retention) throw new Refusal('NoSuchObjectLockConfiguration');
  return xmlReply('Retention', retentionElements(retention));
}

/** Sets or lengthens it; shortens or ends it where that is allowed. */
export const putObjectRetention: Operation<'object', Retention | null> = {
  name: 'PutObjectRetention',
  action: 's3:PutObjectRetention',
  takesVersion: true,
  resource: 'object',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  parse,
  admit,
  run: put,
};

/** Rules may depend on what is in the body, so it is read before anything is decided. */
async function parse(asked: Asked<'object'>): Promise<Retention | null> {
  if (asked.who.isAnonymous) throw new Refusal('AccessDenied');
  return parseRetention(await receiveDocument(asked));
}

function admit(asked: Asked<'object'>, retention: Retention | null): Promise<void> {
  asked.learnLock({ ...(retention && { retention }) });
  return asked.authorizeKey('s3:PutObjectRetention');
}

async function put(context: Reserved<'object'>, retention: Retention | null): Promise<Reply> {
  demandObjectLock(context);
  const { bucket, key } = context;
  const versionId = shownId(bucket, await findAsked(context, 'MethodNotAllowed'));
  const bypassGovernance = await bypassesGovernance(context, { key, versionId });
  const told = { retention: retention && shownRetention(retention), bypassGovernance };
  await context.commit(
    {
      kind: 'amendVersion',
      bucketId: bucket.id,
      key,
      versionId,
      amendment: { retention },
      bypassGovernance,
    },
    { change: recordedChange(told) },
  );
  return emptyReply(200);
}
