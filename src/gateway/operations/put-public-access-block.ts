// PutPublicAccessBlock.
import { recordedChange } from '../../audit/recorded-change.ts';
import type { Context, Reply } from '../context.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { parsePublicAccess } from '../public-access.ts';
import { emptyReply } from '../replies.ts';

const bodyBytesMax = 64 * 1024;

export const putPublicAccessBlock: Operation = {
  name: 'PutPublicAccessBlock',
  action: 's3:PutBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Context): Promise<Reply> {
  const publicAccess = parsePublicAccess(await receiveDocument(context, bodyBytesMax));
  const { id: bucketId } = context.bucket;
  const document = JSON.stringify(publicAccess);
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'publicAccess', document },
    { change: recordedChange({ publicAccess }) },
  );
  return emptyReply(200);
}
