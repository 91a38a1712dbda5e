// HeadBucket.

import { emptyReply, type Reply } from '../../http/reply.ts';
import { storeHeader } from '../../store-list.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const headBucket: Operation<'bucket'> = {
  name: 'HeadBucket',
  action: 's3:ListBucket',
  resource: 'bucket',
  price: 'get',
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const { region, stores } = context.services;
  return emptyReply(200, {
    [storeHeader]: stores.nameOf(context.bucket.store),
    'x-amz-bucket-region': region,
    'x-amz-access-point-alias': 'false',
    'content-type': 'application/xml',
  });
}
