// GetBucketPolicy: the text as it was sent.

import { Refusal } from '../../core/errors.ts';
import type { Operation } from '../operation.ts';
import type { Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { refuseOtherTenants } from './put-bucket-policy.ts';

export const getBucketPolicy: Operation<'bucket'> = {
  name: 'GetBucketPolicy',
  action: 's3:GetBucketPolicy',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  refuseOtherTenants(context);
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: policyText(context),
  };
}

/** Throws `Refusal` NoSuchBucketPolicy. */
export function policyText({ bucket, askedName }: Reserved<'bucket'>): string {
  if (bucket.policy !== null) return bucket.policy;
  throw new Refusal('NoSuchBucketPolicy', { fields: { BucketName: askedName } });
}
