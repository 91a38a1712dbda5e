// DeleteBucketPolicy. Deleting one that is not there succeeds.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';
import { refuseOtherTenants } from './put-bucket-policy.ts';

export const deleteBucketPolicy: Operation = {
  name: 'DeleteBucketPolicy',
  action: 's3:DeleteBucketPolicy',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  refuseOtherTenants(context);
  const change = { kind: 'putBucketPolicy', bucketId: context.bucket.id, policy: null } as const;
  await context.commit(change, { status: 204 });
  return emptyReply(204);
}
