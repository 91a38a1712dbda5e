// The place of an S3 store that is emptied, exchanged, or loses the mark of its owner under a
// gateway: nothing is acknowledged there any more, no other gateway takes it, and an operator has
// the last word. A real S3 server, gateways as processes.
import { mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { CatalogEditor } from '../tooling/attacks.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { RebuildRig } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

describeWithTool(versitygw, 'the place of a store', (path) => {
  let rig: RebuildRig;
  let away: string;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    away = mkdtempSync(join(rig.backend.dataDir, '..', 'away-'));
    await rig.serve();
    expect((await rig.client.send('PUT', '/bucket')).status).toBe(200);
    for (const key of ['a', 'b', 'c']) expect(await put(key)).toBe(200);
  });
  afterAll(() => rig?.stop());

  async function put(key: string): Promise<number> {
    return (await rig.client.send('PUT', `/bucket/${key}`, { body: Buffer.from(key) })).status;
  }

  const remove = async (key: string): Promise<number> =>
    (await rig.client.send('DELETE', `/bucket/${key}`)).status;

  const read = async (key: string): Promise<number> =>
    (await rig.client.send('GET', `/bucket/${key}`)).status;

  const reason = async (): Promise<string> => {
    const { status, body } = await rig.client.send('GET', '/_/v1/stores');
    expect(status).toBe(200);
    return JSON.parse(body.toString()).stores.find(({ name }: { name: string }) => name === 's3')
      .reason;
  };

  /** Another data folder on the same place; gives why it did not start. */
  async function intrude(): Promise<string> {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-intruder-'));
    const { endpoint, credentials } = rig.backend;
    const store = ['--store', 's3://backend/store', '--store-endpoint', endpoint];
    const env = {
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    };
    try {
      const args = [...store, '--store-path-style'];
      const gateway = await startServedGateway({ dataDir, args, env });
      await gateway.stop();
      return '';
    } catch (error) {
      return String(error);
    } finally {
      rmSync(dataDir, { recursive: true, force: true });
    }
  }

  it('that is emptied takes no more changes, and serves again when it is back', async () => {
    renameSync(rig.pathOf(''), join(away, 'store'));
    expect(await remove('a')).toBe(503);
    expect(await reason()).toContain('has lost the mark of its owner');
    // Nothing was written in the place of what was there.
    expect(await put('d')).toBe(503);
    rmSync(rig.pathOf(''), { recursive: true, force: true });
    renameSync(join(away, 'store'), rig.pathOf(''));
    await expect.poll(reason, { timeout: 60_000 }).toBeNull();
    expect(await read('b')).toBe(200);
    expect(await remove('a')).toBe(204);
  });

  it('that has lost its mark is no other gateway’s, and is adopted by a word alone', async () => {
    renameSync(rig.pathOf('owner'), join(away, 'owner'));
    expect(await remove('b')).toBe(503);
    expect(await intrude()).toContain('holds a gateway');
    // A start does not set it again either, and serves what is elsewhere.
    await rig.stopGateway();
    await rig.serve();
    expect(await reason()).toContain('has lost the mark of its owner');
    expect(await read('c')).toBe(503);
    expect(rig.storedObjects('owner')).toEqual([]);
    const adopted = await rig.run(['store', 'adopt', 's3']);
    expect(adopted).toMatchObject({ code: 0, stderr: '' });
    expect(adopted.stdout).toMatch(/journal .* is there.*\n.* is the store s3 again/);
    await expect.poll(reason, { timeout: 60_000 }).toBeNull();
    expect(await read('c')).toBe(200);
    expect((await rig.run(['store', 'adopt', 's3'])).stdout).toContain('nothing was changed');
    const told = await rig.run(['store', 'adopt', 's3', '--json']);
    expect(JSON.parse(told.stdout)).toMatchObject({ store: 's3', isMarked: false, journal: null });
  });

  it('that is another’s is adopted by nobody, one without the data only on demand', async () => {
    await rig.stopGateway();
    renameSync(rig.pathOf(''), join(away, 'store'));
    const refused = await rig.run(['store', 'adopt', 's3']);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toContain('has not the store');
    await rig.putObject('owner', Buffer.from('{}'));
    const foreign = await rig.run(['store', 'adopt', 's3', '--without-data']);
    expect(foreign).toMatchObject({ code: 1 });
    expect(foreign.stderr).toContain('belongs to another gateway');
    rmSync(rig.pathOf('owner'));
    expect(await rig.run(['store', 'adopt', 's3', '--without-data'])).toMatchObject({ code: 0 });
    await rig.serve();
    expect(await read('c')).toBe(500);
    expect(await put('e')).toBe(200);
    expect(await read('e')).toBe(200);
  });

  it('that is another in an edited database is refused, with what to do about it', async () => {
    await rig.stopGateway();
    const edit = async (location: string) => {
      const catalog = new CatalogEditor(rig.dataDir);
      await catalog.run('UPDATE stores SET location = ?', location);
      catalog.close();
    };
    const was = await rig.query<{ location: string }>('SELECT location FROM stores');
    await edit('s3://elsewhere');
    await expect(rig.serve()).rejects.toThrow(
      /cannot start: store s3 is not what was stored: .* "bursar database check" .*edited-rights/,
    );
    const database = ['database', 'check', '--data', rig.dataDir];
    const checked = await rig.runPlain(database);
    expect(checked).toMatchObject({ code: 1 });
    expect(checked.stdout).toContain('NOT AUTHENTIC: store s3 is not what was stored');
    await edit(was?.location ?? '');
    await rig.serve();
    expect(await read('e')).toBe(200);
  });
});
