// What is held where it meets other things: bytes in an S3 store, lifecycle rules, and locks of
// objects that are brought back.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startBackedGateway } from '../fault/backed-gateway.ts';
import { S3Client } from '../fault/s3-client.ts';
import { listFiles } from '../tooling/files.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const sweeps = ['--sweep-interval', '200ms', '--sweep-grace', '0ms'];
const patience = { timeout: 30_000, interval: 200 };
const bucketsPath = 'tenants/default/buckets';

async function mount(client: S3Client, bucket: string, name: string, at: string): Promise<void> {
  await call(client, 'PUT', `tenants/default/mounts/${name}`, {
    ...{ bucketTenant: 'default', bucket, at },
  });
}

describeWithTool(versitygw, 'a bucket in an S3 store', (path) => {
  let backed: Awaited<ReturnType<typeof startBackedGateway>>;
  let client: S3Client;
  const extents = () => listFiles(join(backed.storeDir, 'extents'));

  beforeAll(async () => {
    backed = await startBackedGateway({ path, args: sweeps });
    client = new S3Client(backed.gateway);
  });
  afterAll(async () => {
    client?.close();
    await backed?.stop();
  });

  it('has what was deleted in its undelete window, until that is off', async () => {
    const objects = new Map([
      ['small', randomBytes(1000)],
      ['large', randomBytes(300_000)],
    ]);
    await send(client, 'PUT', '/raw');
    await call(client, 'PUT', `${bucketsPath}/raw/undelete`, { seconds: 3600 });
    for (const [key, body] of objects) await send(client, 'PUT', `/raw/${key}`, { body });
    for (const key of objects.keys()) await send(client, 'DELETE', `/raw/${key}`);
    const stored = extents();
    expect(stored.length).toBeGreaterThanOrEqual(objects.size);
    for (const [key, body] of objects) {
      const plan = await client.send('GET', `/_/v1/${bucketsPath}/raw/undelete`, {
        query: [['key', key]],
      });
      const [{ index }] = JSON.parse(plan.body.toString()).objects;
      const headers = {
        'x-amz-copy-source': `/raw/${key}`,
        'x-bursar-copy-source-as-of': `${index}`,
      };
      await send(client, 'PUT', `/raw/${key}`, { headers });
      expect((await send(client, 'GET', `/raw/${key}`)).body.equals(body)).toBe(true);
    }
    // No bytes were moved.
    expect(extents()).toEqual(stored);
    for (const key of objects.keys()) await send(client, 'DELETE', `/raw/${key}`);
    await call(client, 'DELETE', `${bucketsPath}/raw/undelete`);
    await expect.poll(extents, patience).toEqual([]);
  });
});

describe('a gateway whose days last a second', () => {
  let gateway: Awaited<ReturnType<typeof startServedGateway>>;
  let client: S3Client;

  beforeAll(async () => {
    gateway = await startServedGateway({ args: ['--lifecycle-day', '1s', ...sweeps] });
    client = new S3Client(gateway);
  });
  afterAll(async () => {
    client?.close();
    await gateway?.stop();
  });

  it('shows in a mount what has expired since, and takes no configuration there', async () => {
    const large = randomBytes(100_000);
    await send(client, 'PUT', '/expiring');
    await send(client, 'PUT', '/expiring/old/small', { body: 'small' });
    await send(client, 'PUT', '/expiring/old/large', { body: large });
    await call(client, 'PUT', `${bucketsPath}/expiring/snapshots/then`, {});
    await mount(client, 'expiring', 'unexpired', 'then');
    const rule =
      '<Rule><ID>r</ID><Status>Enabled</Status><Filter><Prefix>old/</Prefix></Filter>' +
      '<Expiration><Days>1</Days></Expiration></Rule>';
    const body = `<LifecycleConfiguration>${rule}</LifecycleConfiguration>`;
    const query: [string, string][] = [['lifecycle', '']];
    await send(client, 'PUT', '/expiring', { query, body });
    for (const key of ['old/small', 'old/large']) {
      const gone = async () => (await client.send('GET', `/expiring/${key}`)).status;
      await expect.poll(gone, patience).toBe(404);
    }
    const got = await send(client, 'GET', '/unexpired/old/large');
    expect(got.body.equals(large)).toBe(true);
    // What a snapshot has does not expire.
    expect(got.headers).not.toHaveProperty('x-amz-expiration');
    expect((await send(client, 'GET', '/unexpired/old/small')).body.toString()).toBe('small');
    // The configuration is the bucket's, and changed by its own name alone.
    expect((await send(client, 'GET', '/unexpired', { query })).body.toString()).toContain('old/');
    for (const [method, name] of [
      ['PUT', 'lifecycle'],
      ['DELETE', 'lifecycle'],
      ['PUT', 'cors'],
      ['PUT', 'policy'],
      ['PUT', 'versioning'],
      ['PUT', 'object-lock'],
    ] as const) {
      const options = { query: [[name, '']] as [string, string][], body: Buffer.from(body) };
      const { status, headers } = await client.send(method, '/unexpired', options);
      expect([method, name, status, headers.allow]).toEqual([method, name, 405, 'GET, HEAD']);
    }
  });

  it('locks what is brought back as a copy: by default, and not as it was locked', async () => {
    const enabled = { 'x-amz-bucket-object-lock-enabled': 'true' };
    await send(client, 'PUT', '/locked', { headers: enabled });
    const days = (count: number) => new Date(Date.now() + count * 86_400_000).toISOString();
    const { headers: made } = await send(client, 'PUT', '/locked/key', {
      body: 'first',
      headers: {
        'x-amz-object-lock-mode': 'GOVERNANCE',
        'x-amz-object-lock-retain-until-date': days(300),
        'x-amz-object-lock-legal-hold': 'ON',
        'x-amz-meta-n': '1',
      },
    });
    const { index } = await call(client, 'PUT', `${bucketsPath}/locked/snapshots/then`, {});
    await mount(client, 'locked', 'locked-then', 'then');
    await send(client, 'PUT', '/locked/key', { body: 'second' });
    const headers = {
      'x-amz-copy-source': '/locked/key',
      'x-bursar-copy-source-as-of': `${index}`,
    };
    await send(client, 'PUT', '/locked/key', { headers });
    const copied = await send(client, 'HEAD', '/locked/key');
    expect(copied.headers['x-amz-meta-n']).toBe('1');
    expect(Object.keys(copied.headers).filter((name) => /object-lock/.test(name))).toEqual([]);
    // The version of then is as locked as it was, in the bucket and in the snapshot.
    const id: [string, string][] = [['versionId', made['x-amz-version-id'] as string]];
    for (const [path, query] of [
      ['/locked/key', id],
      ['/locked-then/key', []],
    ] as const) {
      const shown = await send(client, 'HEAD', path, { query: [...query] });
      expect(shown.headers).toMatchObject({
        'x-amz-object-lock-mode': 'GOVERNANCE',
        'x-amz-object-lock-legal-hold': 'ON',
      });
    }
    const rule = '<Mode>COMPLIANCE</Mode><Days>10</Days>';
    const body =
      '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>' +
      `<Rule><DefaultRetention>${rule}</DefaultRetention></Rule></ObjectLockConfiguration>`;
    await send(client, 'PUT', '/locked', { query: [['object-lock', '']], body });
    await send(client, 'PUT', '/locked/key', { headers });
    const locked = (await send(client, 'HEAD', '/locked/key')).headers;
    expect(locked['x-amz-object-lock-mode']).toBe('COMPLIANCE');
    const untilMs = Date.parse(locked['x-amz-object-lock-retain-until-date'] as string);
    expect(Math.round((untilMs - Date.now()) / 86_400_000)).toBe(10);
    expect(locked).not.toHaveProperty('x-amz-object-lock-legal-hold');
  });
});
