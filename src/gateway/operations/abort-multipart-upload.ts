// AbortMultipartUpload: its parts are let go of in one commit.
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';
import { findOpenUpload } from '../upload-attributes.ts';

export const abortMultipartUpload: Operation = {
  name: 'AbortMultipartUpload',
  action: 's3:AbortMultipartUpload',
  resource: 'object',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { upload } = await findOpenUpload(context);
  await context.commit({ kind: 'abortUpload', uploadId: upload.id }, { status: 204 });
  return emptyReply(204);
}
