// PutBucketCors: all CORS rules of a bucket, in the place of those it has.
import { recordedLargeChange } from '../../audit/recorded-change.ts';
import { corsBodyBytesMax } from '../../core/limits.ts';
import { Pace } from '../../core/pace.ts';
import type { CorsRule } from '../cors.ts';
import { parseCorsRules } from '../cors-xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { parseLargeXml } from '../xml.ts';

export const putBucketCors: Operation<'bucket'> = {
  name: 'PutBucketCors',
  action: 's3:PutBucketCORS',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: corsBodyBytesMax,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
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
export async function setCors(
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
