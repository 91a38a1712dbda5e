// Storage classes through unmodified clients: the AWS CLI and rclone name them as they name AWS's.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { awsCli, clientEnvironment, describeWithTool, rclone, runTool } from '../tooling/tools.ts';

const timeoutMs = 240_000;
const content = 'derived from raw data';

let gateway: ServedGateway;
let dir: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bursar-classes-'));
  const storeIn = (name: string) => {
    mkdirSync(join(dir, name));
    return { url: pathToFileURL(join(dir, name)).href };
  };
  const stores = { disk1: storeIn('disk1'), tape: { ...storeIn('tape'), kind: 'archive' } };
  const env = { BURSAR_STORES: JSON.stringify(stores), BURSAR_LIFECYCLE_DAY: '1s' };
  gateway = await startServedGateway({ env });
  writeFileSync(join(dir, 'a.txt'), content);
  const operator = new S3Client(gateway);
  await call(operator, 'POST', 'tenants/default/classes', {
    ...{ name: 'derived', aliases: ['ONEZONE_IA'], loss: 'report' },
    durability: { legs: [{ store: 'disk1' }] },
  });
  await call(operator, 'POST', 'tenants/default/classes', {
    ...{ name: 'cold', aliases: ['GLACIER'], access: 'restore', restoreWithinHours: 12 },
    durability: { legs: [{ store: 'tape' }] },
  });
  await send(operator, 'PUT', '/classes');
  operator.close();
}, timeoutMs);

afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
  await gateway?.stop();
}, timeoutMs);

describeWithTool(awsCli, 'the AWS CLI', (path) => {
  const aws = (...args: string[]) =>
    runTool(path, ['--endpoint-url', gateway.endpoint, ...args], clientEnvironment(gateway));

  it('copies into a class, moves and lists', { timeout: timeoutMs }, async () => {
    await aws('s3', 'cp', '--storage-class', 'ONEZONE_IA', join(dir, 'a.txt'), 's3://classes/cli');
    const name = ['--bucket', 'classes', '--key', 'cli'];
    const head = JSON.parse(await aws('s3api', 'head-object', ...name));
    expect(head.StorageClass).toBe('ONEZONE_IA');
    await aws('s3', 'cp', 's3://classes/cli', join(dir, 'back.txt'));
    expect(readFileSync(join(dir, 'back.txt'), 'utf8')).toBe(content);
    const classOf = async () =>
      (await aws('s3api', 'list-objects-v2', '--bucket', 'classes', '--prefix', 'cli').then(
        (text) => JSON.parse(text).Contents[0].StorageClass,
      )) as string;
    expect(await classOf()).toBe('ONEZONE_IA');
    await aws('s3', 'cp', '--storage-class', 'STANDARD', 's3://classes/cli', 's3://classes/cli');
    expect(await classOf()).toBe('STANDARD');
  });

  it('has what a rule moves into an archive restored', { timeout: timeoutMs }, async () => {
    const Filter = { And: { Prefix: 'aged', ObjectSizeGreaterThan: 1 } };
    const Transitions = [{ Days: 1, StorageClass: 'GLACIER' }];
    const Rules = [{ ID: 'age', Status: 'Enabled', Filter, Transitions }];
    const set = ['s3api', 'put-bucket-lifecycle-configuration', '--bucket', 'classes'];
    await aws('s3', 'cp', join(dir, 'a.txt'), 's3://classes/aged');
    await aws(...set, '--lifecycle-configuration', JSON.stringify({ Rules }));
    const name = ['--bucket', 'classes', '--key', 'aged'];
    const becomes = (shown: object) =>
      vi.waitFor(
        async () =>
          expect(JSON.parse(await aws('s3api', 'head-object', ...name))).toMatchObject(shown),
        { timeout: 60_000, interval: 500 },
      );
    await becomes({ StorageClass: 'GLACIER' });
    await aws('s3api', 'restore-object', ...name, '--restore-request', '{"Days": 100000}');
    await becomes({ Restore: expect.stringContaining('ongoing-request="false"') });
    const back = join(dir, 'restored.txt');
    await aws('s3', 'cp', '--force-glacier-transfer', 's3://classes/aged', back);
    expect(readFileSync(back, 'utf8')).toBe(content);
  });
});

describeWithTool(rclone, 'rclone', (path) => {
  it('copies into a class', { timeout: timeoutMs }, async () => {
    const env = { ...clientEnvironment(gateway), RCLONE_CONFIG: '/dev/null' };
    const at =
      ':s3,provider=Other,env_auth=true,region=us-east-1,' +
      `endpoint="${gateway.endpoint}":classes/rclone`;
    const copy = ['--retries', '1', '--s3-storage-class', 'ONEZONE_IA', 'copyto'];
    await runTool(path, [...copy, join(dir, 'a.txt'), at], env);
    const listed = JSON.parse(await runTool(path, ['lsjson', at], env));
    expect(listed[0].Size).toBe(content.length);
    expect(await runTool(path, ['cat', at], env)).toBe(content);
  });
});
