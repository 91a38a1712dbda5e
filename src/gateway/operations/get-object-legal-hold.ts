// GetObjectLegalHold.
import type { Lock } from '../../catalog/object-lock.ts';
import { Refusal } from '../../core/errors.ts';
import { findAsked } from '../asked-version.ts';
import { demandObjectLock } from '../object-lock.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getObjectLegalHold: Operation<'object'> = {
  name: 'GetObjectLegalHold',
  action: 's3:GetObjectLegalHold',
  takesVersion: true,
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  demandObjectLock(context);
  const { attributes } = await findAsked(context);
  const { legalHold } = JSON.parse(attributes) as Lock;
  if (legalHold === undefined) throw new Refusal('NoSuchObjectLockConfiguration');
  return xmlReply('LegalHold', { Status: legalHold ? 'ON' : 'OFF' });
}
