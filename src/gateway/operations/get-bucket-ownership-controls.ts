// GetBucketOwnershipControls. As on S3, a new bucket has them, and says BucketOwnerEnforced.
import { Refusal } from '../../core/errors.ts';
import { enforced, noControls } from '../acl.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getBucketOwnershipControls: Operation<'bucket'> = {
  name: 'GetBucketOwnershipControls',
  action: 's3:GetBucketOwnershipControls',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const { ownership } = bucket;
  if (ownership === noControls) {
    const fields = { BucketName: askedName };
    throw new Refusal('OwnershipControlsNotFoundError', { fields });
  }
  const rule = { ObjectOwnership: ownership ?? enforced };
  return xmlReply('OwnershipControls', { Rule: rule });
}
