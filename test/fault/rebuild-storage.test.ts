// After a rebuild what is stored costs what it did before: at least the minimum of its class.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { labFlags } from '../gateway/storage-rig.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { S3Client } from './s3-client.ts';

describeWithTool(versitygw, 'storage of a rebuilt gateway', (path) => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-books-'));
  const flags = labFlags(folder);
  let rig: RebuildRig;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve(flags);
  }, 60_000);
  afterAll(async () => {
    await rig.stop();
    rmSync(folder, { recursive: true });
  });

  interface Level {
    bucket: string;
    class: string;
    bytes: number;
  }

  async function read<R>(sql: string): Promise<R[]> {
    const db = openDatabase(join(rig.dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
    try {
      return await db.tx.all<R>(sql);
    } finally {
      db.close();
    }
  }

  function levels(): Promise<Level[]> {
    return read('SELECT bucket, class, billed_bytes AS bytes FROM quota_storage ORDER BY bucket');
  }

  /** Bytes by principal. */
  async function stored(): Promise<Record<string, number>> {
    const rows = await read<{ account: string; bytes: number }>(
      `SELECT account, used_stored_bytes AS bytes FROM quota_accounts
         WHERE account LIKE 'principal:%' AND used_stored_bytes <> 0`,
    );
    return Object.fromEntries(rows.map(({ account, bytes }) => [account.split('/')[1], bytes]));
  }

  it('is billed as before, and charged from then on', { timeout: 120_000 }, async () => {
    const put = async (target: string, sizeBytes = 0) => {
      const sending = sizeBytes > 0 ? { body: Buffer.alloc(sizeBytes, 1) } : {};
      expect((await rig.client.send('PUT', target, sending)).status).toBe(200);
    };
    for (const bucket of ['/one', '/two']) await put(bucket);
    await put('/one/small', 10);
    await put('/one/small', 20);
    await put('/one/large', 300_000);
    await put('/two/small', 30);
    const before = await levels();
    expect(before).toEqual([
      { bucket: 'one', class: 'STANDARD', bytes: 262_144 + 300_000 },
      { bucket: 'two', class: 'STANDARD', bytes: 262_144 },
    ]);
    const native = async (method: string, path: string, body?: object) => {
      const headers = { 'content-type': 'application/json' };
      const sending = body ? { headers, body: Buffer.from(JSON.stringify(body)) } : {};
      const answer = await rig.client.send(method, `/_/v1/tenants/default/${path}`, sending);
      expect(answer.status, answer.body.toString()).toBeLessThan(300);
      return answer.body.length > 0 ? JSON.parse(answer.body.toString()) : null;
    };
    await native('POST', 'principals', { name: 'heir' });
    await native('PUT', 'buckets/two/owner', { owner: 'heir' });
    // One whose first owner is not there any more.
    await native('POST', 'principals', { name: 'leaver' });
    const keys = await native('POST', 'principals/leaver/access-keys', {});
    const leaver = new S3Client({ endpoint: rig.gateway.endpoint, ...keys });
    expect((await leaver.send('PUT', '/left')).status).toBe(200);
    expect((await leaver.send('PUT', '/left/key', { body: Buffer.alloc(7) })).status).toBe(200);
    leaver.close();
    await native('PUT', 'buckets/left/owner', { owner: 'heir' });
    await native('DELETE', 'principals/leaver');
    before.unshift({ bucket: 'left', class: 'STANDARD', bytes: 262_144 });
    const owned = await stored();
    expect(owned).toEqual({ admin: 300_020, heir: 37 });
    await rig.stopGateway();
    rig.loseDatabase();
    expect((await rig.rebuild(flags)).code).toBe(0);
    expect(await levels()).toEqual(before);
    expect(await stored()).toEqual(owned);
    await rig.serve(flags);
    expect((await rig.client.send('DELETE', '/two/small')).status).toBe(204);
    expect((await rig.client.send('DELETE', '/two')).status).toBe(204);
    const { body } = await rig.client.send('GET', '/_/v1/records', {
      query: [['action', 's3:DeleteBucket']],
    });
    const [record] = JSON.parse(body.toString()).records;
    expect(Number(record.storageCost)).toBeGreaterThan(0);
    expect(await levels()).toEqual(before.slice(0, 2));
  });
});
