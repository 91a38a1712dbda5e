// The policy of a bucket, kept as it was sent, after it was understood in full.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { isPublic, parsePolicy } from '../../../authz/grants/policy.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, xmlReply } from '../../http/reply.ts';
import { warnOfNobody } from '../../named-subjects.ts';
import { receiveSmall } from '../body.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

const getBucketPolicy: Operation<'bucket'> = {
  name: 'GetBucketPolicy',
  action: 's3:GetBucketPolicy',
  resource: 'bucket',
  price: 'get',
  async run(context) {
    refuseOtherTenants(context);
    const headers = { 'content-type': 'application/json' };
    return { status: 200, headers, body: policyText(context) };
  },
};

/** Throws `Refusal` NoSuchBucketPolicy. */
function policyText({ bucket, askedName }: Reserved<'bucket'>): string {
  if (bucket.policy !== null) return bucket.policy;
  throw new Refusal('NoSuchBucketPolicy', { fields: { BucketName: askedName } });
}

/** Says whether the policy lets everybody in. */
export const getBucketPolicyStatus: Operation<'bucket'> = {
  name: 'GetBucketPolicyStatus',
  action: 's3:GetBucketPolicyStatus',
  resource: 'bucket',
  price: 'get',
  async run(context) {
    const rules = parsePolicy(Buffer.from(policyText(context)), context.bucket);
    return xmlReply('PolicyStatus', { IsPublic: isPublic(rules) });
  },
};

/**
 * Who denies themselves everything can still replace the policy (authz/grants/decide.ts), so
 * `x-amz-confirm-remove-self-bucket-access` has nothing to confirm.
 */
const putBucketPolicy: Operation<'bucket'> = {
  name: 'PutBucketPolicy',
  action: 's3:PutBucketPolicy',
  resource: 'bucket',
  price: 'put',
  // More than a policy can have, so that its reader can say how long one may be.
  bodyBytesMax: 64 * 1024,
  async run(context) {
    refuseOtherTenants(context);
    const { bucket } = context;
    const text = await receiveSmall(context);
    const rules = parsePolicy(text, bucket);
    const policy = text.toString('utf8');
    await context.commit(
      { kind: 'putBucketPolicy', bucketId: bucket.id, policy, isPublic: isPublic(rules) },
      { status: 204, change: recordedChange({ policy }) },
    );
    const subjects = rules.flatMap((rule) => rule.subjects.names);
    const { directory } = context.services;
    const warnings = await warnOfNobody(directory, context.who.principal, subjects);
    const reply = emptyReply(204);
    if (warnings.length === 0) return reply;
    return { ...reply, headers: { ...reply.headers, [warningHeader]: warnings.join('; ') } };
  },
};

/** Whom a policy names that is nobody. Names are ASCII. */
const warningHeader = 'x-bursar-warning';

/** Deleting one that is not there succeeds. */
const deleteBucketPolicy: Operation<'bucket'> = {
  name: 'DeleteBucketPolicy',
  action: 's3:DeleteBucketPolicy',
  resource: 'bucket',
  price: 'free',
  async run(context) {
    refuseOtherTenants(context);
    const change = { kind: 'putBucketPolicy', bucketId: context.bucket.id, policy: null } as const;
    await context.commit(change, { status: 204 });
    return emptyReply(204);
  },
};

export const bucketPolicy = {
  GET: getBucketPolicy,
  PUT: putBucketPolicy,
  DELETE: deleteBucketPolicy,
};

/** As on S3: whatever rules say, a policy is the business of the bucket's own tenant. */
function refuseOtherTenants({ bucket, tenant, request }: Reserved<'bucket'>): void {
  if (bucket.tenant === tenant) return;
  const fields = { Method: request.method, ResourceType: 'BUCKETPOLICY' };
  throw new Refusal('MethodNotAllowed', { fields });
}
