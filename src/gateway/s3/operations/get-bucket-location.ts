// GetBucketLocation: the gateway's region; empty for us-east-1, as S3 has it.

import type { Reply } from '../../http/reply.ts';
import { renderXml } from '../../http/xml.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const getBucketLocation: Operation<'bucket'> = {
  name: 'GetBucketLocation',
  action: 's3:GetBucketLocation',
  resource: 'bucket',
  price: 'get',
  run,
};

async function run(context: Reserved<'bucket'>): Promise<Reply> {
  const { region } = context.services;
  const headers = { 'content-type': 'application/xml' };
  const body = renderXml('LocationConstraint', region === 'us-east-1' ? '' : region);
  return { status: 200, headers, body };
}
