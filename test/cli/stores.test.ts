// Stores as those who run a gateway meet them: how it starts with them and without them, what it
// says of them, and that their outages are theirs alone. With a real S3 server behind.
import { cpSync, mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { as, send, type Target } from '../protocol/target.ts';
import { metricsToken } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { type Environment, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const rootKeys = { accessKeyId: 'ROOTKEYOFTHETEST', secretAccessKey: 'root-secret-of-the-test' };

describeWithTool(versitygw, 'a gateway with an S3 store', (path) => {
  let backend: S3Backend;
  let place: Workplace;
  let environment: Environment;
  let storeFlags: string[];
  beforeAll(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('backend');
    backend.makeBucket('other');
    place = new Workplace();
    environment = {
      AWS_ACCESS_KEY_ID: backend.credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: backend.credentials.secretAccessKey,
      BURSAR_ROOT_ACCESS_KEY: rootKeys.accessKeyId,
      BURSAR_ROOT_SECRET_KEY: rootKeys.secretAccessKey,
    };
    const at = ['--store-endpoint', backend.endpoint, '--store-path-style'];
    storeFlags = ['--store', 's3://backend/prefix', ...at];
  });
  afterAll(async () => {
    await place.remove();
    await backend.stop();
  });

  const serve = (...flags: string[]): Promise<Served> => place.serve(flags, environment);
  const targetOf = ({ endpoint }: Served): Target =>
    as({ endpoint, keys: rootKeys, strayNames: () => [], stop: async () => {} }, rootKeys);

  /** Statuses of a few requests, one after the other. */
  async function statuses(served: Served, ...asked: [method: string, path: string][]) {
    const found: number[] = [];
    for (const [method, path] of asked) {
      const body = method === 'PUT' ? 'x' : '';
      found.push((await send(targetOf(served), { method, path, body })).status);
    }
    return found;
  }

  const makeBucket = (served: Served, name: string, store: string) =>
    send(targetOf(served), {
      method: 'PUT',
      path: `/${name}`,
      headers: { 'x-bursar-store': store },
    });

  async function healthOf({ endpoint }: Served) {
    const headers = { authorization: `Bearer ${metricsToken}` };
    const answer = await fetch(`${endpoint}/_/health`, { headers });
    const body = (await answer.json()) as { ready: boolean; stores: Record<string, object> };
    return { status: answer.status, ...body };
  }

  test.each([
    ['a bucket that is not there', ['--store', 's3://nothing/prefix'], 'NoSuchBucket'],
    ['a secret that is not right', [], 'SignatureDoesNotMatch'],
  ])('does not start at first with %s, and says why', async (_what, flags, reason) => {
    const given: Environment = flags.length > 0 ? {} : { AWS_SECRET_ACCESS_KEY: 'another secret' };
    const args = ['serve', '--data', 'new', '--listen', '127.0.0.1:0', ...storeFlags, ...flags];
    const { code, stderr } = await place.run(args, { ...environment, ...given });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^bursar: store s3: s3:\/\/\S+ at \S+ cannot be used: [^\n]*\n$/);
    expect(stderr).toContain(reason);
  });

  test('charges what is done in each store by the prices of that store', async () => {
    const { endpoint } = backend;
    const cold = { url: 's3://other/prefix', endpoint, pathStyle: true, prices: 'aws/us-east-1' };
    const served = await place.serve(['--data', 'priced'], {
      ...environment,
      BURSAR_STORES: JSON.stringify({ cold }),
      BURSAR_PRICES: 'none',
    });
    await makeBucket(served, 'near', 'local');
    await makeBucket(served, 'far', 'cold');
    await statuses(served, ['PUT', '/near/k'], ['PUT', '/far/k'], ['GET', '/far/k']);
    const client = {
      BURSAR_ENDPOINT: served.endpoint,
      BURSAR_ACCESS_KEY_ID: rootKeys.accessKeyId,
      BURSAR_SECRET_ACCESS_KEY: rootKeys.secretAccessKey,
    };
    await vi.waitFor(async () => {
      const { stdout } = await place.run(['records', '--action', 's3:GetObject', '--json'], client);
      expect(stdout).not.toBe('');
    }, 20_000);
    const { stdout } = await place.run(['records', '--json'], client);
    const charged = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ key }) => key === 'k');
    expect(
      charged.map(({ bucket, price, priceBook, cost }) => [bucket, price, priceBook, cost]),
    ).toEqual([
      ['near', 'put', 'free', '0.00'],
      ['far', 'put', 'aws-us-east-1-2026', '0.000005'],
      ['far', 'get', 'aws-us-east-1-2026', '0.0000004'],
    ]);
  });

  // Each finds the gateway as the one before has left it.
  describe('that is the same throughout', () => {
    let served: Served;
    beforeAll(async () => {
      served = await serve(...storeFlags);
    });

    test('says in its log and health what the store can do, to nobody where it is', async () => {
      expect(served.stderr()).toMatch(
        /^bursar: store s3 is ready: write, proof, read, range, list, condition, race, delete \(s3:\/\/backend\/prefix at http:\S+\)$/m,
      );
      const health = await healthOf(served);
      expect(health).toMatchObject({
        status: 200,
        ready: true,
        stores: {
          local: { ready: true },
          s3: { ready: true, breaker: 'closed', capabilities: { write: true, race: true } },
        },
      });
      const text = JSON.stringify(health);
      for (const secret of ['backend', backend.endpoint, backend.credentials.accessKeyId]) {
        expect(text).not.toContain(secret);
      }
    });

    test('lists its stores, and keeps a tenant’s default among them', async () => {
      const client = {
        BURSAR_ENDPOINT: served.endpoint,
        BURSAR_ACCESS_KEY_ID: rootKeys.accessKeyId,
        BURSAR_SECRET_ACCESS_KEY: rootKeys.secretAccessKey,
      };
      const listed = await place.run(['store', 'list'], client);
      expect(listed.stdout).toMatch(
        /^STORE +NUMBER +READY +DRILL +LOCATION +REASON\nlocal +1 +yes +no +local\ns3 \* +2 +yes +no +s3:\/\/backend\/prefix at http:\S+\n$/,
      );
      const { stdout } = await place.run(['store', 'list', '--json'], client);
      expect(JSON.parse(stdout)).toMatchObject([
        { name: 'local', isDefault: false, health: { freeBytes: expect.any(Number) } },
        { name: 's3', isDefault: true, detail: { findings: expect.any(Array) } },
      ]);

      const json = async (...args: string[]) =>
        JSON.parse((await place.run(['tenant', ...args, '--json'], client)).stdout);
      expect(await json('create', 'cms', '--store', 'local')).toMatchObject({
        defaultStore: 'local',
      });
      expect(await json('set', 'cms', '--store', 's3')).toMatchObject({ defaultStore: 's3' });
      expect(await json('set', 'cms', '--members-create-buckets', 'no')).toMatchObject({
        defaultStore: 's3',
        membersCreateBuckets: false,
      });
      expect(await json('set', 'cms', '--no-store')).toMatchObject({ defaultStore: null });
      expect(await place.run(['tenant', 'set', 'cms', '--store', 'none'], client)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('There is no store of this name'),
      });
      expect(await place.run(['tenant', 'set', 'cms'], client)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('--no-store'),
      });
    });

    test('shares its prefix with no other data folder', async () => {
      const other = ['serve', '--data', 'other', '--listen', '127.0.0.1:0', ...storeFlags];
      const { code, stdout, stderr } = await place.run(other, environment);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(
        /^bursar: store s3: s3:\/\/backend\/prefix at \S+ belongs to another gateway[^\n]*\n$/,
      );
    });

    test('whose database is lost says how to get it back', async () => {
      mkdirSync(join(place.folder, 'heir'));
      cpSync(join(place.data, 'keys'), join(place.folder, 'heir', 'keys'), { recursive: true });
      const heir = ['serve', '--data', 'heir', '--listen', '127.0.0.1:0', ...storeFlags];
      const { code, stderr } = await place.run(heir, environment);
      expect(code).toBe(1);
      expect(stderr).toMatch(
        /belongs to another data folder with the same keys;.*run bursar restore or rebuild\n$/,
      );
    });

    test('answers 503 while its server is down, and goes on when it is back', async () => {
      await makeBucket(served, 'remote', 's3');
      await makeBucket(served, 'near', 'local');
      expect(await statuses(served, ['PUT', '/remote/k'], ['PUT', '/near/k'])).toEqual([200, 200]);
      await backend.kill();
      for (const method of ['GET', 'PUT', 'GET', 'PUT']) {
        expect(await statuses(served, [method, '/remote/k'])).toEqual([503]);
      }
      await backend.restart();
      await expect
        .poll(() => statuses(served, ['GET', '/remote/k'], ['PUT', '/remote/k']), {
          timeout: 60_000,
          interval: 200,
        })
        .toEqual([200, 200]);
      expect(await served.stop()).toBe(0);
    });

    test('starts while its server is down, serves others, and finds it later', async () => {
      await backend.kill();
      served = await serve(...storeFlags);
      expect(served.stderr()).toMatch(/^bursar: store s3 is not available: /m);
      expect(await healthOf(served)).toMatchObject({
        status: 200,
        ready: true,
        stores: { local: { ready: true }, s3: { ready: false } },
      });
      const asked: [string, string][] = [
        ['GET', '/near/k'],
        ['PUT', '/near/l'],
        ['GET', '/remote/k'],
        ['PUT', '/remote/l'],
        ['DELETE', '/remote/k'],
        ['HEAD', '/remote/k'],
      ];
      expect(await statuses(served, ...asked)).toEqual([200, 200, 503, 503, 503, 200]);

      await backend.restart();
      await expect
        .poll(async () => (await healthOf(served)).stores, { timeout: 60_000, interval: 200 })
        .toMatchObject({ s3: { ready: true } });
      await expect
        .poll(() => statuses(served, ['PUT', '/remote/l']), { timeout: 30_000, interval: 200 })
        .toEqual([200]);
      expect(await statuses(served, ['GET', '/remote/k'], ['GET', '/remote/l'])).toEqual([
        200, 200,
      ]);
    });

    test('without its configuration leaves its buckets alone, with it has them again', async () => {
      await send(targetOf(served), {
        method: 'PATCH',
        path: '/_/v1/tenants/default',
        headers: { 'content-type': 'application/json' },
        body: '{"defaultStore":"s3"}',
      });
      expect(await served.stop()).toBe(0);

      const without = await serve();
      expect(without.stderr()).toMatch(
        /^bursar: store s3 is not configured, but buckets are in it/m,
      );
      expect(await healthOf(without)).toMatchObject({
        ready: true,
        stores: { s3: { ready: false } },
      });
      expect(await statuses(without, ['GET', '/remote/k'], ['PUT', '/remote/l'])).toEqual([
        503, 503,
      ]);
      const asked = await makeBucket(without, 'another', 's3');
      expect([asked.status, asked.code]).toEqual([400, 'InvalidArgument']);
      // The tenant's own default is not there: its bytes are not put elsewhere instead.
      const plain = await send(targetOf(without), { method: 'PUT', path: '/another' });
      expect([plain.status, plain.code]).toEqual([503, 'ServiceUnavailable']);
      expect((await makeBucket(without, 'another', 'local')).status).toBe(200);
      await without.stop();

      served = await serve(...storeFlags);
      expect(await statuses(served, ['GET', '/remote/k'], ['PUT', '/remote/l'])).toEqual([
        200, 200,
      ]);
    });

    test('follows a store that was moved with all its objects, and no other way', async () => {
      await served.stop();
      const moved = storeFlags.map((flag) => flag.replace('prefix', 'moved'));
      const args = ['serve', '--listen', '127.0.0.1:0', ...moved];
      const early = await place.run(args, environment);
      expect(early).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/has none of its data/),
      });
      const folder = join(backend.dataDir, 'backend');
      renameSync(join(folder, 'prefix'), join(folder, 'moved'));
      served = await serve(...moved);
      expect(served.stderr()).toMatch(/^bursar: store s3 has moved from s3:\/\/backend\/prefix /m);
      expect(await statuses(served, ['GET', '/remote/k'], ['PUT', '/remote/l'])).toEqual([
        200, 200,
      ]);
    });
  });
});
