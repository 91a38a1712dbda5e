// The lifecycle rules of a bucket, which are set and removed as a whole.
import { recordedLargeChange } from '../../audit/recorded-change.ts';
import { readSetting } from '../../catalog/bucket-settings.ts';
import {
  type LifecycleConfig,
  type TransitionMinimum,
  transitionMinimums,
} from '../../catalog/lifecycle.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { lifecycleBodyBytesMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import { receiveSmall } from '../body.ts';
import { demandDigest } from '../demanded-digest.ts';
import { lifecycleElements, parseLifecycle } from '../lifecycle-xml.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, largeXmlReply, type Reply } from '../reply.ts';
import type { Reserved } from '../stages.ts';
import { parseLargeXml } from '../xml.ts';

export const getBucketLifecycle: Operation<'bucket'> = {
  name: 'GetBucketLifecycleConfiguration',
  action: 's3:GetLifecycleConfiguration',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run: get,
};

async function get({ rooms, bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const document = await readSetting(rooms.read, bucket.id, 'lifecycle');
  if (document === null) {
    throw new Refusal('NoSuchLifecycleConfiguration', { fields: { BucketName: askedName } });
  }
  const { rules, transitionMinimum } = JSON.parse(document) as LifecycleConfig;
  const reply = await largeXmlReply('LifecycleConfiguration', lifecycleElements(rules));
  return { ...reply, headers: { ...reply.headers, [minimumHeader]: transitionMinimum } };
}

export const putBucketLifecycle: Operation<'bucket'> = {
  name: 'PutBucketLifecycleConfiguration',
  action: 's3:PutLifecycleConfiguration',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: lifecycleBodyBytesMax,
  run: put,
};

const minimumHeader = 'x-amz-transition-default-minimum-object-size';

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  demandDigest(context);
  const transitionMinimum = readMinimum(context);
  const body = await receiveSmall(context);
  if (body.length === 0) throw new Refusal('MissingRequestBodyError');
  const root = await parseLargeXml(body, 'LifecycleConfiguration');
  const pace = new Pace();
  await pace.wait();
  const config: LifecycleConfig = { rules: parseLifecycle(root), transitionMinimum };
  await pace.wait();
  await setLifecycle(context, config, 200);
  return emptyReply(200, { [minimumHeader]: transitionMinimum });
}

/** `null`: the bucket has no rules from now on. */
async function setLifecycle(
  context: Reserved<'bucket'>,
  config: LifecycleConfig | null,
  status: number,
): Promise<void> {
  const { id: bucketId } = context.bucket;
  const pace = new Pace();
  const document = config && JSON.stringify(config);
  await pace.rest();
  const change = await recordedLargeChange({ lifecycle: config });
  await pace.rest();
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'lifecycle', document },
    { status, change },
  );
}

/** Throws `Refusal` InvalidArgument. */
function readMinimum({ request }: Reserved<'bucket'>): TransitionMinimum {
  const asked = request.headers[minimumHeader];
  if (asked === undefined) return transitionMinimums[0];
  const known = transitionMinimums.find((one) => one === asked);
  if (!known) throw invalidArgument(minimumHeader, asked);
  return known;
}

/** Deleting rules that are not there succeeds. */
export const deleteBucketLifecycle: Operation<'bucket'> = {
  name: 'DeleteBucketLifecycle',
  action: 's3:PutLifecycleConfiguration',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run: remove,
};

async function remove(context: Reserved<'bucket'>): Promise<Reply> {
  await setLifecycle(context, null, 204);
  return emptyReply(204);
}
