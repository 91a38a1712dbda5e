// The CORS rules of a bucket, which are set and removed as a whole.
import { recordedLargeChange } from '../../audit/recorded-change.ts';
import { Refusal } from '../../core/errors.ts';
import { corsBodyBytesMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import type { CorsRule } from '../cors.ts';
import { corsElements, parseCorsRules } from '../cors-xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply, xmlReply } from '../reply.ts';
import type { Reserved } from '../stages.ts';
import { parseLargeXml } from '../xml.ts';

export const getBucketCors: Operation<'bucket'> = {
  name: 'GetBucketCors',
  action: 's3:GetBucketCORS',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run: get,
};

async function get({ rooms, bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const found = await rooms.cors.find(bucket.id);
  if (found) return xmlReply('CORSConfiguration', corsElements(found.rules));
  throw new Refusal('NoSuchCORSConfiguration', { fields: { BucketName: askedName } });
}

export const putBucketCors: Operation<'bucket'> = {
  name: 'PutBucketCors',
  action: 's3:PutBucketCORS',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: corsBodyBytesMax,
  run: put,
};

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  const body = await receiveDocument(context);
  const root = await parseLargeXml(body, 'CORSConfiguration');
  const pace = new Pace();
  await pace.rest();
  const rules = parseCorsRules(root);
  await pace.rest();
  await setCors(context, rules, 200);
  return emptyReply(200);
}

/** null: the bucket has no rules from now on. */
async function setCors(
  context: Reserved<'bucket'>,
  cors: readonly CorsRule[] | null,
  status: number,
): Promise<void> {
  const document = cors && JSON.stringify(cors);
  await context.commit(
    { kind: 'putBucketSetting', bucketId: context.bucket.id, name: 'cors', document },
    { status, change: await recordedLargeChange({ cors }) },
  );
}

/** Deleting rules that are not there succeeds. */
export const deleteBucketCors: Operation<'bucket'> = {
  name: 'DeleteBucketCors',
  action: 's3:PutBucketCORS',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run: remove,
};

async function remove(context: Reserved<'bucket'>): Promise<Reply> {
  await setCors(context, null, 204);
  return emptyReply(204);
}
