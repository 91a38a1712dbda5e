// Storage classes through unmodified clients: the AWS CLI and rclone name them as they name AWS's.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
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
  mkdirSync(join(dir, 'disk1'));
  const stores = { disk1: { url: pathToFileURL(join(dir, 'disk1')).href } };
  gateway = await startServedGateway({ env: { BURSAR_STORES: JSON.stringify(stores) } });
  writeFileSync(join(dir, 'a.txt'), content);
  const operator = new S3Client(gateway);
  await call(operator, 'POST', 'tenants/default/classes', {
    ...{ name: 'derived', aliases: ['ONEZONE_IA'], loss: 'report' },
    durability: { legs: [{ store: 'disk1' }] },
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
