// GetObjectRetention.
import type { Lock } from '../../catalog/object-lock.ts';
import { Refusal } from '../../core/errors.ts';
import { findAsked } from '../asked-version.ts';
import { demandObjectLock } from '../object-lock.ts';
import { retentionElements } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { type Reply, xmlReply } from '../replies.ts';
import type { Reserved } from '../stages.ts';

export const getObjectRetention: Operation<'object'> = {
  name: 'GetObjectRetention',
  action: 's3:GetObjectRetention',
  takesVersion: true,
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  demandObjectLock(context);
  const { attributes } = await findAsked(context);
  const { retention } = JSON.parse(attributes) as Lock;
  if (!retention) throw new Refusal('NoSuchObjectLockConfiguration');
  return xmlReply('Retention', retentionElements(retention));
}
