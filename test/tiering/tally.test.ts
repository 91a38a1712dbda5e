// Whole objects of a remote store: what writing and reading them asks of the server is counted in
// the tally that came with them, by the time they are done, and nothing of it elsewhere.
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { StoreTallies, StoreTally } from '#bursar/tiering/stores/store-tally.js';
import { type S3Rig, startS3Rig } from '../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { finish, KiB, MiB, makeBytes, makeRig, placeOf, pushAll, type Rig } from './rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describeWithTool(versitygw, 'the tally of a write or a read', (path) => {
  let s3: S3Rig;
  let store: S3Store;
  let own: StoreTally;
  let rig: Rig;
  beforeAll(async () => {
    s3 = await startS3Rig(path);
    own = new StoreTally(2);
    store = await s3.open({ tally: own, hedgeShare: 0 });
    rig = await makeRig({ remotes: [store] });
  });
  afterAll(async () => {
    await rig.close();
    await s3.stop();
  });
  afterEach(() => {
    s3.proxy.choose = () => undefined;
  });

  const begin = (sizeBytes: number, tally: StoreTally) =>
    rig.writer.begin({ ...placeOf('cms', 2), sizeBytes, checksums: [], tally });

  async function write(body: Buffer, tally: StoreTally) {
    const sink = begin(body.length, tally);
    await pushAll(sink, body, 64 * KiB);
    return finish(sink);
  }

  const storedBytes = (runs: readonly { extentBytes: number; trailerBytes: number }[]) =>
    runs.reduce((sum, { extentBytes, trailerBytes }) => {
      return sum + extentBytes + 32 * Math.ceil(extentBytes / (256 * KiB)) + trailerBytes;
    }, 0);

  it.each([1, 64 * KiB, 300 * KiB, 8 * MiB, 20 * MiB])(
    'has each extent of %i bytes once, on the way in and on the way out',
    async (sizeBytes) => {
      own.take();
      const body = makeBytes(sizeBytes);
      const [written, tallies] = [new StoreTally(2), new StoreTallies()];
      const { runs } = await write(body, written);
      const bytes = storedBytes(runs);
      const counts = { store: 2, puts: 0, gets: 0, frees: 0, sentBytes: 0, receivedBytes: 0 };
      expect(written.take()).toEqual({ ...counts, puts: runs.length, sentBytes: bytes });
      const pieces: Buffer[] = [];
      const inlineBody = async () => Buffer.alloc(0);
      for await (const data of rig.reader.read({ tenant: 'cms', runs, inlineBody, tallies })) {
        pieces.push(Buffer.from(data));
      }
      expect(Buffer.concat(pieces).equals(body)).toBe(true);
      expect(tallies.take()).toEqual([{ ...counts, gets: runs.length, receivedBytes: bytes }]);
      expect(own.take()).toBeNull();
    },
  );

  it('has the tries of an extent that did not arrive', async () => {
    const tally = new StoreTally(2);
    let left = 2;
    s3.proxy.choose = ({ method }) =>
      method === 'PUT' && left-- > 0
        ? { kind: 'status', status: 500, code: 'InternalError' }
        : undefined;
    const { proxy } = s3;
    const { requests } = proxy;
    const { runs } = await write(makeBytes(9 * MiB), tally);
    const { puts = 0, gets = 0, frees = 0 } = tally.take() ?? {};
    expect({ puts, frees }).toEqual({ puts: runs.length, frees: 2 });
    expect(puts + gets + frees).toBe(proxy.requests - requests);
  });

  it('has what an aborted write sent, and removed again', async () => {
    own.take();
    const tally = new StoreTally(2);
    const { proxy } = s3;
    const { requests } = proxy;
    const sink = begin(20 * MiB, tally);
    await pushAll(sink, makeBytes(17 * MiB), 64 * KiB);
    while (proxy.requests === requests) await new Promise((r) => setTimeout(r, 5));
    await sink.abort();
    const { puts = 0, frees = 0, sentBytes = 0 } = tally.take() ?? {};
    expect(puts).toBeGreaterThan(0);
    expect(frees).toBe(puts);
    expect(sentBytes).toBeGreaterThan(puts * 8 * MiB);
    expect(puts + frees).toBe(proxy.requests - requests);
    expect(own.take()).toBeNull();
  });

  it('has what a reader asked for that was left early', async () => {
    own.take();
    const { runs } = await write(makeBytes(20 * MiB), new StoreTally(2));
    const tallies = new StoreTallies();
    const { proxy } = s3;
    const { requests } = proxy;
    const inlineBody = async () => Buffer.alloc(0);
    let readBytes = 0;
    for await (const data of rig.reader.read({ tenant: 'cms', runs, inlineBody, tallies })) {
      readBytes += data.length;
      break;
    }
    const [use] = tallies.take();
    expect(use?.gets).toBe(proxy.requests - requests);
    expect(use?.receivedBytes).toBeGreaterThanOrEqual(readBytes);
    await new Promise((r) => setTimeout(r, 50));
    expect(tallies.take()).toEqual([]);
    expect(own.take()).toBeNull();
  });
});
