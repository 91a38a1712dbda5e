// GetObjectTagging: the tags of an object, in the order of their keys.
import { compareText } from '../../core/text-order.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import { tagsOf } from '../object-tags.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getObjectTagging: Operation<'object'> = {
  name: 'GetObjectTagging',
  action: 's3:GetObjectTagging',
  versionAction: 's3:GetObjectVersionTagging',
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const version = await findAsked(context, 'MethodNotAllowed');
  const tags = [...tagsOf(version)].sort(([a], [b]) => compareText(a, b));
  const shown = tags.map(([Key, Value]) => ({ Key, Value }));
  const reply = xmlReply('Tagging', { TagSet: { Tag: shown } });
  Object.assign(reply.headers, versionHeaders(context.bucket, version));
  return reply;
}
