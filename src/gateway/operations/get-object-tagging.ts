// GetObjectTagging: the tags of an object, in the order of their keys.
import { compareText } from '../../core/text-order.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import type { Context, Reply } from '../context.ts';
import { tagsOf } from '../object-tags.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getObjectTagging: Operation = {
  name: 'GetObjectTagging',
  action: 's3:GetObjectTagging',
  versionAction: 's3:GetObjectVersionTagging',
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const version = await findAsked(context, 'MethodNotAllowed');
  const tags = [...tagsOf(version)].sort(([a], [b]) => compareText(a, b));
  const shown = tags.map(([Key, Value]) => ({ Key, Value }));
  const reply = xmlReply('Tagging', { TagSet: { Tag: shown } });
  Object.assign(reply.headers, versionHeaders(context.bucket, version));
  return reply;
}
