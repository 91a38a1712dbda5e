// PutObjectLockConfiguration: gives a bucket with versioning object lock, for ever, or another default
// retention.
import { recordedChange } from '../../audit/recorded-change.ts';
import type { Context, Reply } from '../context.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { lockConfigurationElements, parseLockConfiguration } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

const bodyBytesMax = 64 * 1024;

export const putObjectLockConfiguration: Operation = {
  name: 'PutObjectLockConfiguration',
  action: 's3:PutBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Context): Promise<Reply> {
  const config = parseLockConfiguration(await receiveDocument(context, bodyBytesMax));
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
