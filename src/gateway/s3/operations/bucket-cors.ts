// The CORS rules of a bucket, which are set and removed as a whole.
import { corsBodyBytesMax } from '../../../core/limits.ts';
import { Pace } from '../../../core/pace.ts';
import { xmlReply } from '../../http/reply.ts';
import { parseLargeXml } from '../../http/xml.ts';
import type { CorsRule } from '../buckets/cors.ts';
import { corsElements, parseCorsRules } from '../buckets/cors-xml.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Reserved } from '../stages.ts';
import { bucketSetting, notSet } from './bucket-setting.ts';

export const [getBucketCors, putBucketCors, deleteBucketCors] = bucketSetting({
  operations: ['GetBucketCors', 'PutBucketCors', 'DeleteBucketCors'],
  actions: { read: 's3:GetBucketCORS', write: 's3:PutBucketCORS' },
  bodyBytesMax: corsBodyBytesMax,
  show: async (context) => {
    const found = await context.services.cors.find(context.bucket.id);
    if (!found) throw notSet('NoSuchCORSConfiguration', context);
    return xmlReply('CORSConfiguration', corsElements(found.rules));
  },
  receive,
  store: (rules) => ({ name: 'cors', document: rules && JSON.stringify(rules) }),
  record: (cors) => ({ cors }),
});

async function receive(context: Reserved<'bucket'>): Promise<readonly CorsRule[]> {
  const body = await receiveDocument(context);
  const root = await parseLargeXml(body, 'CORSConfiguration');
  const pace = new Pace();
  await pace.rest();
  const rules = parseCorsRules(root);
  await pace.rest();
  return rules;
}
