// DeleteBucketCors. Deleting rules that are not there succeeds.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';
import { setCors } from './put-bucket-cors.ts';

export const deleteBucketCors: Operation = {
  name: 'DeleteBucketCors',
  action: 's3:PutBucketCORS',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  await setCors(context, null, 204);
  return emptyReply(204);
}
