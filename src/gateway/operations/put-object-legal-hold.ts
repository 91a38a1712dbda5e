// PutObjectLegalHold: a hold has no end but the one that it is given here.
import { recordedChange } from '../../audit/recorded-change.ts';
import { Refusal } from '../../core/errors.ts';
import { findAsked, shownId } from '../asked-version.ts';
import type { Context, Reply } from '../context.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { demandObjectLock } from '../object-lock.ts';
import { parseLegalHold } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { emptyReply } from '../replies.ts';

const bodyBytesMax = 64 * 1024;

export const putObjectLegalHold: Operation = {
  name: 'PutObjectLegalHold',
  action: 's3:PutObjectLegalHold',
  takesVersion: true,
  resource: 'object',
  price: 'put',
  bodyBytesMax,
  admit,
  run,
};

/** From the admission of a request to its run. */
const admitted = new WeakMap<Context, boolean>();

/** Rules may depend on what is in the body, so it is read before anything is decided. */
async function admit(context: Context): Promise<void> {
  if (context.who.isAnonymous) throw new Refusal('AccessDenied');
  const legalHold = parseLegalHold(await receiveDocument(context, bodyBytesMax));
  context.learnLock({ legalHold });
  admitted.set(context, legalHold);
  await context.authorizeKey('s3:PutObjectLegalHold');
}

async function run(context: Context): Promise<Reply> {
  demandObjectLock(context);
  const legalHold = admitted.get(context) as boolean;
  const { bucket, key } = context;
  const versionId = shownId(bucket, await findAsked(context, 'MethodNotAllowed'));
  const place = { bucketId: bucket.id, key, versionId };
  await context.commit(
    { kind: 'amendVersion', ...place, amendment: { legalHold } },
    { change: recordedChange({ legalHold }) },
  );
  return emptyReply(200);
}
