// The legal hold of a version, which lasts until it is taken away.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { Lock } from '../../../catalog/object-lock.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, type Reply, xmlReply } from '../../http/reply.ts';
import { findAsked, shownId } from '../asked-version.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { demandObjectLock } from '../objects/object-lock.ts';
import { parseLegalHold } from '../objects/object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import type { Asked, Reserved } from '../stages.ts';

export const getObjectLegalHold: Operation<'object'> = {
  name: 'GetObjectLegalHold',
  action: 's3:GetObjectLegalHold',
  takesVersion: true,
  resource: 'object',
  price: 'get',
  run: get,
};

async function get(context: Reserved<'object'>): Promise<Reply> {
  demandObjectLock(context);
  const { attributes } = await findAsked(context);
  const { legalHold } = JSON.parse(attributes) as Lock;
  if (legalHold === undefined) throw new Refusal('NoSuchObjectLockConfiguration');
  return xmlReply('LegalHold', { Status: legalHold ? 'ON' : 'OFF' });
}

export const putObjectLegalHold: Operation<'object', boolean> = {
  name: 'PutObjectLegalHold',
  action: 's3:PutObjectLegalHold',
  takesVersion: true,
  resource: 'object',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  parse,
  admit,
  run: put,
};

/** Rules may depend on what is in the body, so it is read before anything is decided. */
async function parse(asked: Asked<'object'>): Promise<boolean> {
  if (asked.who.isAnonymous) throw new Refusal('AccessDenied');
  return parseLegalHold(await receiveDocument(asked));
}

function admit(asked: Asked<'object'>, legalHold: boolean): Promise<void> {
  asked.learnLock({ legalHold });
  return asked.authorizeKey('s3:PutObjectLegalHold');
}

async function put(context: Reserved<'object'>, legalHold: boolean): Promise<Reply> {
  demandObjectLock(context);
  const { bucket, key } = context;
  const versionId = shownId(bucket, await findAsked(context, 'MethodNotAllowed'));
  const place = { bucketId: bucket.id, key, versionId };
  await context.commit(
    { kind: 'amendVersion', ...place, amendment: { legalHold } },
    { change: recordedChange({ legalHold }) },
  );
  return emptyReply(200);
}
