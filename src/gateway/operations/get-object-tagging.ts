// GetObjectTagging: the tags that came with the object, in their order.
import { findCurrent } from '../../catalog/versions.ts';
import type { Context, Reply } from '../context.ts';
import { tagsOf } from '../object-tags.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getObjectTagging: Operation = {
  name: 'GetObjectTagging',
  action: 's3:GetObjectTagging',
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const version = await findCurrent(context.rooms, context.bucket, context.key);
  if (!version) throw await context.missingKey();
  await context.admitVersion(version);
  const tags = tagsOf(version).map(([Key, Value]) => ({ Key, Value }));
  return xmlReply('Tagging', { TagSet: { Tag: tags } });
}
