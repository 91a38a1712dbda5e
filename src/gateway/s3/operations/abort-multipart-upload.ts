// AbortMultipartUpload: its parts are let go of in one commit.

import { emptyReply, type Reply } from '../../http/reply.ts';
import { uploadIdOf } from '../buckets/listing-xml.ts';
import { admitInitiator, findOpenUpload } from '../objects/upload-attributes.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const abortMultipartUpload: Operation<'object'> = {
  name: 'AbortMultipartUpload',
  action: 's3:AbortMultipartUpload',
  resource: 'object',
  price: 'free',
  admit: admitInitiator,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { bucket, key, request } = context;
  // Of others a token that lets its bearer only create must not abort any.
  if (context.asked.mustCreate()) await findOpenUpload(context);
  const uploadId = uploadIdOf(request);
  const place = { tenant: bucket.tenant, bucketId: bucket.id, key, uploadId };
  const target = `uploads/${uploadId}`;
  await context.commit({ kind: 'abortUpload', ...place }, { status: 204, target });
  return emptyReply(204);
}
