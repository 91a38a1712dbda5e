// The lifecycle rules of a bucket, which are set and removed as a whole.
import { readSetting } from '../../../catalog/bucket-settings.ts';
import {
  type LifecycleConfig,
  type TransitionMinimum,
  transitionMinimums,
} from '../../../catalog/lifecycle.ts';
import { invalidArgument } from '../../../core/errors.ts';
import { lifecycleBodyBytesMax } from '../../../core/limits.ts';
import { Pace } from '../../../core/pace.ts';
import { emptyReply, largeXmlReply, type Reply } from '../../http/reply.ts';
import { parseLargeXml } from '../../http/xml.ts';
import { lifecycleElements, parseLifecycle } from '../buckets/lifecycle-xml.ts';
import { demandDigest, receiveDocument } from '../demanded-digest.ts';
import type { Reserved } from '../stages.ts';
import { bucketSetting, notSet } from './bucket-setting.ts';

const minimumHeader = 'x-amz-transition-default-minimum-object-size';

export const [getBucketLifecycle, putBucketLifecycle, deleteBucketLifecycle] =
  bucketSetting<LifecycleConfig>({
    operations: [
      'GetBucketLifecycleConfiguration',
      'PutBucketLifecycleConfiguration',
      'DeleteBucketLifecycle',
    ],
    actions: { read: 's3:GetLifecycleConfiguration', write: 's3:PutLifecycleConfiguration' },
    bodyBytesMax: lifecycleBodyBytesMax,
    show,
    receive,
    store: (config) => ({ name: 'lifecycle', document: config && JSON.stringify(config) }),
    record: (lifecycle) => ({ lifecycle }),
    answer: ({ transitionMinimum }) => emptyReply(200, { [minimumHeader]: transitionMinimum }),
  });

async function show(context: Reserved<'bucket'>): Promise<Reply> {
  const document = await readSetting(context.services.read, context.bucket.id, 'lifecycle');
  if (document === null) throw notSet('NoSuchLifecycleConfiguration', context);
  const { rules, transitionMinimum } = JSON.parse(document) as LifecycleConfig;
  const reply = await largeXmlReply('LifecycleConfiguration', lifecycleElements(rules));
  return { ...reply, headers: { ...reply.headers, [minimumHeader]: transitionMinimum } };
}

async function receive(context: Reserved<'bucket'>): Promise<LifecycleConfig> {
  // Both are refused before the body is sent, a body without a digest first.
  demandDigest(context);
  const transitionMinimum = readMinimum(context);
  const root = await parseLargeXml(await receiveDocument(context), 'LifecycleConfiguration');
  const pace = new Pace();
  await pace.wait();
  const rules = parseLifecycle(root);
  await pace.wait();
  return { rules, transitionMinimum };
}

/** Throws `Refusal` InvalidArgument. */
function readMinimum({ request }: Reserved<'bucket'>): TransitionMinimum {
  const asked = request.headers[minimumHeader];
  if (asked === undefined) return transitionMinimums[0];
  const known = transitionMinimums.find((one) => one === asked);
  if (!known) throw invalidArgument(minimumHeader, asked);
  return known;
}
