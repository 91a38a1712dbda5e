// The tags of a version. Rules can be about the tags that are set, so these are read before
// anything is decided, and in the same way where the object is not there.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { S3Action } from '../../../authz/grants/actions.ts';
import type { Tags } from '../../../catalog/versions.ts';
import { Refusal } from '../../../core/errors.ts';
import { compareText } from '../../../core/text-order.ts';
import { emptyReply, type Reply, xmlReply } from '../../http/reply.ts';
import { findAsked, shownId, versionHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import { parseTagging, tagsOf } from '../objects/object-attributes.ts';
import type { Operation } from '../operation.ts';
import type { Asked, Reserved } from '../stages.ts';

/** In the order of their keys. */
const getObjectTagging: Operation<'object'> = {
  name: 'GetObjectTagging',
  action: 's3:GetObjectTagging',
  versionAction: 's3:GetObjectVersionTagging',
  resource: 'object',
  price: 'get',
  run: get,
};

async function get(context: Reserved<'object'>): Promise<Reply> {
  const version = await findAsked(context, 'MethodNotAllowed');
  const tags = [...tagsOf(version)].sort(([a], [b]) => compareText(a, b));
  const shown = tags.map(([Key, Value]) => ({ Key, Value }));
  const reply = xmlReply('Tagging', { TagSet: { Tag: shown } });
  Object.assign(reply.headers, versionHeaders(context.bucket, version));
  return reply;
}

const putObjectTagging: Operation<'object', Tags> = {
  name: 'PutObjectTagging',
  action: 's3:PutObjectTagging',
  versionAction: 's3:PutObjectVersionTagging',
  resource: 'object',
  price: 'put',
  // More than 10 tags can have, so that their reader can say what is wrong with them.
  bodyBytesMax: 64 * 1024,
  parse,
  admit,
  run: (context, tags) => amendTags(context, tags, 200),
};

/** As on S3, nobody has to send a digest of these. */
async function parse(asked: Asked<'object'>): Promise<Tags> {
  const body = await receiveSmall(asked);
  if (body.length === 0) throw new Refusal('MissingRequestBodyError');
  return parseTagging(body);
}

function admit(asked: Asked<'object'>, tags: Tags): Promise<void> {
  asked.bring(tags, null);
  return asked.authorizeKey(asked.action as S3Action);
}

/**
 * Gives the version that is asked for these tags, in the place of those it has. Throws `Refusal`.
 */
async function amendTags(context: Reserved<'object'>, tags: Tags, status: number): Promise<Reply> {
  const { bucket, key } = context;
  const version = await findAsked(context, 'MethodNotAllowed');
  // This very one, for which it was decided, and no newer one.
  const versionId = shownId(bucket, version);
  await context.commit(
    { kind: 'amendVersion', bucketId: bucket.id, key, versionId, amendment: { tags } },
    { status, change: recordedChange({ tags }) },
  );
  return emptyReply(status, versionHeaders(bucket, version));
}

const deleteObjectTagging: Operation<'object'> = {
  name: 'DeleteObjectTagging',
  action: 's3:DeleteObjectTagging',
  versionAction: 's3:DeleteObjectVersionTagging',
  resource: 'object',
  price: 'free',
  run: (context) => amendTags(context, [], 204),
};

export const objectTagging = {
  GET: getObjectTagging,
  PUT: putObjectTagging,
  DELETE: deleteObjectTagging,
};
