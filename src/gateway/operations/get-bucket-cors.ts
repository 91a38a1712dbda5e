// GetBucketCors.
import { Refusal } from '../../core/errors.ts';
import { corsElements } from '../cors-xml.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getBucketCors: Operation<'bucket'> = {
  name: 'GetBucketCors',
  action: 's3:GetBucketCORS',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ rooms, bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const found = await rooms.cors.find(bucket.id);
  if (found) return xmlReply('CORSConfiguration', corsElements(found.rules));
  throw new Refusal('NoSuchCORSConfiguration', { fields: { BucketName: askedName } });
}
