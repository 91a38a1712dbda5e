// PutObjectLockConfiguration: gives a bucket with versioning object lock, for ever, or another
// default retention.
import { recordedChange } from '../../audit/recorded-change.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { lockConfigurationElements, parseLockConfiguration } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

const bodyBytesMax = 64 * 1024;

export const putObjectLockConfiguration: Operation<'bucket'> = {
  name: 'PutObjectLockConfiguration',
  action: 's3:PutBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const config = parseLockConfiguration(await receiveDocument(context));
  await context.commit(
    {
      kind: 'putBucketSetting',
      bucketId: context.bucket.id,
      name: 'objectLock',
      document: JSON.stringify(config),
    },
    { change: recordedChange({ objectLock: lockConfigurationElements(config) }) },
  );
  return emptyReply(200);
}
