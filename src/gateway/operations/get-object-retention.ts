// GetObjectRetention.
import type { Lock } from '../../catalog/object-lock.ts';
import { Refusal } from '../../core/errors.ts';
import { findAsked } from '../asked-version.ts';
import type { Context, Reply } from '../context.ts';
import { demandObjectLock } from '../object-lock.ts';
import { retentionElements } from '../object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import { xmlReply } from '../replies.ts';

export const getObjectRetention: Operation = {
  name: 'GetObjectRetention',
  action: 's3:GetObjectRetention',
  takesVersion: true,
  resource: 'object',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  demandObjectLock(context);
  const { attributes } = await findAsked(context);
  const { retention } = JSON.parse(attributes) as Lock;
  if (!retention) throw new Refusal('NoSuchObjectLockConfiguration');
  return xmlReply('Retention', retentionElements(retention));
}
