// The tags of a bucket, which are set and removed as a whole.
import { readSetting } from '../../../catalog/bucket-settings.ts';
import type { Tags } from '../../../catalog/versions.ts';
import { bucketTagsMax } from '../../../core/limits.ts';
import { emptyReply, xmlReply } from '../../http/reply.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { parseTagging } from '../objects/object-attributes.ts';
import { bucketSetting, notSet } from './bucket-setting.ts';

export const [getBucketTagging, putBucketTagging, deleteBucketTagging] = bucketSetting<Tags>({
  operations: ['GetBucketTagging', 'PutBucketTagging', 'DeleteBucketTagging'],
  actions: { read: 's3:GetBucketTagging', write: 's3:PutBucketTagging' },
  // More than the tags can have, so that their reader can say what is wrong with them.
  bodyBytesMax: 128 * 1024,
  show: async (context) => {
    const document = await readSetting(context.services.read, context.bucket.id, 'tagging');
    if (document === null) throw notSet('NoSuchTagSet', context);
    const tags = (JSON.parse(document) as Tags).map(([Key, Value]) => ({ Key, Value }));
    return xmlReply('Tagging', { TagSet: { Tag: tags } });
  },
  receive: async (context) => parseTagging(await receiveDocument(context), bucketTagsMax),
  // A bucket without tags has no tag set.
  store: (tags) => ({ name: 'tagging', document: tags?.length ? JSON.stringify(tags) : null }),
  record: (tags) => ({ tags }),
  answer: () => emptyReply(204),
});
