// Two stores of one gateway whose contents change places while it serves, or whose settings do. A
// real S3 server, the gateway as a process.
import { mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const sweepMs = 1000;
const otherStores = /is the place of another store of this gateway/;

describeWithTool(versitygw, 'two stores that change places', (path) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-swapped-'));
  let backend: S3Backend;
  let gateway: ServedGateway;
  let client: S3Client;

  beforeAll(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('backend');
    await serve({ east: 'a', west: 'b' });
    for (const store of ['east', 'west']) {
      const headers = { 'x-bursar-store': store };
      expect((await client.send('PUT', `/in-${store}`, { headers })).status).toBe(200);
      for (const key of ['kept', 'removed']) {
        expect(await send('PUT', `/in-${store}/${key}`, Buffer.alloc(100_000, store))).toBe(200);
      }
    }
  });
  afterAll(async () => {
    client?.close();
    await gateway?.stop();
    await backend?.stop();
    rmSync(dataDir, { recursive: true });
  });

  /** Names of stores by their prefixes. */
  async function serve(prefixes: Record<string, string>): Promise<void> {
    const { endpoint, credentials } = backend;
    const stores = Object.entries(prefixes).map(([name, prefix]) => {
      return [name, { url: `s3://backend/${prefix}`, endpoint, pathStyle: true }];
    });
    gateway = await startServedGateway({
      dataDir,
      args: ['--sweep-grace', '0s', '--sweep-interval', `${sweepMs}ms`],
      env: {
        BURSAR_STORES: JSON.stringify(Object.fromEntries(stores)),
        AWS_ACCESS_KEY_ID: credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
      },
    });
    client = new S3Client(gateway);
  }

  const send = async (method: string, to: string, body?: Buffer): Promise<number> =>
    (await client.send(method, to, { body })).status;

  function exchange(): void {
    const at = (prefix: string): string => join(backend.dataDir, 'backend', prefix);
    renameSync(at('a'), at('between'));
    renameSync(at('b'), at('a'));
    renameSync(at('between'), at('b'));
  }

  async function health() {
    return JSON.parse((await client.send('GET', '/_/v1/health')).body.toString());
  }

  const extentsIn = (prefix: string): number => {
    const folder = join(backend.dataDir, 'backend', prefix, 'extents');
    const names = readdirSync(folder, { recursive: true }) as string[];
    return names.filter((name) => name.length > 30).length;
  };

  async function areServed(): Promise<void> {
    await vi.waitFor(async () => {
      expect(await health()).toMatchObject({
        stores: { east: { ready: true }, west: { ready: true } },
      });
    }, 60_000);
  }

  it('are shut by the first who misses something, and nothing is told as damaged', async () => {
    const { integrityFailures } = await health();
    exchange();
    for (const store of ['east', 'west']) {
      expect(await send('GET', `/in-${store}/kept`)).toBe(503);
      expect(await send('PUT', `/in-${store}/new`, Buffer.alloc(10))).toBe(503);
    }
    expect(await health()).toMatchObject({
      integrityFailures,
      stores: { east: { ready: false }, west: { ready: false } },
    });
    await expect.poll(() => gateway.output()).toMatch(otherStores);
    exchange();
    await areServed();
    for (const store of ['east', 'west']) {
      const { body } = await client.send('GET', `/in-${store}/kept`);
      expect(body.equals(Buffer.alloc(100_000, store))).toBe(true);
    }
  });

  it('are not swept: what was not there to be removed is removed when it is back', async () => {
    for (const store of ['east', 'west']) {
      expect(await send('DELETE', `/in-${store}/removed`)).toBe(204);
    }
    exchange();
    // No request finds out.
    await new Promise((resolve) => setTimeout(resolve, 3 * sweepMs));
    exchange();
    await areServed();
    await vi.waitFor(() => expect([extentsIn('a'), extentsIn('b')]).toEqual([1, 1]), 30_000);
  });

  it('whose settings are exchanged are refused at the start', async () => {
    client.close();
    await gateway.stop();
    await expect(serve({ east: 'b', west: 'a' })).rejects.toThrow(otherStores);
    await serve({ east: 'a', west: 'b' });
    expect(await send('GET', '/in-east/kept')).toBe(200);
  });
});
