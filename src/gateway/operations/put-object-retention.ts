// PutObjectRetention: sets, lengthens or, where that is allowed, shortens or ends the retention of
// a version.

import { recordedChange } from '../../audit/recorded-change.ts';
import type { Retention } from '../../catalog/object-lock.ts';
import { Refusal } from '../../core/errors.ts';
import { findAsked, shownId } from '../asked-version.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { bypassesGovernance, demandObjectLock, shownRetention } from '../object-lock.ts';
import { parseRetention } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply } from '../replies.ts';
import type { Asked, Reserved } from '../stages.ts';

const bodyBytesMax = 64 * 1024;

export const putObjectRetention: Operation<'object', Retention | null> = {
  name: 'PutObjectRetention',
  action: 's3:PutObjectRetention',
  takesVersion: true,
  resource: 'object',
  price: 'put',
  bodyBytesMax,
  parse,
  admit,
  run,
};

/** Rules may depend on what is in the body, so it is read before anything is decided. */
async function parse(asked: Asked<'object'>): Promise<Retention | null> {
  if (asked.who.isAnonymous) throw new Refusal('AccessDenied');
  return parseRetention(await receiveDocument(asked));
}

function admit(asked: Asked<'object'>, retention: Retention | null): Promise<void> {
  asked.learnLock({ ...(retention && { retention }) });
  return asked.authorizeKey('s3:PutObjectRetention');
}

async function run(context: Reserved<'object'>, retention: Retention | null): Promise<Reply> {
  demandObjectLock(context);
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
