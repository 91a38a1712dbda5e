// A request that was admitted while a snapshot was there, and reads when what it held is gone, in a
// bucket with versioning, which has an older version of the key. The gateway runs in the test's own
// process, so that the test can hold a request between these two.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { copyObject } from '#bursar/gateway/s3/operations/copy-object.js';
import { getObject, headObject } from '#bursar/gateway/s3/operations/get-object.js';
import { listObjects } from '#bursar/gateway/s3/operations/list-objects.js';
import { type RunningServer, startServer } from '#bursar/server/composition.js';
import { type DataFolder, openDataFolder } from '#bursar/server/folder/data-folder.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { type Answer, S3Client } from '../../fault/s3-client.ts';
import { call, operator, operatorSettings, send } from '../../tooling/filled-folder.ts';

const data = mkdtempSync(join(tmpdir(), 'bursar-deleted-snapshot-'));
const bucket = 'tenants/default/buckets/raw';
let folder: DataFolder;
let gateway: RunningServer;
let client: S3Client;

beforeAll(async () => {
  const config = loadConfig({ data, listen: '127.0.0.1:0', logLevel: 'error' }, operatorSettings);
  folder = await openDataFolder(config);
  const silent = { show: () => {}, end: () => expect.unreachable() as never };
  gateway = await startServer(config, { folder, operator: silent });
  client = new S3Client({ endpoint: gateway.endpoint, ...operator });
  await send(client, 'PUT', '/raw');
  const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await send(client, 'PUT', '/raw', { query: [['versioning', '']], body: enabled });
}, 60_000);

afterAll(async () => {
  vi.restoreAllMocks();
  client?.close();
  await gateway?.close();
  folder?.[Symbol.dispose]();
  rmSync(data, { recursive: true, force: true });
}, 60_000);

/** A snapshot that alone has the newest version of `key`. */
async function freeze(key: string): Promise<void> {
  await send(client, 'PUT', `/raw/${key}`, { body: 'older' });
  const { headers } = await send(client, 'PUT', `/raw/${key}`, { body: 'newest' });
  await call(client, 'PUT', `${bucket}/snapshots/${key}`, {});
  const mount = { bucketTenant: 'default', bucket: 'raw', at: key };
  await call(client, 'PUT', `tenants/default/mounts/of-${key}`, mount);
  const query: [string, string][] = [['versionId', headers['x-amz-version-id'] as string]];
  await send(client, 'DELETE', `/raw/${key}`, { query });
}

const requests = {
  get: { operation: getObject, method: 'GET', path: '/of-get/get', headers: {} },
  head: { operation: headObject, method: 'HEAD', path: '/of-head/head', headers: {} },
  list: { operation: listObjects, method: 'GET', path: '/of-list', headers: {} },
  copy: {
    ...{ operation: copyObject, method: 'PUT', path: '/raw/copy' },
    headers: { 'x-amz-copy-source': '/of-copy/copy' },
  },
} as const;

it('is answered as if it had come later', async () => {
  let letOn = (): void => {};
  const held = new Promise<void>((resolve) => {
    letOn = resolve;
  });
  const answers: Promise<Answer>[] = [];
  for (const [key, { operation, method, path, headers }] of Object.entries(requests)) {
    await freeze(key);
    expect((await send(client, 'GET', `/of-${key}/${key}`)).body.toString()).toBe('newest');
    const run = operation.run as (...args: unknown[]) => Promise<never>;
    const admitted = new Promise<void>((resolve) => {
      vi.spyOn(operation, 'run').mockImplementationOnce(async (...args: unknown[]) => {
        resolve();
        await held;
        return run(...args);
      });
    });
    answers.push(client.send(method, path, { headers }));
    await admitted;
  }
  for (const key of Object.keys(requests)) {
    await call(client, 'DELETE', `${bucket}/snapshots/${key}`);
  }
  const heldVersions = async () => (await call(client, 'GET', `${bucket}/snapshots`)).heldVersions;
  await expect.poll(heldVersions, { timeout: 30_000, interval: 500 }).toBe(0);
  letOn();
  for (const { status, body } of await Promise.all(answers)) {
    expect(status).toBe(404);
    // A HEAD is answered without one.
    expect(body.toString()).toMatch(/^$|<Code>NoSuchBucket</);
  }
  expect((await send(client, 'GET', '/raw/get')).body.toString()).toBe('older');
  expect((await send(client, 'GET', '/raw/copy')).body.toString()).toBe('older');
}, 60_000);
