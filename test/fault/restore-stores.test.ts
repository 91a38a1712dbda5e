// A data folder with several S3 stores is restored: all of them at once, or one later, while the
// others are served; with a log that keeps its name, and with what nothing names let go of.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { put } from './restore-content.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

interface Report {
  log: { before: string; now: string };
  left: string[];
  stores: { isWhole: boolean; versions: number; condemnedExtents: number; leftExtents: number };
}

describeWithTool(versitygw, 'a data folder with two S3 stores', (path) => {
  let rig: RebuildRig;
  const folder = mkdtempSync(join(tmpdir(), 'bursar-stores-'));
  const place = join(folder, 'place');
  const names = ['hot', 'cold'] as const;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    rig.backend.makeBucket('cold');
    const cold = { url: 's3://cold/c', endpoint: rig.backend.endpoint, pathStyle: true };
    rig.environment = { BURSAR_STORES: JSON.stringify({ cold }) };
    await rig.serve();
    await ask(rig.client, 'PUT', '/hot');
    await ask(rig.client, 'PUT', '/cold', { headers: { 'x-bursar-store': 'cold' } });
    for (const name of names) await put(rig.client, `/${name}/before`, 1);
    const made = await rig.backUp(place);
    expect(made.code, made.stderr).toBe(0);
  });
  afterAll(async () => {
    await rig?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function restore(...args: string[]): Promise<Report> {
    const { code, stdout, stderr } = await rig.run(['restore', ...args, '--json']);
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout) as Report;
  }
  const statusOf = async (at: string) => (await rig.client.send('GET', at)).status;

  it('has what both were given since', async () => {
    for (const name of names) await put(rig.client, `/${name}/after`, 2);
    await ask(rig.client, 'DELETE', '/cold/before');
    await rig.kill();
    rig.loseFolder();
    const { stores, left } = await restore(place);
    expect([stores.isWhole, stores.versions, left]).toEqual([true, 2, []]);
    await rig.serve();
    for (const name of names) expect(await statusOf(`/${name}/after`), name).toBe(200);
    expect(await statusOf('/cold/before')).toBe(404);
  });

  it('is served without one that was left, and has it when it is restored here', async () => {
    expect((await rig.backUp(place)).code).toBe(0);
    await put(rig.client, '/cold/later', 3);
    await rig.kill();
    rig.loseFolder();
    const { left, log } = await restore(place, '--without-store', 'cold');
    expect(left).toEqual(['cold']);
    const hot = { ...rig.environment };
    rig.environment = {};
    await rig.serve();
    expect(await statusOf('/hot/after')).toBe(200);
    expect(await statusOf('/cold/after')).toBe(503);
    await put(rig.client, '/hot/meanwhile', 4);
    await rig.stopGateway();
    rig.environment = hot;
    // Nothing of what was signed is missing here.
    const here = await restore('--here', '--same-log');
    expect(here.log).toEqual({ before: log.now, now: log.now });
    await rig.serve();
    for (const at of ['/cold/later', '/cold/after', '/hot/meanwhile']) {
      expect(await statusOf(at), at).toBe(200);
    }
    for (const name of names) await put(rig.client, `/${name}/again`, 5);
  });

  it('lets what nothing names be swept, where something is lost, only when told to', async () => {
    expect((await rig.backUp(place)).code).toBe(0);
    await put(rig.client, '/hot/newest', 6);
    await ask(rig.client, 'DELETE', '/hot/nothing');
    const query: [string, string][] = [['uploads', '']];
    const begun = await ask(rig.client, 'POST', '/hot/parts', { query });
    const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body.toString())?.[1] ?? '';
    const part: [string, string][] = [
      ['partNumber', '1'],
      ['uploadId', id],
    ];
    await ask(rig.client, 'PUT', '/hot/parts', { query: part, body: Buffer.alloc(100_000) });
    await rig.kill();
    const [marker] = rig.storedObjects('journal/').filter(({ name }) => name.endsWith('/begin'));
    rmSync(rig.pathOf(marker?.name as string));
    const tries = [];
    for (const more of [[], ['--discard']]) {
      rig.loseFolder();
      const { code, stdout } = await rig.run(['restore', place, '--json', ...more]);
      expect(code).toBe(1);
      tries.push((JSON.parse(stdout) as Report).stores);
    }
    const [kept, discarded] = tries;
    expect([kept?.condemnedExtents, kept?.leftExtents]).toEqual([0, expect.any(Number)]);
    expect(kept?.leftExtents).toBeGreaterThan(0);
    expect(discarded).toMatchObject({ leftExtents: 0 });
    expect(discarded?.condemnedExtents).toBeGreaterThan(0);
  });
});
