// GetPublicAccessBlock.
import { Refusal } from '../../core/errors.ts';
import type { Operation } from '../operation.ts';
import { publicAccessElements } from '../public-access.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getPublicAccessBlock: Operation<'bucket'> = {
  name: 'GetPublicAccessBlock',
  action: 's3:GetBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const { publicAccess } = bucket;
  if (publicAccess) {
    return xmlReply('PublicAccessBlockConfiguration', publicAccessElements(publicAccess));
  }
  const fields = { BucketName: askedName };
  throw new Refusal('NoSuchPublicAccessBlockConfiguration', { fields });
}
