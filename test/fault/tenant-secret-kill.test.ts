// Kills a gateway at one system call after the other where the secret of a tenant is made, with the
// tenant or at the first start after an upgrade, and where a deletion destroys it. Afterwards a
// tenant has one secret, by which everything that was acknowledged is read, or it is not there and
// its secret is in no file.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { operator, packed010, type What } from '../fixtures/contents-0.1.0.ts';
import { unpackFolder } from '../fixtures/packed-folder.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';
import { LogRig } from './log-rig.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-secret-kill-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const wal = 'bursar.db-wal';
const tenants = '/_/v1/tenants';
const plain = Buffer.from('what only the secret of the tenant reads');
const moments = [
  ['before it writes', `write ${wal} 1 kill`],
  ['before it is durable', `sync ${wal} 1 kill`],
  ['when it is durable, and not answered', `sync ${wal} 1 kill-after`],
  ['when the answer is about to be sent', 'write socket: 1 kill'],
] as const;

/** Sealed, of all tenants that there are. */
async function secretsIn(dataDir: string): Promise<Map<string, Buffer>> {
  const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const sql = 'SELECT tenant, sealed_key AS sealed FROM tenant_keys';
  const rows = await db.tx.all<{ tenant: string; sealed: Uint8Array }>(sql);
  db.close();
  return new Map(rows.map(({ tenant, sealed }) => [tenant, Buffer.from(sealed)]));
}

function filesWith(folder: string, bytes: Buffer): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((one) => one.isFile())
    .map((one) => join(one.parentPath, one.name));
  return files.filter((file) => readFileSync(file).includes(bytes));
}

const asJson = (value: object) => ({
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify(value)),
});

describeWithTool(compiler, 'a gateway that is killed', (compilerPath) => {
  const library = join(root, 'fault-at.so');
  let rig: LogRig;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    mkdirSync(join(root, 'store'));
    rig = new LogRig(join(root, 'data'), library);
    await serve();
  });
  afterAll(() => rig.kill());

  /** With a store in a folder, whose journal tells secrets, too. */
  const serve = () => rig.serve({ BURSAR_STORE: pathToFileURL(join(root, 'store')).href });

  const create = (name: string) => rig.client.send('POST', tenants, asJson({ name }));

  /** The admin of a tenant, whose bucket `box` there is. */
  async function headOf(name: string): Promise<S3Client> {
    const principals = `${tenants}/${name}/principals`;
    const head = { name: 'head', kind: 'person', role: 'admin' };
    await rig.client.send('POST', principals, asJson(head));
    const made = await rig.client.send('POST', `${principals}/head/access-keys`);
    const client = new S3Client({
      ...{ endpoint: rig.gateway.endpoint, ...JSON.parse(made.body.toString()) },
    });
    const box = await client.send('PUT', '/box');
    if (box.status !== 200) throw new Error(`${box.status}: ${box.body}`);
    return client;
  }

  async function readAgain(client: S3Client, key: string): Promise<void> {
    const { status, headers, body } = await client.send('GET', `/box/${key}`);
    expect([status, headers['x-amz-server-side-encryption']]).toEqual([200, 'AES256']);
    expect(body.equals(plain)).toBe(true);
  }

  it.each(moments)(
    '%s of a new tenant has the tenant with its secret, or neither',
    async (when, fault) => {
      const name = `made${moments.findIndex(([one]) => one === when)}`;
      rig.arm(fault);
      const status = await create(name).then(
        (answer) => answer.status,
        () => null,
      );
      expect([when, rig.isStruck]).toEqual([when, true]);
      await rig.kill();
      await serve();
      const { status: found } = await rig.client.send('GET', `${tenants}/${name}`);
      const secret = (await secretsIn(rig.dataDir)).get(name);
      expect([found, secret?.length]).toEqual(found === 200 ? [200, 63] : [404, undefined]);
      if (status !== null) expect(found).toBe(200);
      if (found === 404) expect((await create(name)).status).toBe(201);
      const head = await headOf(name);
      expect((await head.send('PUT', '/box/k', { body: plain })).status).toBe(200);
      head.close();
      await rig.kill();
      await serve();
      const kept = (await secretsIn(rig.dataDir)).get(name);
      if (secret) expect(kept?.equals(secret)).toBe(true);
      const again = await headOf(name);
      await readAgain(again, 'k');
      again.close();
    },
  );

  it.each<readonly [string, string]>([
    ...moments,
    ['while its store is told', 'any /journal/ 1 kill'],
  ])(
    '%s of a deletion has destroyed the secret with the tenant, or neither',
    async (when, fault) => {
      const name = `gone-${when.replaceAll(/\W+/g, '-')}`;
      expect((await create(name)).status).toBe(201);
      let head = await headOf(name);
      await head.send('PUT', '/box/k', { body: plain });
      await head.send('DELETE', '/box/k');
      expect((await head.send('DELETE', '/box')).status).toBe(204);
      const secret = (await secretsIn(rig.dataDir)).get(name) ?? Buffer.alloc(0);
      expect(secret.length).toBe(63);
      rig.arm(fault);
      const status = await rig.client.send('DELETE', `${tenants}/${name}`).then(
        (answer) => answer.status,
        () => null,
      );
      expect([when, rig.isStruck]).toEqual([when, true]);
      head.close();
      await rig.kill();
      await serve();
      const { status: found } = await rig.client.send('GET', `${tenants}/${name}`);
      if (status !== null) expect(found).toBe(404);
      if (found === 200) {
        expect((await secretsIn(rig.dataDir)).get(name)?.equals(secret)).toBe(true);
        head = await headOf(name);
        await head.send('PUT', '/box/k', { body: plain });
        await readAgain(head, 'k');
        await head.send('DELETE', '/box/k');
        await head.send('DELETE', '/box');
        head.close();
        expect((await rig.client.send('DELETE', `${tenants}/${name}`)).status).toBe(204);
      }
      expect((await secretsIn(rig.dataDir)).has(name)).toBe(false);
      await vi.waitFor(() => expect(filesWith(root, secret)).toEqual([]), 20_000);
      const query: [string, string][] = [['action', 'bursar:DeleteTenant']];
      const { body } = await rig.client.send('GET', '/_/v1/records', { query });
      const told = JSON.parse(body.toString()).records as { target: string; change: object }[];
      const ofIt = told.filter(({ target }) => target === `tenants/${name}`);
      expect(ofIt.map(({ change }) => change)).toEqual([{ destroysKey: true }]);
    },
  );
});

describeWithTool(compiler, 'the first start with the data of 0.1.0, killed', (compilerPath) => {
  const library = join(root, 'fault-at-start.so');
  const faultFile = join(root, 'fault-at-start');
  const folder = join(root, 'older');
  const dataDir = join(folder, 'data');

  beforeAll(() => {
    const source = join(import.meta.dirname, 'fault-at.c');
    execFileSync(compilerPath, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
    unpackFolder(packed010, folder);
    // Folders without files are not packed.
    mkdirSync(join(dataDir, 'extents/temporary'), { recursive: true });
  });

  const serve = (env: Record<string, string> = {}): Promise<ServedGateway> =>
    startServedGateway({ dataDir, ...operator, env });

  it('gives each tenant one secret, which is never another', async () => {
    const seen = new Map<string, Buffer>();
    const look = async (): Promise<void> => {
      for (const [tenant, secret] of await secretsIn(dataDir).catch(() => new Map())) {
        expect(seen.get(tenant) ?? secret).toEqual(secret);
        seen.set(tenant, secret);
      }
    };
    let kills = 0;
    for (let sync = 1; sync <= 40; sync += 3) {
      writeFileSync(faultFile, `sync ${wal} ${sync} kill-after`);
      const gateway = await serve({ LD_PRELOAD: library, FAULT_AT: faultFile }).catch(() => null);
      if (gateway) await gateway.kill();
      else kills += 1;
      rmSync(faultFile, { force: true });
      await look();
      if (gateway) break;
    }
    expect(kills).toBeGreaterThan(2);
    const gateway = await serve();
    try {
      const what = JSON.parse(readFileSync(join(folder, 'kept/what.json'), 'utf8')) as What;
      const alice = new S3Client({ endpoint: gateway.endpoint, ...what.keys.alice });
      await vi.waitFor(
        async () => expect((await secretsIn(dataDir)).has('cms')).toBe(true),
        20_000,
      );
      await look();
      expect([...seen.keys()]).toEqual(expect.arrayContaining(['cms', 'default']));
      for (const [path, content] of Object.entries(what.objects)) {
        const { status, headers, body } = await alice.send('GET', `/${path}`);
        expect([path, status, body.toString('base64')]).toEqual([path, 200, content]);
        expect(headers).not.toHaveProperty('x-amz-server-side-encryption');
      }
      const [path = ''] = Object.keys(what.objects);
      const bucket = path.slice(0, path.indexOf('/'));
      const put = await alice.send('PUT', `/${bucket}/new`, { body: plain });
      expect([put.status, put.headers['x-amz-server-side-encryption']]).toEqual([200, 'AES256']);
      alice.close();
    } finally {
      await gateway.stop();
    }
  });
});
