// GetBucketLifecycleConfiguration.

import { readSetting } from '../../catalog/bucket-settings.ts';
import type { LifecycleConfig } from '../../catalog/lifecycle.ts';
import { Refusal } from '../../core/errors.ts';
import { lifecycleElements } from '../lifecycle-xml.ts';
import type { Operation } from '../operation.ts';
import { largeXmlReply, type Reply } from '../replies.ts';
import type { Reserved } from '../stages.ts';
import { minimumHeader } from './put-bucket-lifecycle.ts';

export const getBucketLifecycle: Operation<'bucket'> = {
  name: 'GetBucketLifecycleConfiguration',
  action: 's3:GetLifecycleConfiguration',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run,
};

async function run({ rooms, bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const document = await readSetting(rooms.read, bucket.id, 'lifecycle');
  if (document === null) {
    throw new Refusal('NoSuchLifecycleConfiguration', { fields: { BucketName: askedName } });
  }
  const { rules, transitionMinimum } = JSON.parse(document) as LifecycleConfig;
  const reply = await largeXmlReply('LifecycleConfiguration', lifecycleElements(rules));
  return { ...reply, headers: { ...reply.headers, [minimumHeader]: transitionMinimum } };
}
