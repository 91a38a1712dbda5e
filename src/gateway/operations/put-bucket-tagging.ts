// PutBucketTagging: all tags of a bucket, in the place of those it has.
import { recordedChange } from '../../audit/recorded-change.ts';
import { bucketTagsMax } from '../../core/limits.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { parseTagging } from '../object-tags.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

/** More than the tags can have, so that their reader can say what is wrong with them. */
const bodyBytesMax = 128 * 1024;

export const putBucketTagging: Operation<'bucket'> = {
  name: 'PutBucketTagging',
  action: 's3:PutBucketTagging',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const tags = parseTagging(await receiveDocument(context), bucketTagsMax);
  const { id: bucketId } = context.bucket;
  const document = tags.length > 0 ? JSON.stringify(tags) : null;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'tagging', document },
    { status: 204, change: recordedChange({ tags }) },
  );
  return emptyReply(204);
}
