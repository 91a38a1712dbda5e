// Settings of a bucket that are documents, set and removed as a whole. Each has three operations,
// which differ in their names and in what the document says.
import { recordedLargeChange } from '../../../audit/recorded-change.ts';
import type { S3Action } from '../../../authz/grants/actions.ts';
import type { PutBucketSetting } from '../../../catalog/bucket-changes.ts';
import { type ErrorCode, Refusal } from '../../../core/errors.ts';
import { Pace } from '../../../core/pace.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export interface BucketSetting<T> {
  /** The names of its operations: Get…, Put… and Delete…. */
  operations: readonly [get: string, put: string, remove: string];
  actions: { read: S3Action; write: S3Action };
  bodyBytesMax: number;
  /** What GET answers. Throws `Refusal` where nothing is set (`notSet`). */
  show(context: Reserved<'bucket'>): Promise<Reply>;
  /** Receives what PUT sets, and reads it. Throws `Refusal`. */
  receive(context: Reserved<'bucket'>): Promise<T>;
  /** What the catalog stores. `null`: it was removed. */
  store(value: T | null): Pick<PutBucketSetting, 'name' | 'document'>;
  /** What the record says of the change. */
  record(value: T | null): object;
  /** What PUT answers: 200 where this says nothing else. */
  answer?(value: T): Reply;
}

/** The operations that read, set and remove it. Removing what is not set succeeds. */
export function bucketSetting<T>({
  operations: [getName, putName, removeName],
  actions: { read, write },
  bodyBytesMax,
  show,
  receive,
  store,
  record,
  answer = () => emptyReply(200),
}: BucketSetting<T>): readonly [Operation<'bucket'>, Operation<'bucket'>, Operation<'bucket'>] {
  async function set(
    context: Reserved<'bucket'>,
    value: T | null,
    { status }: Reply,
  ): Promise<void> {
    // A document may be a megabyte, in which others have their turns.
    const pace = new Pace();
    const stored = store(value);
    await pace.rest();
    const change = await recordedLargeChange(record(value));
    await pace.rest();
    const { id: bucketId } = context.bucket;
    await context.commit({ kind: 'putBucketSetting', bucketId, ...stored }, { status, change });
  }
  return [
    {
      name: getName,
      action: read,
      resource: 'bucket',
      price: 'get',
      run: show,
    },
    {
      name: putName,
      action: write,
      resource: 'bucket',
      price: 'put',
      bodyBytesMax,
      run: async (context) => {
        const value = await receive(context);
        const reply = answer(value);
        await set(context, value, reply);
        return reply;
      },
    },
    {
      name: removeName,
      action: write,
      resource: 'bucket',
      price: 'free',
      run: async (context) => {
        const reply = emptyReply(204);
        await set(context, null, reply);
        return reply;
      },
    },
  ];
}

/** The refusal of who reads a setting that the bucket has not. */
export function notSet(code: ErrorCode, { askedName }: Reserved<'bucket'>): Refusal {
  return new Refusal(code, { fields: { BucketName: askedName } });
}
