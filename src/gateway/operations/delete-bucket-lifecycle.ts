// DeleteBucketLifecycle. Deleting rules that are not there succeeds.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';
import { setLifecycle } from './put-bucket-lifecycle.ts';

export const deleteBucketLifecycle: Operation = {
  name: 'DeleteBucketLifecycle',
  action: 's3:PutLifecycleConfiguration',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  await setLifecycle(context, null, 204);
  return emptyReply(204);
}
