// DeleteObject. Deleting what is not there succeeds. In a bucket with versioning it puts a delete
// marker; with a `versionId` it deletes that version for good.

import { emptyReply, type Reply } from '../../http/reply.ts';
import { deletionHeaders } from '../asked-version.ts';
import { decideDeletion } from '../conditional.ts';
import { bypassesGovernance, shownBypass } from '../objects/object-lock.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const deleteObject: Operation<'object'> = {
  name: 'DeleteObject',
  action: 's3:DeleteObject',
  versionAction: 's3:DeleteObjectVersion',
  resource: 'object',
  price: 'free',
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { bucket, key, versionId } = context;
  const bypassGovernance = await bypassesGovernance(context, context);
  const deleted = await context.commit(
    {
      kind: 'deleteObject',
      bucketId: bucket.id,
      key,
      versionId,
      conditions: await decideDeletion(context),
      bypassGovernance,
    },
    { status: 204, ...shownBypass(bypassGovernance) },
  );
  return emptyReply(204, deletionHeaders(deleted, versionId));
}
