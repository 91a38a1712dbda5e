// CreateMultipartUpload.
import { newUploadId } from '../../../core/ids.ts';
import { type Reply, xmlReply } from '../../http/reply.ts';
import { checkWrittenAcl } from '../buckets/acl.ts';
import { abortHeaders } from '../objects/lifecycle-headers.ts';
import { readAttributes, readClass, readTags } from '../objects/object-attributes.ts';
import { readLock } from '../objects/object-lock.ts';
import { readUploadChecksum, type UploadAttributes } from '../objects/upload-attributes.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const createMultipartUpload: Operation<'object'> = {
  name: 'CreateMultipartUpload',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  tags: readTags,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { request, bucket, key, services } = context;
  const checksum = readUploadChecksum(request);
  const attributes: UploadAttributes = { object: readAttributes(request), checksum };
  if (context.tags.length > 0) attributes.object.tags = context.tags;
  checkWrittenAcl(context);
  Object.assign(attributes.object, await readLock(context));
  const storageClass = readClass(request);
  context.asked.checkWritten({ storageClass, sizeBytes: 0 });
  const id = newUploadId();
  const { timeMs: createdMs } = await context.commit(
    {
      kind: 'createUpload',
      id,
      bucketId: bucket.id,
      key,
      initiator: context.requester,
      class: storageClass,
      attributes: JSON.stringify(attributes),
      epoch: services.keyring.currentEpoch,
    },
    { target: `uploads/${id}` },
  );
  const reply = xmlReply('InitiateMultipartUploadResult', {
    Bucket: context.askedName,
    Key: key,
    UploadId: id,
  });
  Object.assign(reply.headers, await abortHeaders(context, { key, createdMs }));
  if (checksum) {
    reply.headers['x-amz-checksum-algorithm'] = checksum.algorithm;
    reply.headers['x-amz-checksum-type'] = checksum.type;
  }
  return reply;
}
