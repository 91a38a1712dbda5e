// PutPublicAccessBlock.
import { recordedChange } from '../../audit/recorded-change.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { parsePublicAccess } from '../public-access.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

const bodyBytesMax = 64 * 1024;

export const putPublicAccessBlock: Operation<'bucket'> = {
  name: 'PutPublicAccessBlock',
  action: 's3:PutBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const publicAccess = parsePublicAccess(await receiveDocument(context));
  const { id: bucketId } = context.bucket;
  const document = JSON.stringify(publicAccess);
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'publicAccess', document },
    { change: recordedChange({ publicAccess }) },
  );
  return emptyReply(200);
}
