// GetBucketAcl.
import { aclReply } from '../acl.ts';
import type { Operation } from '../operation.ts';
import type { Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getBucketAcl: Operation<'bucket'> = {
  name: 'GetBucketAcl',
  action: 's3:GetBucketAcl',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket }: Reserved<'bucket'>): Promise<Reply> {
  return aclReply(bucket);
}
