// Notifications to a queue of SQS, set by an unmodified AWS CLI and received by boto3 from a queue
// of another make (moto).
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateQueueCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { callNative, send, startEmbeddedTarget, type Target } from '../../protocol/target.ts';
import { type KmsServer, kmsCredentials, startKms } from '../../tooling/kms-server.ts';
import { awsCli, boto3Python, describeWithTool, motoPython } from '../../tooling/tools.ts';

const consumer = `
import json, sys, urllib.parse, boto3
endpoint, queue, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
sqs = boto3.client("sqs", endpoint_url=endpoint, region_name="eu-central-1")
told = []
while len(told) < wanted:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=2)
    for message in answer.get("Messages", []):
        body = json.loads(message["Body"])
        if body.get("Event") == "s3:TestEvent":
            told.append("test " + body["Bucket"])
        for record in body.get("Records", []):
            key = urllib.parse.unquote_plus(record["s3"]["object"]["key"])
            told.append(record["eventName"] + " " + key)
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
print(json.dumps(told))
`;

describeWithTool(motoPython, 'a queue that is told', (moto) => {
  describeWithTool(awsCli, 'by the AWS CLI', (aws) => {
    describeWithTool(boto3Python, 'and read by boto3', (python) => {
      const folder = mkdtempSync(join(tmpdir(), 'bursar-queue-'));
      const env = { PATH: process.env.PATH ?? '', ...kmsCredentials, NO_PROXY: '127.0.0.1' };
      let queues: KmsServer;
      let gateway: Target;
      let sqs: SQSClient;

      beforeAll(async () => {
        queues = await startKms(moto);
        gateway = await startEmbeddedTarget([], kmsCredentials);
        sqs = new SQSClient({
          ...{ endpoint: queues.endpoint, region: queues.region },
          credentials: { accessKeyId: 'TEST', secretAccessKey: 'test' },
        });
      }, 90_000);
      afterAll(async () => {
        sqs?.destroy();
        await gateway?.stop();
        await queues?.stop();
        rmSync(folder, { recursive: true });
      });

      it.each(['events', 'events.fifo'])('%s', { timeout: 120_000 }, async (name) => {
        const isFifo = name.endsWith('.fifo');
        const { QueueUrl: url = '' } = await sqs.send(
          new CreateQueueCommand({
            QueueName: name,
            ...(isFifo && { Attributes: { FifoQueue: 'true' } }),
          }),
        );
        const { arn } = await callNative(gateway, 'PUT', `/_/v1/tenants/default/targets/${name}`, {
          ...{ kind: 'sqs', url, region: queues.region },
        });
        expect(arn).toBe(`arn:aws:sqs:eu-central-1:123456789012:${name}`);
        const bucket = name.replace('.', '-');
        const client = { ...env };
        const run = (...args: string[]) =>
          promisify(execFile)(aws, ['--endpoint-url', gateway.endpoint, ...args], {
            env: {
              ...client,
              AWS_ACCESS_KEY_ID: gateway.keys.accessKeyId,
              AWS_SECRET_ACCESS_KEY: gateway.keys.secretAccessKey,
              AWS_DEFAULT_REGION: 'us-east-1',
            },
          });
        await send(gateway, { method: 'PUT', path: `/${bucket}` });
        const file = join(folder, 'notification.json');
        const rule = { Id: 'all', QueueArn: arn, Events: ['s3:ObjectCreated:*'] };
        const rules = {
          QueueConfigurations: [
            { ...rule, Filter: { Key: { FilterRules: [{ Name: 'Prefix', Value: 'in/' }] } } },
          ],
        };
        writeFileSync(file, JSON.stringify(rules));
        const named = ['--bucket', bucket];
        const of = ['--notification-configuration', `file://${file}`];
        await run('s3api', 'put-bucket-notification-configuration', ...named, ...of);
        const { stdout } = await run('s3api', 'get-bucket-notification-configuration', ...named);
        expect(JSON.parse(stdout)).toMatchObject(rules);
        const keys = Array.from({ length: 12 }, (_, i) => `in/key ${i}`);
        for (const key of keys) {
          await send(gateway, { method: 'PUT', path: `/${bucket}/${key}`, body: 'x' });
        }
        await send(gateway, { method: 'PUT', path: `/${bucket}/out`, body: 'x' });
        const args = ['-c', consumer, queues.endpoint, url, String(keys.length + 1)];
        const told = JSON.parse(execFileSync(python, args, { env }).toString()) as string[];
        const created = keys.map((key) => `ObjectCreated:Put ${key}`);
        const all = [`test ${bucket}`, ...created];
        if (isFifo) expect(told).toEqual(all);
        else expect(told.sort()).toEqual(all.sort());
      });
    });
  });
});
