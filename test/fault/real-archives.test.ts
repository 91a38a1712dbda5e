// Classes in archives of S3, and in another class of its: moto plays Glacier, restores and refusals
// of what is not restored, and versitygw a server that knows the classes and restores nothing.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { call, type Sending, send } from '../tooling/filled-folder.ts';
import { type KmsServer as MotoServer, startKms as startMoto } from '../tooling/kms-server.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, motoPython, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { MiB, makeContent } from './content.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const soon = { timeout: 30_000, interval: 200 };
const content = makeContent(1, MiB);

describeWithTool(versitygw, 'a class in an archive of S3', (versity) => {
  describeWithTool(motoPython, 'and one that restores', (python) => {
    let moto: MotoServer;
    let other: S3Backend;
    let disk: string;
    let gateway: ServedGateway;
    let client: S3Client;

    beforeAll(async () => {
      disk = mkdtempSync(join(tmpdir(), 'bursar-archives-'));
      moto = await startMoto(python);
      other = await startVersitygw(versity);
      other.makeBucket('legs');
      await fetch(`${moto.endpoint}/legs`, { method: 'PUT' });
      const at = (endpoint: string, place: string, storageClass: string) => ({
        ...{ url: `s3://legs/${place}`, endpoint, pathStyle: 'yes', region: 'us-east-1' },
        storageClass,
      });
      const stores = {
        glacier: { ...at(moto.endpoint, 'cold', 'GLACIER'), recallDelay: '300ms' },
        rare: at(moto.endpoint, 'rare', 'ONEZONE_IA'),
        second: { ...at(moto.endpoint, 'second', 'GLACIER'), recallDelay: '300ms' },
        // Of stores without prices, so that both are under one price book.
        vault: { ...at(moto.endpoint, 'vault', 'GLACIER'), recallDelay: '300ms', prices: 'none' },
        disk: { url: `file://${disk}`, prices: 'none' },
        stuck: at(other.endpoint, 'stuck', 'GLACIER'),
      };
      const { accessKeyId, secretAccessKey } = other.credentials;
      gateway = await startServedGateway({
        env: {
          BURSAR_STORES: JSON.stringify(stores),
          AWS_ACCESS_KEY_ID: accessKeyId,
          AWS_SECRET_ACCESS_KEY: secretAccessKey,
          AWS_EC2_METADATA_DISABLED: 'true',
        },
      });
      client = new S3Client(gateway);
      const archived = { access: 'restore', restoreWithinHours: 12 };
      for (const definition of [
        { name: 'cold', aliases: ['GLACIER'], ...archived, durability: legs('glacier') },
        { name: 'stuck', ...archived, durability: legs('stuck') },
        { name: 'rare', aliases: ['ONEZONE_IA'], durability: legs('rare') },
        { name: 'both', ...archived, durability: legs('glacier', 'second') },
        { name: 'late', durability: legs('vault', 'disk') },
        { name: 'kept', durability: legs('disk', 'vault') },
      ]) {
        await call(client, 'POST', 'tenants/default/classes', definition);
      }
      await send(client, 'PUT', '/first');
    });

    afterAll(async () => {
      client?.close();
      await gateway?.stop();
      await other?.stop();
      await moto?.stop();
      rmSync(disk, { recursive: true, force: true });
    });

    const legs = (...names: string[]) => ({ legs: names.map((store) => ({ store })) });
    const put = (key: string, of: string) =>
      client.send('PUT', `/first/${key}`, {
        ...{ headers: { 'x-amz-storage-class': of }, body: content.bytes },
      });
    const restore = (key: string, tier: string) => {
      const job = `<GlacierJobParameters><Tier>${tier}</Tier></GlacierJobParameters>`;
      const body = Buffer.from(`<RestoreRequest><Days>2</Days>${job}</RestoreRequest>`);
      const sending: Sending = { query: [['restore', '']], body };
      return client.send('POST', `/first/${key}`, sending as Parameters<typeof client.send>[2]);
    };
    const headOf = async (key: string) => (await client.send('HEAD', `/first/${key}`)).headers;

    interface Told {
      key?: string;
      priceBook?: string;
      class?: string;
      cost?: string;
    }
    async function recordOf(action: string, key: string): Promise<Told | undefined> {
      const query: [string, string][] = [
        ['action', action],
        ['bucket', 'first'],
      ];
      const answer = await client.send('GET', '/_/v1/records', { query });
      const records: Told[] = JSON.parse(answer.body.toString()).records;
      return records.find((one) => one.key === key);
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
    });

    it('says so where its store restores nothing', async () => {
      const { status } = await put('stuck', 'stuck');
      expect(status).toBe(200);
      const answer = await restore('stuck', 'Standard');
      expect(answer.body.toString()).toContain('NotImplemented');
      expect(answer.status).toBe(501);
      expect((await headOf('stuck'))['x-amz-restore']).toBeUndefined();
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
      expect(await extentsAt('second')).toHaveLength(1);
      await loseAt('cold', await extentsAt('second'));
      expect((await restore('both', 'Standard')).status).toBe(202);
      await vi.waitFor(
        async () => expect((await headOf('both'))['x-amz-restore']).toContain('="false"'),
        soon,
      );
      expect(await client.digest('/first/both')).toMatchObject({ sha256: content.sha256 });
      const [name] = await extentsAt('second');
      await vi.waitFor(async () => expect(await extentsAt('cold')).toContain(name), soon);
    });

    it('is behind a copy that is read at once, and gives it back when that is lost', async () => {
      const refused = await put('kept', 'late');
      expect(refused.body.toString()).toContain('vault is an archive');
      expect((await put('kept', 'kept')).status).toBe(200);
      expect(await classesAt(moto.endpoint, 'vault')).toEqual(['GLACIER']);
      expect(await client.digest('/first/kept')).toMatchObject({ sha256: content.sha256 });
      for (const name of filesIn(disk)) rmSync(name);
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
      await vi.waitFor(() => expect(filesIn(disk)).toHaveLength(1), soon);
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
  });
});
