// A gateway that is killed while clients upload to a bucket in an S3 store: what was acknowledged
// is there, and of what was not nothing stays in the store. BURSAR_FULL=1 kills more often.
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type BackedGateway, startBackedGateway } from './backed-gateway.ts';
import { digestOf, KiB, MiB, makePieces } from './content.ts';
import { S3Client } from './s3-client.ts';
import { findStrayObjects } from './stray-objects.ts';

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const rounds = process.env.BURSAR_FULL === '1' ? 5 : 2;
const isLarge = (seed: number): boolean => seed % 4 === 0;
/** Bytes, of two extents or in one write. */
const sizeOf = (seed: number): number => (isLarge(seed) ? 9 * MiB : 30 * KiB) + seed;

describeWithTool(versitygw, 'a killed gateway with an S3 store', (path) => {
  let backed: BackedGateway;
  beforeAll(async () => {
    const args = ['--sweep-interval', '200ms', '--sweep-grace', '0ms'];
    backed = await startBackedGateway({ path, args });
  });
  afterAll(() => backed.stop());

  it('has what it acknowledged, and removes what it had sent of the rest', async () => {
    const acknowledged = new Map<string, number>();
    for (let round = 0; round < rounds; round++) {
      const client = new S3Client(backed.gateway);
      await client.send('PUT', '/kept');
      const upload = async (seed: number, sizeBytes: number) => {
        const key = `/kept/${round}-${seed}`;
        const body = { sizeBytes, chunks: makePieces(seed, sizeBytes) };
        const { status } = await client.send('PUT', key, { body });
        if (status === 200) acknowledged.set(key, seed);
      };
      const writer = async (first: number) => {
        for (let seed = first; ; seed += 8) await upload(seed, sizeOf(seed));
      };
      const writers = Array.from({ length: 8 }, (_, i) => writer(i).catch(() => null));
      const before = acknowledged.size;
      await vi.waitFor(() => {
        expect(acknowledged.size).toBeGreaterThan(before + 20);
        // Another one is on its way.
        expect([...acknowledged.values()].some(isLarge)).toBe(true);
      }, 30_000);
      await backed.crash();
      client.close();
      await Promise.all(writers);

      const after = new S3Client(backed.gateway);
      for (const [key, seed] of acknowledged) {
        const expected = { status: 200, ...digestOf(seed, sizeOf(seed)) };
        expect(await after.digest(key), key).toEqual(expected);
      }
      after.close();
    }
    const { dataDir } = backed.gateway;
    expect(await findStrayObjects(backed.storeDir, dataDir)).toEqual([]);
  });
});
