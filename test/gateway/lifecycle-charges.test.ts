// What rules end costs what is owed for it, and nothing else; records and accounts agree on that.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { StorageGateway, usd } from './storage-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let gateway: StorageGateway;
beforeAll(async () => {
  gateway = new StorageGateway();
  await gateway.serve();
});
afterAll(() => gateway?.stop());

it('an object that a rule ends early is charged to its owner, whatever limits say', async () => {
  await gateway.send('PUT', '/aged');
  const body = Buffer.from(
    '<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status>' +
      '<Expiration><Date>2020-01-01</Date></Expiration></Rule></LifecycleConfiguration>',
  );
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  const query: [string, string][] = [['lifecycle', '']];
  expect((await gateway.send('PUT', '/aged', { query, headers, body })).status).toBe(200);
  await gateway.send('PUT', '/aged/k', { body: Buffer.alloc(1000) });
  await gateway.setLimits('bucket:default/aged', { spend: { total: '0' } });
  // Rules are looked at again when it starts.
  await gateway.kill();
  await gateway.serve();
  const ended = await gateway.lastOf('s3:ExpireObject');
  expect(ended).toMatchObject({ key: 'k', bucketOwner: 'admin', class: 'STANDARD', cost: '0.00' });
  expect(usd(ended.storageCost)).toBeGreaterThan(0n);
  expect(ended.priceBook).toEqual(expect.any(String));
  const { counted, summed } = await gateway.compareSpent();
  expect(counted).toEqual(summed);
});
