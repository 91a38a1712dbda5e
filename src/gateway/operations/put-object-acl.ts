// PutObjectAcl: takes the one list that every object has.
import { recordedChange } from '../../audit/recorded-change.ts';
import { checkReach, readAcl } from '../acl.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import { demandDigest } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

const bodyBytesMax = 64 * 1024;

export const putObjectAcl: Operation<'object'> = {
  name: 'PutObjectAcl',
  action: 's3:PutObjectAcl',
  versionAction: 's3:PutObjectVersionAcl',
  resource: 'object',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const body = await receiveSmall(context);
  if (body.length > 0) demandDigest(context);
  checkReach(context.bucket, readAcl(context, body));
  const version = await findAsked(context, 'MethodNotAllowed');
  await context.commit({ kind: 'none' }, { change: recordedChange({ acl: 'private' }) });
  return emptyReply(200, versionHeaders(context.bucket, version));
}
