// GetObjectLockConfiguration.
import { Refusal } from '../../core/errors.ts';
import type { Context, Reply } from '../context.ts';
import { lockConfigurationElements } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getObjectLockConfiguration: Operation = {
  name: 'GetObjectLockConfiguration',
  action: 's3:GetBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket, askedName }: Context): Promise<Reply> {
  if (bucket.objectLock) {
    return xmlReply('ObjectLockConfiguration', lockConfigurationElements(bucket.objectLock));
  }
  const fields = { BucketName: askedName };
  throw new Refusal('ObjectLockConfigurationNotFoundError', { fields });
}
