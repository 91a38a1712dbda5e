// Kills a served gateway in the midst of a purge: each object that a snapshot held is shown whole,
// or is gone, and then for good; the purge goes on where it was, until nothing of it is held, and
// no file of it is on the disk. BURSAR_KILL_SEED gives other moments.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { seededBytes } from '../tooling/files.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { findStrayExtents, listExtentFiles } from './extents-on-disk.ts';
import { serveArguments } from './kill-run.ts';
import { S3Client } from './s3-client.ts';

const seed = Number(process.env.BURSAR_KILL_SEED ?? 20261123);
const kills = process.env.BURSAR_FULL === '1' ? 20 : 2;
const timeout = 60_000 + 20_000 * kills;
const callsBeforeKillMax = 2;
const objects = 80 * (kills + 1);
const bucket = 'tenants/default/buckets/raw';

it(`a purge survives ${kills} kills (BURSAR_KILL_SEED=${seed})`, { timeout }, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-purge-kill-'));
  const random = seededRandom(seed);
  const gone = new Set<number>();
  let gateway: ServedGateway | null = null;
  try {
    for (let round = 0; round <= kills; round++) {
      gateway = await startServedGateway({ dataDir, args: serveArguments });
      const client = new S3Client(gateway);
      if (round === 0) await fill(client);
      const purge = async () => {
        const body = { prefix: 'of alice/', reason: 'erasure' };
        return (await call(client, 'POST', `${bucket}/purges`, body)).isDone as boolean;
      };
      await compare(client, gone);
      if (round < kills) {
        for (let calls = randomBelow(random, callsBeforeKillMax); calls > 0; calls--) await purge();
        await compare(client, gone);
        const interrupted = purge().catch(() => null);
        await sleep(randomBelow(random, 12));
        await gateway.kill();
        await interrupted;
      } else {
        while (!(await purge()));
        await compare(client, gone);
        expect(gone.size).toBe(objects);
        expect(await call(client, 'GET', `${bucket}/snapshots`)).toMatchObject({ heldVersions: 1 });
        const kept = await send(client, 'GET', '/then/of bob');
        expect(kept.body.equals(seededBytes(1, 150_000))).toBe(true);
        await expect
          .poll(() => listExtentFiles(dataDir).finished.length, { timeout: 30_000 })
          .toBe(1);
      }
      client.close();
    }
    await gateway?.stop();
    expect(await findStrayExtents(dataDir)).toEqual([]);
    const found: string[] = [];
    await verifyDeep(loadConfig({ data: dataDir }, {}), {
      ...{ checkpointFiles: [], keys: [], withData: true },
      onDifference: ({ where, what }) => found.push(`${where}: ${what}`),
      onProgress: () => {},
    });
    expect(found).toEqual([]);
  } finally {
    await gateway?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
});

/** Some in the database, some in files. */
function contentOf(i: number): Buffer {
  return seededBytes(i, i % 10 === 0 ? 150_000 + i : 100 + i);
}

/** All of it is held by a snapshot alone. */
async function fill(client: S3Client): Promise<void> {
  const all = Array.from({ length: objects }, (_, i) => i);
  await send(client, 'PUT', '/raw');
  await send(client, 'PUT', '/raw/of bob', { body: seededBytes(1, 150_000) });
  await Promise.all(
    all.map((i) => send(client, 'PUT', `/raw/of alice/${i}`, { body: contentOf(i) })),
  );
  await call(client, 'PUT', `${bucket}/snapshots/then`, {});
  const mount = { bucketTenant: 'default', bucket: 'raw', at: 'then' };
  await call(client, 'PUT', 'tenants/default/mounts/then', mount);
  await send(client, 'DELETE', '/raw/of bob');
  await Promise.all(all.map((i) => send(client, 'DELETE', `/raw/of alice/${i}`)));
}

/** Adds to those that are gone. */
async function compare(client: S3Client, gone: Set<number>): Promise<void> {
  await Promise.all(
    Array.from({ length: objects }, async (_, i) => {
      const { status, body } = await client.send('GET', `/then/of alice/${i}`);
      if (status === 404) gone.add(i);
      else {
        expect([i, status, gone.has(i)]).toEqual([i, 200, false]);
        expect(body.equals(contentOf(i))).toBe(true);
      }
    }),
  );
}
