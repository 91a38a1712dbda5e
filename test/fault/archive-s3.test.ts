// Records that were archived to an S3 store: found, proven and verified as before; and what becomes
// of them when the database is lost.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { ed25519 } from '#bursar/audit/log/note.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { parseVerifiers } from '#bursar/audit/verify/trusted-keys.js';
import { decodeManifest } from '#bursar/core/manifest.js';
import { CatalogEditor, flipBit } from '../tooling/attacks.ts';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { md5Header } from './load.ts';
import { RebuildRig } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 180_000 });

/** One pack, and some that stay. */
const size = 4110;
const archivedEnd = 4096;

describeWithTool(versitygw, 'records in an S3 store', (path) => {
  let rig: RebuildRig;
  let proxy: FaultProxy;
  let page: string;
  let bundle: string;

  const get = async (path: string, query: [string, string][] = []) => {
    const { status, body } = await rig.client.send('GET', path, { query });
    return { status, text: body.toString() };
  };
  const find = () =>
    get('/_/v1/records', [
      ['prefix', 'k/17'],
      ['bucket', 'data'],
    ]);

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    proxy = await FaultProxy.start(rig.backend.port);
    rig.proxy = proxy;
    await rig.serve();
    await rig.client.send('PUT', '/data');
    await rig.client.send('PUT', '/data/object', { body: Buffer.from('stored') });
    // Each key has a record of its own, since each gets a delete marker.
    const versioning =
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
    const query: [string, string][] = [['versioning', '']];
    const enabled = await rig.client.send('PUT', '/data', {
      query,
      body: Buffer.from(versioning),
      headers: md5Header(Buffer.from(versioning)),
    });
    expect(enabled.status).toBe(200);
    for (let i = 0; i < size; i += 1000) await removeMany(i, Math.min(i + 1000, size));
    bundle = (await get('/_/log/tile/entries/003')).text;
    // Sums of usage come first; they are a few seconds behind.
    const summed = 'usage_progress WHERE next_idx >= 4096';
    await vi.waitFor(async () => expect(await count(summed)).toBe(1), 20_000);
    page = (await find()).text;
    await rig.stopGateway();
    await rig.serve(['--archive-after', '1ms']);
    await vi.waitFor(async () => expect(await count('archived_tiles')).toBe(16), 30_000);
  });

  afterAll(async () => {
    await rig?.stop();
    await proxy?.stop();
  });

  async function removeMany(begin: number, end: number): Promise<void> {
    const keys = Array.from({ length: end - begin }, (_, i) => `<Key>k/${begin + i}</Key>`);
    const objects = keys.map((key) => `<Object>${key}</Object>`).join('');
    const body = Buffer.from(`<Delete>${objects}</Delete>`);
    const headers = md5Header(body);
    const answer = await rig.client.send('POST', '/data', {
      ...{ query: [['delete', '']], body, headers },
    });
    expect(answer.status).toBe(200);
  }

  async function count(table: string): Promise<number> {
    const catalog = new CatalogEditor(rig.dataDir);
    const row = await catalog.get<{ count: number }>(`SELECT count(*) AS count FROM ${table}`);
    catalog.close();
    return row?.count ?? -1;
  }

  async function findPack(): Promise<string> {
    const catalog = new CatalogEditor(rig.dataDir);
    const row = await catalog.get<{ manifest: Uint8Array }>('SELECT manifest FROM record_packs');
    catalog.close();
    const [run] = decodeManifest(row?.manifest ?? Buffer.alloc(0));
    const id = run?.id.toString('hex');
    const found = rig.storedObjects('').find(({ name }) => name.endsWith(String(id)));
    if (!found) throw new Error('the pack is not in the store');
    return rig.pathOf(found.name);
  }

  it('are one object there, and no word of theirs can be read in it', async () => {
    expect(await count('record_packs')).toBe(1);
    expect(await count('archived_tiles')).toBe(16);
    const stored = readFileSync(await findPack());
    for (const word of ['k/1700', 'principal', 's3:DeleteObject']) {
      expect(stored.includes(word)).toBe(false);
    }
  });

  it('are found as before', async () => {
    const { status, text } = await find();
    expect(status).toBe(200);
    expect(JSON.parse(page).records.length).toBeGreaterThan(50);
    expect(JSON.parse(text).records.slice(0, 50)).toEqual(JSON.parse(page).records.slice(0, 50));
  });

  it('are in the public log as before', async () => {
    expect((await get('/_/log/tile/entries/003')).text).toBe(bundle);
    expect((await get('/_/log/tile/0/003')).status).toBe(200);
  });

  it('have receipts that verify', async () => {
    const keys = parseVerifiers((await get('/_/log/key')).text, ed25519) ?? [];
    for (const index of [2, 1000, archivedEnd - 1, archivedEnd]) {
      const { status, text } = await get(`/_/v1/receipts/${index}`);
      expect(status).toBe(200);
      expect(verifyReceipt(text, { keys })).toMatchObject({ ok: true, index });
    }
  });

  it('agree with log, catalog and bytes, and damage of a pack is named once', async () => {
    const sound = await rig.run(['verify', 'deep']);
    expect(sound).toMatchObject({ code: 0, stderr: '' });
    const pack = await findPack();
    const stored = readFileSync(pack);
    writeFileSync(pack, flipBit(Buffer.from(stored), 5000));
    const { code, stdout } = await rig.run(['verify', 'deep', '--skip-data']);
    writeFileSync(pack, stored);
    expect(stdout).toMatch(
      /^records 0 to \d+: the pack of records 0 to 4095 is damaged in store s3: chunk 0 of .*\ncompared /,
    );
    expect(code).toBe(1);
  });

  it('are told as lost with the name of their pack, and all else is compared', async () => {
    const pack = await findPack();
    // With what the server keeps in its attributes.
    renameSync(pack, `${pack}.aside`);
    const asked = proxy.requests;
    const { code, stdout, stderr } = await rig.run(['verify', 'deep']);
    renameSync(`${pack}.aside`, pack);
    const lost = `the pack of records 0 to 4095 has lost its extent ${basename(pack)} in store s3`;
    const [first, second, third] = stdout.split('\n');
    expect(first).toBe(`records 0 to 4095: ${lost}`);
    expect(second).toMatch(/^compared [\d,]+ records with the log, and 4,111 versions/);
    // The 4096 records made nearly all versions: what they said of them is not known.
    expect(third).toMatch(/^4,096 could not be read; what these made or ended \([\d,]+ rows\)/);
    expect(stderr).toContain('there is a difference');
    expect(code).toBe(1);
    expect(proxy.requests - asked).toBeLessThan(50);
  });

  it('are not given where their pack is damaged, and are again when it was put right', async () => {
    const pack = await findPack();
    const stored = readFileSync(pack);
    writeFileSync(pack, flipBit(Buffer.from(stored), 5000));
    const { status, text } = await get('/_/v1/receipts/700');
    expect([status, JSON.parse(text).code]).toEqual([500, 'BursarIntegrityError']);
    expect(JSON.parse(text).detail).toMatch(
      /^The pack of records 0 to 4095 is damaged in store s3/,
    );
    writeFileSync(pack, stored);
    expect((await get('/_/v1/receipts/700')).status).toBe(200);
  });

  it('are told as such where their pack is missing, by whatever reads them', async () => {
    const pack = await findPack();
    // With what the server keeps in its attributes.
    renameSync(pack, `${pack}.aside`);
    const extent = basename(pack);
    const missing = `The pack of records 0 to 4095 has lost its extent ${extent} in store s3.`;
    for (const path of ['/_/v1/receipts/1300', '/_/v1/tenants/default/bundle/2048']) {
      const { status, text } = await get(path);
      expect([status, JSON.parse(text)]).toMatchObject([
        500,
        { code: 'PackMissing', detail: missing },
      ]);
    }
    const search = (cursor: string) => get('/_/v1/records', [['cursor', cursor]]);
    expect(JSON.parse((await search('2303')).text)).toMatchObject({ code: 'PackMissing' });
    expect(JSON.parse((await search('4095')).text).records[0]).toMatchObject({ index: 4096 });
    const { integrityFailures } = JSON.parse((await get('/_/v1/health')).text);
    expect(integrityFailures.s3.missing).toBeGreaterThanOrEqual(3);
    renameSync(`${pack}.aside`, pack);
    expect((await get('/_/v1/receipts/1300')).status).toBe(200);
  });

  it.each([
    [503, 'ServiceUnavailable', 3500],
    // The gateway's credentials were revoked since it wrote the pack.
    [403, 'InvalidAccessKeyId', 2900],
    [403, 'AccessDenied', 3200],
    [400, 'ExpiredToken', 300],
  ])('are not called damaged while their store answers %i %s', async (status, code, index) => {
    proxy.choose = () => ({ kind: 'status', status, code });
    const refused = await get(`/_/v1/receipts/${index}`);
    proxy.choose = () => undefined;
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([
      503,
      { detail: 'Store s3, which has the records 0 to 4095, is not available.' },
    ]);
    await vi.waitFor(
      async () => expect((await get(`/_/v1/receipts/${index}`)).status).toBe(200),
      60_000,
    );
  });

  it('are not called lost by a comparison whose credentials were revoked', async () => {
    proxy.choose = () => ({ kind: 'status', status: 403, code: 'InvalidAccessKeyId' });
    const { code, stdout, stderr } = await rig.run(['verify', 'deep']);
    proxy.choose = () => undefined;
    expect(stderr).toMatch(/^bursar: store s3: HTTP 403 InvalidAccessKeyId/);
    expect([code, stdout]).toEqual([1, '']);
  });

  it('are left alone by a rebuild, which opens none of them', async () => {
    await rig.stopGateway();
    const pack = await findPack();
    rig.loseDatabase();
    const { report } = await rig.rebuild();
    expect(report).toMatchObject({
      isWhole: true,
      versions: size + 1,
      recordPacks: 1,
      leftExtents: 0,
    });
    expect(readFileSync(pack).length).toBeGreaterThan(100_000);
  });
});
