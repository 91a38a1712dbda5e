// Kills a gateway again and again while lifecycle rules end what is due. Moments are seeded;
// BURSAR_KILL_SEED gives others, BURSAR_KILLS more of them.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { Workplace } from '../cli/command.ts';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { sleep } from './plain-start.ts';
import { S3Client } from './s3-client.ts';

const seed = Number(process.env.BURSAR_KILL_SEED ?? 20260702);
const killsMin = Math.ceil(Number(process.env.BURSAR_KILLS ?? 25) / 10);
const timeoutMs = 120_000 + killsMin * 10_000;
/** Of each bucket. */
const keysCount = 80 * killsMin;

interface Ended {
  action: string;
  bucket: string;
  key: string;
  supersedes?: number;
}

describe(`a gateway killed ${killsMin} times while rules end what is due (seed ${seed})`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-lifecycle-kill-'));
  const dataDir = join(folder, 'data');
  const random = seededRandom(seed);
  let gateway: ServedGateway;
  let client: S3Client;
  const leftAtKills: number[] = [];

  const serve = async () => {
    gateway = await startServedGateway({ dataDir });
    client = new S3Client(gateway);
  };
  const send = async (method: string, path: string, text = '', name?: string) => {
    const body = Buffer.from(text);
    const query: [string, string][] = name === undefined ? [] : [[name, '']];
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
    const answer = await client.send(method, path, { query, body, headers });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.body}`);
  };
  const read = async <R>(sql: string): Promise<R[]> => {
    const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
    try {
      return await db.tx.all<R>(sql);
    } finally {
      db.close();
    }
  };
  /** Objects that are not ended yet. */
  const countLeft = async () => {
    const rows = await read<{ n: number }>(
      'SELECT count(*) AS n FROM versions WHERE is_marker = 0',
    );
    return rows[0]?.n ?? 0;
  };

  beforeAll(async () => {
    await serve();
    for (const bucket of ['plain', 'versioned']) await send('PUT', `/${bucket}`);
    const versioning =
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    await send('PUT', '/versioned', versioning, 'versioning');
    const keys = Array.from({ length: keysCount }, (_, i) => i);
    for (let i = 0; i < keysCount; i += 50) {
      await Promise.all(
        keys
          .slice(i, i + 50)
          .flatMap((key) => [
            send('PUT', `/plain/${key}`, `body ${key}`),
            send('PUT', `/versioned/${key}`, `body ${key}`),
          ]),
      );
    }
    // Two rules for each key.
    const rule = `<Rule><Filter/><Status>Enabled</Status>
      <Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule>`;
    const rules = `<LifecycleConfiguration>${rule}${rule}</LifecycleConfiguration>`;
    for (const path of ['/plain', '/versioned']) await send('PUT', path, rules, 'lifecycle');
    for (let kills = 0; kills < killsMin; kills++) {
      await sleep(randomBelow(random, 60));
      client.close();
      await gateway.kill();
      leftAtKills.push(await countLeft());
      await serve();
    }
    await vi.waitFor(async () => expect(await countLeft()).toBe(0), { timeout: 60_000 });
    client.close();
    await gateway.stop();
  }, timeoutMs);
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('was killed while there was more to end', () => {
    const amid = leftAtKills.filter((left) => left > 0 && left < 2 * keysCount);
    expect(amid.length).toBeGreaterThan(0);
  });

  it('has ended everything once, and has a record of each end', async () => {
    const rows = await read<{ record: string }>('SELECT record FROM records');
    const ended = rows.map(({ record }) => JSON.parse(record) as Ended);
    const keysOf = (action: string, bucket: string) =>
      ended.filter((one) => one.action === action && one.bucket === bucket).map(({ key }) => key);
    const all = Array.from({ length: keysCount }, (_, i) => String(i)).sort();
    expect(keysOf('s3:ExpireObject', 'plain').sort()).toEqual(all);
    expect(keysOf('s3:CreateDeleteMarker', 'versioned').sort()).toEqual(all);
    expect(keysOf('s3:ExpireObject', 'versioned')).toEqual([]);
  });

  it('counts as stored exactly what is left', async () => {
    const sql = `SELECT used_stored_objects AS objects, used_stored_bytes AS bytes
      FROM quota_accounts WHERE account = 'bucket:default/plain'`;
    expect(await read(sql)).toEqual([{ objects: 0, bytes: 0 }]);
    const kept = await read<{ n: number; bytes: number }>(
      'SELECT count(*) AS n, sum(size) AS bytes FROM noncurrent_versions WHERE is_marker = 0',
    );
    const counted = await read<{ objects: number; bytes: number }>(
      sql.replace('default/plain', 'default/versioned'),
    );
    expect(counted).toEqual([{ objects: keysCount, bytes: kept[0]?.bytes }]);
    expect(kept[0]?.n).toBe(keysCount);
  });

  it('verifies, log against records against catalog', async () => {
    const place = new Workplace();
    const { code, stdout, stderr } = await place.run(['verify', 'deep', '--data', dataDir]);
    await place.remove();
    expect([code, stdout + stderr]).toEqual([0, expect.any(String)]);
  });
});
