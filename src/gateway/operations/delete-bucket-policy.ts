// DeleteBucketPolicy. Deleting one that is not there succeeds.

import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { refuseOtherTenants } from './put-bucket-policy.ts';

export const deleteBucketPolicy: Operation<'bucket'> = {
  name: 'DeleteBucketPolicy',
  action: 's3:DeleteBucketPolicy',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  refuseOtherTenants(context);
  const change = { kind: 'putBucketPolicy', bucketId: context.bucket.id, policy: null } as const;
  await context.commit(change, { status: 204 });
  return emptyReply(204);
}
