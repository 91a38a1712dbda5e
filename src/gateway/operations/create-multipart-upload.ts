// CreateMultipartUpload.
import { newUploadId } from '../../core/ids.ts';
import type { Context, Reply } from '../context.ts';
import { readAttributes, readClass } from '../object-attributes.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';
import { readUploadChecksum, type UploadAttributes } from '../upload-attributes.ts';

export const createMultipartUpload: Operation = {
  name: 'CreateMultipartUpload',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { request, bucket, key, rooms } = context;
  const checksum = readUploadChecksum(request);
  const attributes: UploadAttributes = { object: readAttributes(request), checksum };
  const id = newUploadId();
  await context.commit({
    kind: 'createUpload',
    id,
    bucketId: bucket.id,
    key,
    initiator: context.requester,
    class: readClass(request),
    attributes: JSON.stringify(attributes),
    epoch: rooms.keyring.currentEpoch,
  });
  const reply = xmlReply('InitiateMultipartUploadResult', {
    Bucket: bucket.name,
    Key: key,
    UploadId: id,
  });
  if (checksum) {
    reply.headers['x-amz-checksum-algorithm'] = checksum.algorithm;
    reply.headers['x-amz-checksum-type'] = checksum.type;
  }
  return reply;
}
