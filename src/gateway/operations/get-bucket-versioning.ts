// GetBucketVersioning. A bucket that never had versioning has no status.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getBucketVersioning: Operation = {
  name: 'GetBucketVersioning',
  action: 's3:GetBucketVersioning',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket: { versioning } }: Context): Promise<Reply> {
  const Status = versioning === 'Unversioned' ? undefined : versioning;
  return xmlReply('VersioningConfiguration', { Status });
}
