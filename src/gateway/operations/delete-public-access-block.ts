// DeletePublicAccessBlock. Deleting one that is not there succeeds.
import { recordedChange } from '../../audit/recorded-change.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const deletePublicAccessBlock: Operation<'bucket'> = {
  name: 'DeletePublicAccessBlock',
  action: 's3:PutBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'publicAccess', document: null },
    { status: 204, change: recordedChange({ publicAccess: null }) },
  );
  return emptyReply(204);
}
