// GetBucketAcl.
import { aclReply } from '../acl.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';

export const getBucketAcl: Operation = {
  name: 'GetBucketAcl',
  action: 's3:GetBucketAcl',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket }: Context): Promise<Reply> {
  return aclReply(bucket);
}
