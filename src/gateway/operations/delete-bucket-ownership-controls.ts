// DeleteBucketOwnershipControls. Deleting those that are not there succeeds.
import { recordedChange } from '../../audit/recorded-change.ts';
import { noControls } from '../acl.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const deleteBucketOwnershipControls: Operation<'bucket'> = {
  name: 'DeleteBucketOwnershipControls',
  action: 's3:PutBucketOwnershipControls',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'ownership', document: noControls },
    { status: 204, change: recordedChange({ ownership: null }) },
  );
  return emptyReply(204);
}
