// HeadBucket.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';
import { storeHeader } from '../store-list.ts';

export const headBucket: Operation = {
  name: 'HeadBucket',
  action: 's3:ListBucket',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { region, stores } = context.rooms;
  return emptyReply(200, {
    [storeHeader]: stores.nameOf(context.bucket.store),
    'x-amz-bucket-region': region,
    'x-amz-access-point-alias': 'false',
    'content-type': 'application/xml',
  });
}
