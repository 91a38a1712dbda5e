// Receipts: each write names its record, which is found in the log and tells of that request.
import { CreateBucketCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { md5Of } from '../checksums.ts';
import {
  type Answer,
  clientOf,
  elementOf,
  findRecords,
  type Message,
  newName,
  send,
  type Target,
} from '../target.ts';
import { begin } from './multipart.ts';

/** The writes of S3, in an order in which each can be done, with the actions of their records. */
const writes = [
  ['CreateBucket', 's3:CreateBucket'],
  ['PutObject', 's3:PutObject'],
  ['CopyObject', 's3:PutObject'],
  ['CreateMultipartUpload', 's3:PutObject'],
  ['UploadPart', 's3:PutObject'],
  ['UploadPartCopy', 's3:PutObject'],
  ['CompleteMultipartUpload', 's3:PutObject'],
  ['AbortMultipartUpload', 's3:AbortMultipartUpload'],
  ['DeleteObject', 's3:DeleteObject'],
  ['DeleteObjects', 's3:DeleteObject'],
  ['DeleteBucket', 's3:DeleteBucket'],
] as const;

type Write = (typeof writes)[number][0];

const body = 'recorded';

export function describeReceipts(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  const bucket = newName('receipts');
  let uploadId = '';
  let abortedId = '';
  beforeAll(() => {
    target = targetOf();
    client = clientOf(target);
  });

  function message(write: Write): Message {
    const path = `/${bucket}/k`;
    const copied = { 'x-amz-copy-source': `${bucket}/k` };
    const part = (number: string) =>
      [
        ['partNumber', number],
        ['uploadId', uploadId],
      ] as const;
    const etag = md5Of(Buffer.from(body));
    const parts = `<Part><PartNumber>1</PartNumber><ETag>${etag}</ETag></Part>`;
    const messages: Record<Write, Message> = {
      CreateBucket: { method: 'PUT', path: `/${bucket}` },
      PutObject: { method: 'PUT', path, body },
      CopyObject: { method: 'PUT', path: `/${bucket}/copy`, headers: copied },
      CreateMultipartUpload: { method: 'POST', path, query: [['uploads', '']] },
      UploadPart: { method: 'PUT', path, query: part('1'), body },
      UploadPartCopy: { method: 'PUT', path, query: part('2'), headers: copied },
      CompleteMultipartUpload: {
        method: 'POST',
        path,
        query: [['uploadId', uploadId]],
        body: `<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`,
      },
      AbortMultipartUpload: { method: 'DELETE', path, query: [['uploadId', abortedId]] },
      DeleteObject: { method: 'DELETE', path },
      DeleteObjects: {
        method: 'POST',
        path: `/${bucket}`,
        query: [['delete', '']],
        body: '<Delete><Object><Key>copy</Key></Object></Delete>',
      },
      DeleteBucket: { method: 'DELETE', path: `/${bucket}` },
    };
    return messages[write];
  }

  async function recordOf(answer: Answer): Promise<object> {
    const index = Number(answer.headers['x-bursar-receipt']);
    const records = await findRecords(target, [['bucket', bucket]]);
    const found = records.filter((record: { index: number }) => record.index === index);
    expect(found).toHaveLength(1);
    return found[0];
  }

  describe('a receipt', () => {
    it.each(writes)('of %s names the one record of that request', async (write, action) => {
      if (write === 'AbortMultipartUpload') {
        abortedId = (await begin(client, bucket, { Key: 'k' })).UploadId;
      }
      const answer = await send(target, message(write));
      expect([200, 204]).toContain(answer.status);
      if (write === 'CreateMultipartUpload') uploadId = elementOf(answer.text, 'UploadId') ?? '';
      expect(answer.headers['x-bursar-receipt']).toMatch(/^\d+$/);
      expect(await recordOf(answer)).toMatchObject({
        action,
        bucket,
        requestId: answer.headers['x-amz-request-id'],
        status: answer.status,
        principal: 'admin',
        accessKeyId: target.keys.accessKeyId,
      });
    });

    it('of several deletions has a record for each key', async () => {
      const Bucket = newName('several');
      await client.send(new CreateBucketCommand({ Bucket }));
      const keys = ['a', 'b', 'c'];
      for (const Key of keys) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
      }
      const objects = keys.map((key) => `<Object><Key>${key}</Key></Object>`);
      const answer = await send(target, {
        method: 'POST',
        path: `/${Bucket}`,
        query: [['delete', '']],
        body: `<Delete>${objects.join('')}</Delete>`,
      });
      const records = await findRecords(target, [
        ['bucket', Bucket],
        ['action', 's3:DeleteObject'],
      ]);
      const requestId = answer.headers['x-amz-request-id'];
      const told = records.map((record: { key: string; requestId: string }) => [
        record.key,
        record.requestId,
      ]);
      expect(told).toEqual(keys.map((key) => [key, requestId]));
    });

    it('of a refused write names the record of the refusal', async () => {
      const path = `/${newName('refused')}/k`;
      const answer = await send(target, { method: 'PUT', path, body });
      expect(answer.status).toBe(404);
      const asked = [['bucket', path.split('/')[1] ?? '']] as const;
      const records = await findRecords(target, asked);
      const index = Number(answer.headers['x-bursar-receipt']);
      const refused = { action: 's3:PutObject', key: 'k', status: 404, error: 'NoSuchBucket' };
      expect(records).toEqual([expect.objectContaining({ ...refused, index })]);
    });

    it('is not given of a refused read, whose record comes soon after the answer', async () => {
      const path = `/${newName('refused')}/k`;
      const answer = await send(target, { method: 'GET', path });
      expect([answer.status, answer.headers['x-bursar-receipt']]).toEqual([404, undefined]);
      const asked = [['bucket', path.split('/')[1] ?? '']] as const;
      await expect
        .poll(() => findRecords(target, asked))
        .toMatchObject([{ action: 's3:GetObject', key: 'k', status: 404, error: 'NoSuchBucket' }]);
    });
  });
}
