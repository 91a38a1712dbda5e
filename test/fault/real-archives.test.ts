// Classes in archives of S3, and in another class of its: moto plays Glacier, restores and refusals
// of what is not restored, and versitygw a server that knows the classes and restores nothing.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { FaultProxy, type ProxiedRequest } from '../tooling/fault-proxy.ts';
import { call, type Sending, send } from '../tooling/filled-folder.ts';
import { type KmsServer as MotoServer, startKms as startMoto } from '../tooling/kms-server.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, motoPython, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { MiB, makeContent } from './content.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const soon = { timeout: 30_000, interval: 200 };
const content = makeContent(1, MiB);

describeWithTool(versitygw, 'a class in an archive of S3', (versity) => {
  describeWithTool(motoPython, 'and one that restores', (python) => {
    let moto: MotoServer;
    let other: S3Backend;
    let disk: string;
    let proxy: FaultProxy;
    let env: Record<string, string>;
    let gateway: ServedGateway;
    let client: S3Client;

    beforeAll(async () => {
      disk = mkdtempSync(join(tmpdir(), 'bursar-archives-'));
      mkdirSync(join(disk, 'store'));
      moto = await startMoto(python);
      proxy = await FaultProxy.start(Number(new URL(moto.endpoint).port));
      other = await startVersitygw(versity);
      other.makeBucket('legs');
      await fetch(`${moto.endpoint}/legs`, { method: 'PUT' });
      const at = (endpoint: string, place: string, storageClass: string) => ({
        ...{ url: `s3://legs/${place}`, endpoint, pathStyle: 'yes', region: 'us-east-1' },
        storageClass,
      });
      const inParts = { recallDelay: '300ms', extentBytes: '256KiB' };
      const stores = {
        glacier: { ...at(proxy.endpoint, 'cold', 'GLACIER'), ...inParts },
        rare: at(proxy.endpoint, 'rare', 'ONEZONE_IA'),
        second: { ...at(proxy.endpoint, 'second', 'GLACIER'), recallDelay: '300ms' },
        vault: { ...at(proxy.endpoint, 'vault', 'GLACIER'), recallDelay: '300ms' },
        disk: { url: `file://${disk}/store` },
        stuck: at(other.endpoint, 'stuck', 'GLACIER'),
        turned: at(proxy.endpoint, 'turned', 'ONEZONE_IA'),
      };
      const { accessKeyId, secretAccessKey } = other.credentials;
      env = {
        BURSAR_STORES: JSON.stringify(stores),
        AWS_ACCESS_KEY_ID: accessKeyId,
        AWS_SECRET_ACCESS_KEY: secretAccessKey,
        AWS_EC2_METADATA_DISABLED: 'true',
        ...{ BURSAR_SWEEP_INTERVAL: '300ms', BURSAR_SWEEP_GRACE: '0ms' },
      };
      await serve();
      const archived = { access: 'restore', restoreWithinHours: 12 };
      for (const definition of [
        { name: 'cold', aliases: ['GLACIER'], ...archived, durability: legs('glacier') },
        { name: 'stuck', ...archived, durability: legs('stuck') },
        { name: 'rare', aliases: ['ONEZONE_IA'], durability: legs('rare') },
        { name: 'turned', durability: legs('turned') },
        { name: 'partly', durability: legs('turned', 'disk') },
        { name: 'both', ...archived, durability: legs('glacier', 'second') },
        { name: 'late', durability: legs('vault', 'disk') },
        { name: 'kept', durability: legs('disk', 'vault') },
        { name: 'spare', durability: legs('rare', 'vault') },
        { name: 'spared', durability: legs('rare', 'disk') },
      ]) {
        await call(client, 'POST', 'tenants/default/classes', definition);
      }
      await send(client, 'PUT', '/first');
    });

    async function serve(more: Record<string, string> = {}): Promise<void> {
      client?.close();
      gateway = await startServedGateway({ dataDir: join(disk, 'data'), env: { ...env, ...more } });
      client = new S3Client(gateway);
    }

    afterAll(async () => {
      client?.close();
      await gateway?.stop();
      await other?.stop();
      await proxy?.refuse();
      await moto?.stop();
      rmSync(disk, { recursive: true, force: true });
    });

    const legs = (...names: string[]) => ({ legs: names.map((store) => ({ store })) });
    const put = (key: string, of: string) =>
      client.send('PUT', `/first/${key}`, {
        ...{ headers: { 'x-amz-storage-class': of }, body: content.bytes },
      });
    const restore = (key: string, tier: string, bucket = 'first') => {
      const job = `<GlacierJobParameters><Tier>${tier}</Tier></GlacierJobParameters>`;
      const body = Buffer.from(`<RestoreRequest><Days>2</Days>${job}</RestoreRequest>`);
      const sending: Sending = { query: [['restore', '']], body };
      return client.send('POST', `/${bucket}/${key}`, sending as Parameters<typeof client.send>[2]);
    };
    const headOf = async (key: string) => (await client.send('HEAD', `/first/${key}`)).headers;

    interface Told {
      key?: string;
      priceBook?: string;
      class?: string;
      cost?: string;
      storageCost?: string;
      storageCosts?: Record<string, string>;
      byteMs?: string;
    }
    const recordOf = async (action: string, key: string) => (await recordsOf(action, key))[0];
    const countOf = async (action: string, key: string) => (await recordsOf(action, key)).length;

    async function recordsOf(
      action: string,
      key: string | undefined,
      bucket = 'first',
    ): Promise<Told[]> {
      const query: [string, string][] = [
        ['action', action],
        ['bucket', bucket],
      ];
      const answer = await client.send('GET', '/_/v1/records', { query });
      const records: Told[] = JSON.parse(answer.body.toString()).records;
      return records.filter((one) => one.key === key);
    }

    /** What the server says of the extents of a store. */
    async function classesAt(endpoint: string, place: string): Promise<string[]> {
      const answer = await fetch(`${endpoint}/legs?list-type=2&prefix=${place}/extents/`);
      const found = [...(await answer.text()).matchAll(/<StorageClass>(\w+)</g)];
      return [...new Set(found.map(([, of]) => String(of)))];
    }

    /** The names of the extents in a store, without its place. */
    async function extentsAt(place: string): Promise<string[]> {
      const answer = await fetch(`${moto.endpoint}/legs?list-type=2&prefix=${place}/extents/`);
      const found = (await answer.text()).matchAll(/<Key>\w+\/(extents\/\w+\/\w+)</g);
      return [...found].map(([, name]) => String(name));
    }

    async function loseAt(place: string, names: readonly string[]): Promise<void> {
      for (const name of names) {
        await fetch(`${moto.endpoint}/legs/${place}/${name}`, { method: 'DELETE' });
      }
    }

    const filesIn = (folder: string) =>
      readdirSync(join(folder, 'extents'), { recursive: true, withFileTypes: true })
        .filter((one) => one.isFile())
        .map((one) => join(one.parentPath, one.name));

    it('is read after its store has restored it, and charged as that class', async () => {
      expect((await put('deep', 'GLACIER')).status).toBe(200);
      expect(await classesAt(moto.endpoint, 'cold')).toEqual(['GLACIER']);
      expect((await recordOf('s3:PutObject', 'deep'))?.priceBook).toBe(
        'aws-us-east-1-2026:GLACIER',
      );
      const shut = await client.send('GET', '/first/deep');
      expect([shut.status, shut.body.toString()]).toEqual([
        403,
        expect.stringContaining('InvalidObjectState'),
      ]);
      // What is not restored is looked at, and not read.
      const { findings } = await call(client, 'POST', 'verifications', { cursor: undefined });
      expect(findings).toEqual([]);
      expect((await restore('deep', 'Expedited')).status).toBe(202);
      const told = await recordOf('s3:RestoreObject', 'deep');
      // A cent for the request, and 3 cents a GB.
      expect(told).toMatchObject({
        priceBook: 'aws-us-east-1-2026:GLACIER:Expedited',
        cost: expect.stringMatching(/^0\.010029/),
      });
      await vi.waitFor(
        async () => expect((await headOf('deep'))['x-amz-restore']).toContain('="false"'),
        soon,
      );
      expect(await client.digest('/first/deep')).toMatchObject({ sha256: content.sha256 });
      expect((await restore('deep', 'Bulk')).status).toBe(200);
      // What is replaced early is owed by another book than that of the request.
      await send(client, 'PUT', '/first/deep', { body: content.bytes });
      const replaced = (await recordsOf('s3:PutObject', 'deep')).at(-1);
      expect(replaced).toMatchObject({
        priceBook: 'aws-us-east-1-2026',
        storageCost: expect.stringMatching(/^0\.00001/),
        storageCosts: { 'aws-us-east-1-2026:GLACIER': replaced?.storageCost },
      });
    });

    it('says so where its store restores nothing', async () => {
      const { status } = await put('stuck', 'stuck');
      expect(status).toBe(200);
      const answer = await restore('stuck', 'Standard');
      expect(answer.body.toString()).toContain('NotImplemented');
      expect(answer.status).toBe(501);
      expect((await headOf('stuck'))['x-amz-restore']).toBeUndefined();
      // To delete it costs no request, so its record names the book by which the rest is owed.
      await send(client, 'DELETE', '/first/stuck');
      const ended = await recordOf('s3:DeleteObject', 'stuck');
      expect(ended).toMatchObject({ priceBook: 'aws-us-east-1-2026:GLACIER' });
      expect(ended).not.toHaveProperty('storageCosts');
    });

    it('is where no bucket is', async () => {
      const headers = { 'x-bursar-store': 'glacier' };
      const answer = await client.send('PUT', '/second', { headers });
      expect([answer.status, answer.body.toString()]).toEqual([
        400,
        expect.stringContaining('No bucket is in an archive of S3.'),
      ]);
    });

    it('is restored from another where the first has lost it, and made whole again', async () => {
      expect((await put('both', 'both')).status).toBe(200);
      const names = await extentsAt('second');
      expect(names).toHaveLength(4);
      await loseAt('cold', names);
      expect((await restore('both', 'Standard')).status).toBe(202);
      await vi.waitFor(
        async () => expect((await headOf('both'))['x-amz-restore']).toContain('="false"'),
        soon,
      );
      expect(await client.digest('/first/both')).toMatchObject({ sha256: content.sha256 });
      await vi.waitFor(
        async () => expect(await extentsAt('cold')).toEqual(expect.arrayContaining(names)),
        soon,
      );
    });

    it('is behind a copy that is read at once, and gives it back when that is lost', async () => {
      const refused = await put('kept', 'late');
      expect(refused.body.toString()).toContain('vault is an archive');
      expect((await put('kept', 'kept')).status).toBe(200);
      expect(await classesAt(moto.endpoint, 'vault')).toEqual(['GLACIER']);
      expect(await client.digest('/first/kept')).toMatchObject({ sha256: content.sha256 });
      for (const name of filesIn(join(disk, 'store'))) rmSync(name);
      // It may be in the archive, so it is away, and neither damaged nor lost.
      const away = await client.send('GET', '/first/kept');
      expect([away.status, away.body.toString()]).toEqual([
        503,
        expect.stringContaining('ServiceUnavailable'),
      ]);
      await vi.waitFor(
        async () =>
          expect(await client.digest('/first/kept')).toMatchObject({ sha256: content.sha256 }),
        soon,
      );
      await vi.waitFor(() => expect(filesIn(join(disk, 'store'))).toHaveLength(1), soon);
    });

    it('is charged for each copy by the prices of its store', async () => {
      await call(client, 'POST', 'tenants/default/principals', { name: 'lab', role: 'member' });
      for (const owner of ['lab', 'admin']) {
        await call(client, 'PUT', 'tenants/default/buckets/first/owner', { owner });
      }
      const charges = await recordsOf('bursar:ChargeStorage', undefined);
      const kept = charges.filter((one) => one.class === 'kept').slice(0, 2);
      expect(kept.map(({ priceBook }) => priceBook)).toEqual([
        'aws-us-east-1-2026',
        'aws-us-east-1-2026:GLACIER',
      ]);
      // Of as many bytes.
      const [online, archive] = kept.map(({ byteMs }) => Number(byteMs));
      expect(archive).toBeGreaterThanOrEqual(MiB);
      expect(Math.abs((online ?? 0) - (archive ?? 0))).toBeLessThan(2);
      // In the class of the archive alone 90 days are paid for.
      expect((await client.send('PUT', '/first/kept', { body: content.bytes })).status).toBe(200);
      const replaced = (await recordsOf('s3:PutObject', 'kept')).at(-1);
      const owed = replaced?.storageCost;
      expect(owed).toMatch(/^0\.00001/);
      expect(replaced?.storageCosts).toEqual({ 'aws-us-east-1-2026:GLACIER': owed });
    });

    it('is charged for retrieval by each read where it is read at once', async () => {
      expect((await put('rare', 'ONEZONE_IA')).status).toBe(200);
      expect(await classesAt(moto.endpoint, 'rare')).toEqual(['ONEZONE_IA']);
      expect(await client.digest('/first/rare')).toMatchObject({ sha256: content.sha256 });
      // A cent a GB, and a micro-dollar for the request. A read is recorded after its answer.
      const expected = {
        ...{ class: 'rare', priceBook: 'aws-us-east-1-2026:ONEZONE_IA' },
        cost: expect.stringMatching(/^0\.00001/),
      };
      await vi.waitFor(
        async () => expect(await recordOf('s3:GetObject', 'rare')).toMatchObject(expected),
        soon,
      );
    });

    /** The names of the extents that the catalog has in a store, and no other. */
    async function extentsKnown(place: string): Promise<string[]> {
      const file = join(disk, 'data', 'bursar.db');
      const db = openDatabase(file, { readonly: true, cacheKib: 1024 });
      const rows = await db.tx.all<{ id: string }>(
        `SELECT lower(hex(e.id)) AS id FROM extents AS e JOIN stores AS s ON s.number = e.store
           WHERE e.state = 1 AND s.name = ?`,
        place,
      );
      db.close();
      return rows.map(({ id }) => `extents/${id.slice(30)}/${id}`);
    }

    const lifecycle = (prefix: string) => {
      const then = '<Date>2020-01-01T00:00:00Z</Date><StorageClass>GLACIER</StorageClass>';
      const body = Buffer.from(
        `<LifecycleConfiguration><Rule><ID>1</ID><Filter><Prefix>${prefix}</Prefix></Filter>
           <Status>Enabled</Status><Transition>${then}</Transition></Rule></LifecycleConfiguration>`,
      );
      const md5 = createHash('md5').update(body).digest('base64');
      const query: [string, string][] = [['lifecycle', '']];
      return client.send('PUT', '/first', { query, headers: { 'content-md5': md5 }, body });
    };

    it('is moved into, and asked, once, though the gateway is killed in the middle', async () => {
      expect((await put('asked', 'GLACIER')).status).toBe(200);
      expect((await client.send('PUT', '/first/moved', { body: content.bytes })).status).toBe(200);
      const recalled = new Map<string, number>();
      const isRecall = ({ method, target }: ProxiedRequest) =>
        method === 'POST' && target.includes('restore');
      const hanging = new Set<string>();
      let puts = 0;
      // The first few get through, and then nothing does.
      proxy.choose = (request) => {
        const { method, target } = request;
        const isPut = method === 'PUT' && target.startsWith('/legs/cold/extents/');
        if (!isPut && !isRecall(request)) return undefined;
        if (isPut ? puts++ < 2 : recalled.size < 2) {
          if (!isPut) recalled.set(target, 1);
          return undefined;
        }
        hanging.add(method);
        return { kind: 'stall', at: 'upload' };
      };
      expect((await restore('asked', 'Standard')).status).toBe(202);
      const ruled = await lifecycle('moved');
      expect(ruled.body.toString()).toBe('');
      await vi.waitFor(() => expect([...hanging].sort()).toEqual(['POST', 'PUT']), soon);
      await gateway.kill();
      proxy.choose = (request) => {
        const { target } = request;
        if (isRecall(request)) recalled.set(target, (recalled.get(target) ?? 0) + 1);
        return undefined;
      };
      await serve();
      await vi.waitFor(
        async () => expect((await headOf('asked'))['x-amz-restore']).toContain('="false"'),
        soon,
      );
      expect(await client.digest('/first/asked')).toMatchObject({ sha256: content.sha256 });
      expect([...recalled.values()]).toEqual([1, 1, 1, 1]);
      expect(await countOf('s3:RestoreObject', 'asked')).toBe(1);
      await vi.waitFor(
        async () => expect((await headOf('moved'))['x-amz-storage-class']).toBe('GLACIER'),
        soon,
      );
      expect(await countOf('bursar:MoveObject', 'moved')).toBe(1);
      await vi.waitFor(
        async () =>
          expect((await extentsAt('cold')).sort()).toEqual((await extentsKnown('glacier')).sort()),
        soon,
      );
      // And out of it, as what was restored can be copied.
      const headers = { 'x-amz-copy-source': '/first/asked', 'x-amz-storage-class': 'ONEZONE_IA' };
      expect((await client.send('PUT', '/first/asked', { headers })).status).toBe(200);
      await vi.waitFor(
        async () =>
          expect((await extentsAt('cold')).sort()).toEqual((await extentsKnown('glacier')).sort()),
        soon,
      );
      expect(await client.digest('/first/asked')).toMatchObject({ sha256: content.sha256 });
    });

    /** Gives what it says, however it ends. */
    async function runCli(...args: string[]): Promise<string> {
      const main = resolve(import.meta.dirname, '../../app/main.js');
      const options = { env: { ...bareEnvironment(), ...env } };
      const argv = [main, ...args];
      return promisify(execFile)(process.execPath, argv, options).then(
        ({ stdout }) => stdout,
        ({ stdout }) => stdout,
      );
    }

    it('is rebuilt without being read, and stays shut until it is restored', async () => {
      await send(client, 'PUT', '/told', { headers: { 'x-bursar-store': 'disk' } });
      const headers = { 'x-amz-storage-class': 'GLACIER' };
      const sent = await client.send('PUT', '/told/cold', { headers, body: content.bytes });
      expect(sent.status).toBe(200);
      for (const of of ['kept', 'turned', 'partly', 'spare', 'spared']) {
        const stored = { 'x-amz-storage-class': of };
        await send(client, 'PUT', `/told/${of}`, { headers: stored, body: content.bytes });
      }
      await send(client, 'PUT', '/usual', { headers: { 'x-bursar-store': 'rare' } });
      await gateway.stop();
      // In a store where a bucket is, what is written later could not be read.
      const { rare, ...others } = JSON.parse(env.BURSAR_STORES as string);
      const changed = JSON.stringify({ ...others, rare: { ...rare, storageClass: 'GLACIER' } });
      const start = { dataDir: join(disk, 'data'), env: { ...env, BURSAR_STORES: changed } };
      await expect(startServedGateway(start)).rejects.toThrow(
        /stores\.rare\.storageClass: GLACIER .* \(default\/usual\)/,
      );
      const data = join(disk, 'data');
      for (const name of readdirSync(data)) {
        if (name.startsWith('bursar.db')) rmSync(join(data, name));
      }
      const rebuilt = await runCli('rebuild', '--data', data, '--json');
      // What a bucket in the data folder had is gone with it, which the report says.
      expect(JSON.parse(rebuilt)).toMatchObject({
        versions: 6,
        lost: { count: 0 },
        damagedExtents: { count: 0 },
      });
      await serve({ BURSAR_STORES: await turn() });
      const shut = await client.send('GET', '/told/cold');
      expect([shut.status, shut.body.toString()]).toEqual([
        403,
        expect.stringContaining('InvalidObjectState'),
      ]);
      expect((await restore('cold', 'Bulk', 'told')).status).toBe(202);
      await vi.waitFor(
        async () =>
          expect(await client.digest('/told/cold')).toMatchObject({ sha256: content.sha256 }),
        soon,
      );
      // What has copies in several is charged by the books of all of them as before.
      await send(client, 'DELETE', '/told/kept');
      const [ended] = await recordsOf('s3:DeleteObject', 'kept', 'told');
      expect(ended).toMatchObject({ priceBook: 'aws-us-east-1-2026:GLACIER' });
      expect(ended?.storageCost).toMatch(/^0\.00001/);
    });

    /**
     * Has a store, and what is in it, become an archive, and another one go; gives how they are
     * configured then.
     */
    async function turn(): Promise<string> {
      for (const name of await extentsAt('turned')) {
        const headers = {
          // Who asks is not verified, but has to be somebody.
          authorization: 'AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request',
          'x-amz-copy-source': `/legs/turned/${name}`,
          'x-amz-storage-class': 'GLACIER',
        };
        await fetch(`${moto.endpoint}/legs/turned/${name}`, { method: 'PUT', headers });
      }
      expect(await classesAt(moto.endpoint, 'turned')).toEqual(['GLACIER']);
      const { turned, rare: _, ...others } = JSON.parse(env.BURSAR_STORES as string);
      const archive = { ...turned, storageClass: 'GLACIER', recallDelay: '1s' };
      return JSON.stringify({ ...others, turned: archive });
    }

    it('is shut where its store became an archive of S3, until it is restored', async () => {
      const shut = await client.send('GET', '/told/turned');
      expect([shut.status, shut.body.toString()]).toEqual([
        403,
        expect.stringContaining('InvalidObjectState'),
      ]);
      // What another leg has is read at once.
      expect(await client.digest('/told/partly')).toMatchObject({ sha256: content.sha256 });
      const sending = { headers: { 'x-amz-storage-class': 'turned' }, body: content.bytes };
      expect((await client.send('PUT', '/told/turned', sending)).status).toBe(501);
      expect((await restore('turned', 'Expedited', 'told')).status).toBe(202);
      await vi.waitFor(
        async () =>
          expect(await client.digest('/told/turned')).toMatchObject({ sha256: content.sha256 }),
        soon,
      );
    });

    it('is shut where an archive alone is configured still, until it is restored', async () => {
      const shut = await client.send('GET', '/told/spare');
      expect([shut.status, shut.body.toString()]).toEqual([
        403,
        expect.stringContaining('InvalidObjectState'),
      ]);
      const copied = (key: string) => {
        const headers = { 'x-amz-copy-source': `/told/${key}` };
        return client.send('PUT', `/told/copy-of-${key}`, { headers });
      };
      expect((await copied('spare')).status).toBe(403);
      expect((await restore('spare', 'Expedited', 'told')).status).toBe(202);
      await vi.waitFor(
        async () =>
          expect(await client.digest('/told/spare')).toMatchObject({ sha256: content.sha256 }),
        soon,
      );
      // What another leg has is read at once, also where the first one's store is gone.
      for (const key of ['spare', 'spared']) {
        expect((await copied(key)).status).toBe(200);
        for (const of of [key, `copy-of-${key}`]) {
          expect(await client.digest(`/told/${of}`)).toMatchObject({ sha256: content.sha256 });
        }
      }
    });

    it.runIf(process.env.BURSAR_FULL === '1')(
      'comes back with a backup, and what was written after it, without being read',
      async () => {
        const data = join(disk, 'data');
        const putInto = (key: string, of: string) =>
          send(client, 'PUT', `/told/${key}`, {
            ...{ headers: { 'x-amz-storage-class': of }, body: content.bytes },
          });
        await putInto('before', 'GLACIER');
        await runCli('backup', 'create', join(disk, 'backup'), '--data', data, '--json');
        await putInto('after', 'GLACIER');
        await putInto('kept', 'kept');
        await gateway.kill();
        rmSync(join(data, 'extents'), { recursive: true, force: true });
        for (const name of readdirSync(data)) {
          if (name !== 'keys') rmSync(join(data, name), { recursive: true });
        }
        for (const name of filesIn(join(disk, 'store'))) rmSync(name);
        await runCli('restore', join(disk, 'backup'), '--data', data, '--json');
        await serve();
        for (const key of ['before', 'after']) {
          expect((await client.send('GET', `/told/${key}`)).status).toBe(403);
          expect((await restore(key, 'Expedited', 'told')).status).toBe(202);
        }
        for (const key of ['before', 'after', 'cold', 'kept']) {
          await vi.waitFor(
            async () =>
              expect(await client.digest(`/told/${key}`)).toMatchObject({ sha256: content.sha256 }),
            soon,
          );
        }
      },
    );
  });
});
