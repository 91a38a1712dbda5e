// DeleteBucketTagging. Deleting those that are not there succeeds.
import { recordedChange } from '../../audit/recorded-change.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const deleteBucketTagging: Operation<'bucket'> = {
  name: 'DeleteBucketTagging',
  action: 's3:PutBucketTagging',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'tagging', document: null },
    { status: 204, change: recordedChange({ tags: null }) },
  );
  return emptyReply(204);
}
