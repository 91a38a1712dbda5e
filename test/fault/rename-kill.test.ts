// Kills a served gateway in the midst of renames, in a bucket with versioning and in one without:
// each object is then at one of its two keys, whole, at the new one where that was acknowledged.
// BURSAR_KILL_SEED gives other moments.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import { seededBytes } from '../tooling/files.ts';
import { send } from '../tooling/filled-folder.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { S3Client } from './s3-client.ts';

const seed = Number(process.env.BURSAR_KILL_SEED ?? 20261123);
const kills = process.env.BURSAR_FULL === '1' ? 40 : 2;
const timeout = 60_000 + 20_000 * kills;
const buckets = ['plain', 'versioned'];
const objects = 120;
const atOnce = 12;

it(`renames survive ${kills} kills (BURSAR_KILL_SEED=${seed})`, { timeout }, async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-rename-kill-'));
  const random = seededRandom(seed);
  let gateway: ServedGateway | null = null;
  /** By bucket, how often each object was renamed for certain. */
  const known = new Map(
    buckets.map((bucket) => [bucket, Array.from({ length: objects }, () => 0)]),
  );
  const keyOf = (i: number, times: number) => `${times}/${i}`;
  try {
    for (let round = 0; round <= kills; round++) {
      gateway = await startServedGateway({ dataDir });
      const client = new S3Client(gateway);
      if (round === 0) await fill(client);
      for (const bucket of buckets) {
        const listed = await list(client, bucket);
        const times = known.get(bucket) ?? [];
        expect(listed.size).toBe(objects);
        for (const [i, before] of times.entries()) {
          const now = listed.get(i) ?? -1;
          expect([bucket, i, now === before || now === before + 1]).toEqual([bucket, i, true]);
          times[i] = now;
          const { body } = await send(client, 'GET', `/${bucket}/${keyOf(i, now)}`);
          expect(body.equals(seededBytes(i, sizeOf(i)))).toBe(true);
        }
      }
      if (round === kills) break;
      /** Renames its objects round and round, until the kill breaks a connection. */
      const work = async (first: number) => {
        for (let i = first; ; i = i + atOnce < objects ? i + atOnce : first) {
          for (const [bucket, times] of known) {
            const now = times[i] as number;
            await send(client, 'PUT', `/${bucket}/${keyOf(i, now + 1)}`, {
              query: [['renameObject', '']],
              headers: { 'x-amz-rename-source': keyOf(i, now) },
            });
            times[i] = now + 1;
          }
        }
      };
      const working = Promise.allSettled(Array.from({ length: atOnce }, (_, i) => work(i)));
      await sleep(20 + randomBelow(random, 400));
      await gateway.kill();
      await working;
      client.close();
    }
    await gateway?.stop();
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
function sizeOf(i: number): number {
  return i % 10 === 0 ? 150_000 + i : 100 + i;
}

async function fill(client: S3Client): Promise<void> {
  for (const bucket of buckets) await send(client, 'PUT', `/${bucket}`);
  const body = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await send(client, 'PUT', '/versioned', { query: [['versioning', '']], body });
  for (const bucket of buckets) {
    await Promise.all(
      Array.from({ length: objects }, (_, i) =>
        send(client, 'PUT', `/${bucket}/0/${i}`, { body: seededBytes(i, sizeOf(i)) }),
      ),
    );
  }
}

/** By object, the number that its key begins with. Fails for one that has two keys. */
async function list(client: S3Client, bucket: string): Promise<Map<number, number>> {
  const { body } = await send(client, 'GET', `/${bucket}`, { query: [['max-keys', '1000']] });
  const found = new Map<number, number>();
  for (const [, times, i] of body.toString().matchAll(/<Key>(\d+)\/(\d+)<\/Key>/g)) {
    expect(found.has(Number(i))).toBe(false);
    found.set(Number(i), Number(times));
  }
  return found;
}
