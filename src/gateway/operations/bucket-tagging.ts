// The tags of a bucket, which are set and removed as a whole.
import { recordedChange } from '../../audit/recorded-change.ts';
import { readSetting } from '../../catalog/bucket-settings.ts';
import type { Tags } from '../../catalog/versions.ts';
import { Refusal } from '../../core/errors.ts';
import { bucketTagsMax } from '../../core/limits.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { parseTagging } from '../object-tags.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply, xmlReply } from '../reply.ts';
import type { Reserved } from '../stages.ts';

export const getBucketTagging: Operation<'bucket'> = {
  name: 'GetBucketTagging',
  action: 's3:GetBucketTagging',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run: get,
};

async function get({ rooms, bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const document = await readSetting(rooms.read, bucket.id, 'tagging');
  if (document === null) throw new Refusal('NoSuchTagSet', { fields: { BucketName: askedName } });
  const tags = (JSON.parse(document) as Tags).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply('Tagging', { TagSet: { Tag: tags } });
}

/** More than the tags can have, so that their reader can say what is wrong with them. */
const bodyBytesMax = 128 * 1024;

export const putBucketTagging: Operation<'bucket'> = {
  name: 'PutBucketTagging',
  action: 's3:PutBucketTagging',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run: put,
};

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  const tags = parseTagging(await receiveDocument(context), bucketTagsMax);
  const { id: bucketId } = context.bucket;
  const document = tags.length > 0 ? JSON.stringify(tags) : null;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'tagging', document },
    { status: 204, change: recordedChange({ tags }) },
  );
  return emptyReply(204);
}

/** Deleting tags that are not there succeeds. */
export const deleteBucketTagging: Operation<'bucket'> = {
  name: 'DeleteBucketTagging',
  action: 's3:PutBucketTagging',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run: remove,
};

async function remove(context: Reserved<'bucket'>): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'tagging', document: null },
    { status: 204, change: recordedChange({ tags: null }) },
  );
  return emptyReply(204);
}
