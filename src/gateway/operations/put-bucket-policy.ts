// PutBucketPolicy: kept as it came, after it was understood in full. Who denies themselves
// everything can still replace it (authz/grants/decide.ts), so
// `x-amz-confirm-remove-self-bucket-access` has nothing to confirm.
import { recordedChange } from '../../audit/recorded-change.ts';
import { isPublic, parsePolicy } from '../../authz/grants/policy.ts';
import { Refusal } from '../../core/errors.ts';
import { receiveSmall } from '../body.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

/** More than a policy can have, so that its reader can say how long one may be. */
const bodyBytesMax = 64 * 1024;

export const putBucketPolicy: Operation<'bucket'> = {
  name: 'PutBucketPolicy',
  action: 's3:PutBucketPolicy',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  refuseOtherTenants(context);
  const { bucket } = context;
  const text = await receiveSmall(context);
  if (text.length === 0) throw new Refusal('MissingRequestBodyError');
  const rules = parsePolicy(text, bucket);
  const policy = text.toString('utf8');
  await context.commit(
    { kind: 'putBucketPolicy', bucketId: bucket.id, policy, isPublic: isPublic(rules) },
    { status: 204, change: recordedChange({ policy }) },
  );
  return emptyReply(204);
}

/** As on S3: whatever rules say, a policy is the business of the bucket's own tenant. */
export function refuseOtherTenants({ bucket, tenant, request }: Reserved<'bucket'>): void {
  if (bucket.tenant === tenant) return;
  const fields = { Method: request.method, ResourceType: 'BUCKETPOLICY' };
  throw new Refusal('MethodNotAllowed', { fields });
}
