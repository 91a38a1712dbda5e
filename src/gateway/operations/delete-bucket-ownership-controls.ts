// DeleteBucketOwnershipControls. Deleting those that are not there succeeds.
import { recordedChange } from '../../audit/recorded-change.ts';
import { noControls } from '../acl.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

export const deleteBucketOwnershipControls: Operation = {
  name: 'DeleteBucketOwnershipControls',
  action: 's3:PutBucketOwnershipControls',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'ownership', document: noControls },
    { status: 204, change: recordedChange({ ownership: null }) },
  );
  return emptyReply(204);
}
