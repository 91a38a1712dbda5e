// DeleteBucket: an empty one only.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

export const deleteBucket: Operation = {
  name: 'DeleteBucket',
  action: 's3:DeleteBucket',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  await context.commit({ kind: 'deleteBucket', bucketId: context.bucket.id }, { status: 204 });
  return emptyReply(204);
}
