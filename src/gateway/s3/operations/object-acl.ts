// The ACL of an object: the one list that every object has, by which its owner has every right.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import { aclReply, checkReach, readAcl } from '../buckets/acl.ts';
import { demandDigest } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const getObjectAcl: Operation<'object'> = {
  name: 'GetObjectAcl',
  action: 's3:GetObjectAcl',
  versionAction: 's3:GetObjectVersionAcl',
  resource: 'object',
  price: 'get',
  run: get,
};

async function get(context: Reserved<'object'>): Promise<Reply> {
  const version = await findAsked(context);
  const reply = aclReply(context.bucket);
  Object.assign(reply.headers, versionHeaders(context.bucket, version));
  return reply;
}

/** Takes that list only. */
export const putObjectAcl: Operation<'object'> = {
  name: 'PutObjectAcl',
  action: 's3:PutObjectAcl',
  versionAction: 's3:PutObjectVersionAcl',
  resource: 'object',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  run: put,
};

async function put(context: Reserved<'object'>): Promise<Reply> {
  const body = await receiveSmall(context);
  if (body.length > 0) demandDigest(context);
  checkReach(context.bucket, readAcl(context, body));
  const version = await findAsked(context, 'MethodNotAllowed');
  await context.commit({ kind: 'none' }, { change: recordedChange({ acl: 'private' }) });
  return emptyReply(200, versionHeaders(context.bucket, version));
}
