// DeleteObject. Deleting what is not there succeeds.
import { decideConditions } from '../conditional.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

export const deleteObject: Operation = {
  name: 'DeleteObject',
  action: 's3:DeleteObject',
  resource: 'object',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { bucket, key } = context;
  const conditions = await decideConditions(context);
  await context.commit(
    { kind: 'deleteObject', bucketId: bucket.id, key, conditions },
    { status: 204 },
  );
  return emptyReply(204);
}
