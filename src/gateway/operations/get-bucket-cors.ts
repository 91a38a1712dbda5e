// GetBucketCors.
import { Refusal } from '../../core/errors.ts';
import type { Context, Reply } from '../context.ts';
import { corsElements } from '../cors-xml.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getBucketCors: Operation = {
  name: 'GetBucketCors',
  action: 's3:GetBucketCORS',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ rooms, bucket, askedName }: Context): Promise<Reply> {
  const found = await rooms.cors.find(bucket.id);
  if (found) return xmlReply('CORSConfiguration', corsElements(found.rules));
  throw new Refusal('NoSuchCORSConfiguration', { fields: { BucketName: askedName } });
}
