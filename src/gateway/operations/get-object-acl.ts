// GetObjectAcl.
import { aclReply } from '../acl.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import type { Operation } from '../operation.ts';
import type { Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getObjectAcl: Operation<'object'> = {
  name: 'GetObjectAcl',
  action: 's3:GetObjectAcl',
  versionAction: 's3:GetObjectVersionAcl',
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const version = await findAsked(context);
  const reply = aclReply(context.bucket);
  Object.assign(reply.headers, versionHeaders(context.bucket, version));
  return reply;
}
