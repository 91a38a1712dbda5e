// GetPublicAccessBlock.
import { Refusal } from '../../core/errors.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { publicAccessElements } from '../public-access.ts';
import { xmlReply } from '../replies.ts';

export const getPublicAccessBlock: Operation = {
  name: 'GetPublicAccessBlock',
  action: 's3:GetBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket, askedName }: Context): Promise<Reply> {
  const { publicAccess } = bucket;
  if (publicAccess) {
    return xmlReply('PublicAccessBlockConfiguration', publicAccessElements(publicAccess));
  }
  const fields = { BucketName: askedName };
  throw new Refusal('NoSuchPublicAccessBlockConfiguration', { fields });
}
