// GetBucketVersioning. A bucket that never had versioning has no status.
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getBucketVersioning: Operation<'bucket'> = {
  name: 'GetBucketVersioning',
  action: 's3:GetBucketVersioning',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket: { versioning } }: Reserved<'bucket'>): Promise<Reply> {
  const Status = versioning === 'Unversioned' ? undefined : versioning;
  return xmlReply('VersioningConfiguration', { Status });
}
