// `aws s3 rm --recursive` of many objects, without versioning and without a snapshot, and all of
// them back by one command, though the gateway is killed in the midst of it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { digestTree, seededBytes, writeTree } from '../tooling/files.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { awsCli, clientEnvironment, describeWithTool, runTool } from '../tooling/tools.ts';

const timeoutMs = 240_000;
const objects = process.env.BURSAR_FULL === '1' ? 5000 : 300;
const main = resolve('app/main.js');

/** Small ones, and one that is uploaded in parts. */
const tree = {
  ...Object.fromEntries(Array.from({ length: objects }, (_, i) => [`${i % 7}/é ${i}`, `${i}`])),
  large: seededBytes(1, 9 * 1024 * 1024),
};

describeWithTool(awsCli, 'AWS CLI', (path) => {
  let gateway: ServedGateway;
  let dataDir: string;
  let dir: string;
  const bursar = () => ({
    ...clientEnvironment(gateway),
    BURSAR_ENDPOINT: gateway.endpoint,
    BURSAR_ACCESS_KEY_ID: gateway.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: gateway.secretAccessKey,
  });
  const aws = (...args: string[]) =>
    runTool(path, ['--endpoint-url', gateway.endpoint, ...args], clientEnvironment(gateway));

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bursar-undelete-'));
    dataDir = join(dir, 'data');
    writeTree(join(dir, 'tree'), tree);
    gateway = await startServedGateway({ dataDir });
  }, timeoutMs);
  afterAll(async () => {
    await gateway?.stop();
    rmSync(dir, { recursive: true, force: true });
  }, timeoutMs);

  it('what it deletes comes back', { timeout: timeoutMs }, async () => {
    await aws('s3', 'mb', 's3://raw');
    const client = new S3Client(gateway);
    await call(client, 'PUT', 'tenants/default/buckets/raw/undelete', { seconds: 86_400 });
    await aws('s3', 'cp', '--recursive', '--quiet', join(dir, 'tree'), 's3://raw/tree');
    const { headers } = await send(client, 'GET', '/');
    const beforeMs = Math.max(Date.now(), Date.parse(String(headers.date)));
    await expect.poll(() => Date.now()).toBeGreaterThan(beforeMs);
    await aws('s3', 'rm', '--recursive', '--quiet', 's3://raw/tree');
    expect(await aws('s3', 'ls', 's3://raw')).toBe('');
    const args = ['undelete', 's3://raw', '--as-of', new Date(beforeMs).toISOString()];
    const undeleting = spawn(process.execPath, [main, ...args], { env: bursar(), stdio: 'ignore' });
    const ended = once(undeleting, 'close');
    const keysLeft = async () => (await send(client, 'GET', '/raw')).body.toString();
    await expect.poll(keysLeft, { timeout: 60_000, interval: 5 }).toContain('<Key>');
    await gateway.kill();
    await ended;
    client.close();
    gateway = await startServedGateway({ dataDir });
    const { failed } = JSON.parse(
      await runTool(process.execPath, [main, ...args, '--json'], bursar()),
    );
    expect(failed).toEqual([]);
    await aws('s3', 'cp', '--recursive', '--quiet', 's3://raw/tree', join(dir, 'back'));
    expect(digestTree(join(dir, 'back'))).toEqual(digestTree(join(dir, 'tree')));
    const again = await runTool(process.execPath, [main, ...args, '--json'], bursar());
    expect(JSON.parse(again)).toEqual({ restored: 0, failed: [] });
  });
});
