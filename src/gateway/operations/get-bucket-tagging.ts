// GetBucketTagging.
import { readSetting } from '../../catalog/bucket-settings.ts';
import type { Tags } from '../../catalog/versions.ts';
import { Refusal } from '../../core/errors.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getBucketTagging: Operation = {
  name: 'GetBucketTagging',
  action: 's3:GetBucketTagging',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ rooms, bucket, askedName }: Context): Promise<Reply> {
  const document = await readSetting(rooms.read, bucket.id, 'tagging');
  if (document === null) throw new Refusal('NoSuchTagSet', { fields: { BucketName: askedName } });
  const tags = (JSON.parse(document) as Tags).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply('Tagging', { TagSet: { Tag: tags } });
}
