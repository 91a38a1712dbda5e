// PutBucketOwnershipControls: may the bucket and its objects be given ACLs (acl.ts)?
import { recordedChange } from '../../audit/recorded-change.ts';
import { parseOwnership } from '../acl.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

const bodyBytesMax = 64 * 1024;

export const putBucketOwnershipControls: Operation<'bucket'> = {
  name: 'PutBucketOwnershipControls',
  action: 's3:PutBucketOwnershipControls',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const ownership = parseOwnership(await receiveDocument(context));
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'ownership', document: ownership },
    { change: recordedChange({ ownership }) },
  );
  return emptyReply(200);
}
