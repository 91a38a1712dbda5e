// PutObjectRetention: sets, lengthens or, where that is allowed, shortens or ends the retention of a
// version.
import { recordedChange } from '../../audit/recorded-change.ts';
import type { Retention } from '../../catalog/object-lock.ts';
import { Refusal } from '../../core/errors.ts';
import { findAsked, shownId } from '../asked-version.ts';
import type { Context, Reply } from '../context.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { bypassesGovernance, demandObjectLock, shownRetention } from '../object-lock.ts';
import { parseRetention } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

const bodyBytesMax = 64 * 1024;

export const putObjectRetention: Operation = {
  name: 'PutObjectRetention',
  action: 's3:PutObjectRetention',
  takesVersion: true,
  resource: 'object',
  price: 'put',
  bodyBytesMax,
  admit,
  run,
};

/** From the admission of a request to its run. */
const admitted = new WeakMap<Context, Retention | null>();

/** Rules may depend on what is in the body, so it is read before anything is decided. */
async function admit(context: Context): Promise<void> {
  if (context.who.isAnonymous) throw new Refusal('AccessDenied');
  const retention = parseRetention(await receiveDocument(context, bodyBytesMax));
  context.learnLock({ ...(retention && { retention }) });
  admitted.set(context, retention);
  await context.authorizeKey('s3:PutObjectRetention');
}

async function run(context: Context): Promise<Reply> {
  demandObjectLock(context);
  const retention = admitted.get(context) as Retention | null;
  const { bucket, key } = context;
  const versionId = shownId(bucket, await findAsked(context, 'MethodNotAllowed'));
  const bypassGovernance = await bypassesGovernance(context, { key, versionId });
  const told = { retention: retention && shownRetention(retention), bypassGovernance };
  await context.commit(
    {
      kind: 'amendVersion',
      bucketId: bucket.id,
      key,
      versionId,
      amendment: { retention },
      bypassGovernance,
    },
    { change: recordedChange(told) },
  );
  return emptyReply(200);
}
