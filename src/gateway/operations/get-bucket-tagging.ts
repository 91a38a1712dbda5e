// GetBucketTagging.
import { readSetting } from '../../catalog/bucket-settings.ts';
import type { Tags } from '../../catalog/versions.ts';
import { Refusal } from '../../core/errors.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getBucketTagging: Operation<'bucket'> = {
  name: 'GetBucketTagging',
  action: 's3:GetBucketTagging',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ rooms, bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const document = await readSetting(rooms.read, bucket.id, 'tagging');
  if (document === null) throw new Refusal('NoSuchTagSet', { fields: { BucketName: askedName } });
  const tags = (JSON.parse(document) as Tags).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply('Tagging', { TagSet: { Tag: tags } });
}
