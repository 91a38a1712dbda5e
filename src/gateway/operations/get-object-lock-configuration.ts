// GetObjectLockConfiguration.
import { Refusal } from '../../core/errors.ts';
import { lockConfigurationElements } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getObjectLockConfiguration: Operation<'bucket'> = {
  name: 'GetObjectLockConfiguration',
  action: 's3:GetBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  if (bucket.objectLock) {
    return xmlReply('ObjectLockConfiguration', lockConfigurationElements(bucket.objectLock));
  }
  const fields = { BucketName: askedName };
  throw new Refusal('ObjectLockConfigurationNotFoundError', { fields });
}
