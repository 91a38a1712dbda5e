// GetBucketPolicyStatus: does the policy let everybody in?

import { isPublic, parsePolicy } from '../../authz/grants/policy.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { policyText } from './get-bucket-policy.ts';

export const getBucketPolicyStatus: Operation<'bucket'> = {
  name: 'GetBucketPolicyStatus',
  action: 's3:GetBucketPolicyStatus',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const rules = parsePolicy(Buffer.from(policyText(context)), context.bucket);
  return xmlReply('PolicyStatus', { IsPublic: isPublic(rules) });
}
