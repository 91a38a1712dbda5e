// The memory of a served gateway under many large transfers at once. By default each object is
// smaller than the promised 100 MB, and downloads are not measured apart from uploads, so that the
// test fits in CI; BURSAR_FULL=1 sends it all. The promise is the same where the bytes are in S3.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startBackedGateway } from '../fault/backed-gateway.ts';
import { MiB, makeContent } from '../fault/content.ts';
import { type Digest, S3Client } from '../fault/s3-client.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { memoryBytes, peakMemoryBytes } from './process-figures.ts';

const isFull = process.env.BURSAR_FULL === '1';
const transfers = 64;
// More than an extent of the store; all of them together much more than the process may hold.
const localBytes = isFull ? 100_000_000 : 17_000_000;
const remoteBytes = isFull ? 100_000_000 : 12_000_000;
const memoryBytesMax = 512 * MiB;
const timeoutMs = isFull ? 900_000 : 120_000;

// Random pieces in another order for each object: as random as fresh bytes, and cheaper to make.
const block = makeContent(1, 16 * MiB).bytes;
const pieceBytes = MiB / 4;

interface Body extends Digest {
  chunks: Iterable<Buffer>;
}

/** A body whose digest is known once it has been sent. */
function makeBody(seed: number, objectBytes: number): Body {
  const sha256 = createHash('sha256');
  const body = { sizeBytes: objectBytes, sha256: '', chunks: [] as Iterable<Buffer> };
  function* chunks() {
    for (let at = 0, i = seed; at < objectBytes; i += 7) {
      const from = (i * 7919 * 4096) % (block.length - pieceBytes);
      const piece = block.subarray(from, from + Math.min(pieceBytes, objectBytes - at));
      at += piece.length;
      sha256.update(piece);
      yield piece;
    }
    body.sha256 = sha256.digest('hex');
  }
  body.chunks = chunks();
  return body;
}

interface Served {
  gateway: ServedGateway;
  stop(): Promise<void>;
}

async function startLocal(): Promise<Served> {
  const gateway = await startServedGateway();
  return { gateway, stop: () => gateway.stop() };
}

const what = (bytes: number) => `${transfers} transfers of ${bytes / 1e6} MB at once`;

describe(`${what(localBytes)}, on the local disk`, () => keepMemory(localBytes, startLocal));
describeWithTool(versitygw, `${what(remoteBytes)}, in S3`, (path) => {
  keepMemory(remoteBytes, () => startBackedGateway({ path }));
});

function keepMemory(objectBytes: number, start: () => Promise<Served>): void {
  let served: Served;
  let gateway: ServedGateway;
  let client: S3Client;
  const stored = new Map<string, string>();

  beforeAll(async () => {
    served = await start();
    gateway = served.gateway;
    client = new S3Client(gateway, 2 * transfers);
    await client.send('PUT', '/memory');
  });

  afterAll(async () => {
    client.close();
    // What was stored is removed, gigabytes of it at full length.
    await served.stop();
  }, 120_000);

  async function upload(key: string, seed: number): Promise<void> {
    const body = makeBody(seed, objectBytes);
    const { status } = await client.send('PUT', `/memory/${key}`, { body });
    expect(status).toBe(200);
    stored.set(key, body.sha256);
  }

  async function download(key: string): Promise<void> {
    const expected = { status: 200, sizeBytes: objectBytes, sha256: stored.get(key) };
    expect(await client.digest(`/memory/${key}`)).toEqual(expected);
  }

  /** All at once; tells how fast and how large the gateway was. */
  async function together(what: string, work: Promise<void>[]): Promise<void> {
    const begun = performance.now();
    await Promise.all(work);
    const seconds = (performance.now() - begun) / 1000;
    const pid = gateway.pid as number;
    const peak = (peakMemoryBytes(pid) / MiB).toFixed(0);
    const now = (memoryBytes(pid) / MiB).toFixed(0);
    const rate = ((work.length * objectBytes) / 1e6 / seconds).toFixed(0);
    console.info(
      `${what}: ${seconds.toFixed(1)} s, ${rate} MB/s, peak ${peak} MiB, now ${now} MiB`,
    );
  }

  it(
    'keeps the process under 512 MiB, and every byte right',
    async () => {
      const keys = Array.from({ length: transfers }, (_, i) => `object${i}`);
      await together(
        'uploads',
        keys.map((key, i) => upload(key, i)),
      );
      if (isFull) await together('downloads', keys.map(download));
      const downloads = transfers * (isFull ? 1 / 2 : 3 / 4);
      await together('both', [
        ...keys.slice(0, downloads).map(download),
        ...keys.slice(downloads).map((key, i) => upload(`${key}-again`, 1000 + i)),
      ]);
      expect(peakMemoryBytes(gateway.pid as number)).toBeLessThan(memoryBytesMax);
    },
    timeoutMs,
  );
}
