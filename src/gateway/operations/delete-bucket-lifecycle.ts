// DeleteBucketLifecycle. Deleting rules that are not there succeeds.

import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { setLifecycle } from './put-bucket-lifecycle.ts';

export const deleteBucketLifecycle: Operation<'bucket'> = {
  name: 'DeleteBucketLifecycle',
  action: 's3:PutLifecycleConfiguration',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  await setLifecycle(context, null, 204);
  return emptyReply(204);
}
