// HeadBucket.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

export const headBucket: Operation = {
  name: 'HeadBucket',
  action: 's3:ListBucket',
  resource: 'bucket',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  return emptyReply(200, {
    'x-amz-bucket-region': context.rooms.region,
    'x-amz-access-point-alias': 'false',
    'content-type': 'application/xml',
  });
}
