// DeleteBucket: an empty one only.

import { emptyReply, type Reply } from '../../http/reply.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const deleteBucket: Operation<'bucket'> = {
  name: 'DeleteBucket',
  action: 's3:DeleteBucket',
  resource: 'bucket',
  price: 'free',
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  await context.commit({ kind: 'deleteBucket', bucketId: context.bucket.id }, { status: 204 });
  return emptyReply(204);
}
