// GetObjectAcl.
import { aclReply } from '../acl.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';

export const getObjectAcl: Operation = {
  name: 'GetObjectAcl',
  action: 's3:GetObjectAcl',
  versionAction: 's3:GetObjectVersionAcl',
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const version = await findAsked(context);
  const reply = aclReply(context.bucket);
  Object.assign(reply.headers, versionHeaders(context.bucket, version));
  return reply;
}
