// DeleteBucketCors. Deleting rules that are not there succeeds.

import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { setCors } from './put-bucket-cors.ts';

export const deleteBucketCors: Operation<'bucket'> = {
  name: 'DeleteBucketCors',
  action: 's3:PutBucketCORS',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  await setCors(context, null, 204);
  return emptyReply(204);
}
