// A data folder that was put back whole, and whose S3 store was told of no change since: the
// checkpoint in the store says that it is older. What it does then, and does not; and how it goes
// on. A real S3 server, gateways as processes.
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { listFiles } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { md5Header } from './load.ts';
import { KeptStates } from './put-back.ts';
import { ask } from './rebuild-content.ts';
import { RebuildRig } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 180_000 });

/** Records that make a pack, and some that stay. */
const size = 4110;
const busy = [
  ...['--archive-after', '1ms', '--archive-store', 'local'],
  ...['--sweep-interval', '100ms', '--sweep-grace', '1ms'],
];
const isOlder =
  /are refused: the database is an older copy: store s3: its checkpoint is of \d+ records, and /;

describeWithTool(versitygw, 'a folder that was put back whole', (path) => {
  let rig: RebuildRig;
  let proxy: FaultProxy;
  let states: KeptStates;
  /** How long it takes a gateway to sweep and to archive what there is. */
  let busyMs: number;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    proxy = await FaultProxy.start(rig.backend.port);
    rig.proxy = proxy;
    states = new KeptStates(rig);
    await rig.serve(['--archive-after', '0']);
    await ask(rig.client, 'PUT', '/far');
    await ask(rig.client, 'PUT', '/far/object', { body: Buffer.alloc(99_999, 1) });
    await ask(rig.client, 'PUT', '/near', { headers: { 'x-bursar-store': 'local' } });
    for (let i = 0; i < 3; i++) {
      await ask(rig.client, 'PUT', '/near/object', { body: Buffer.alloc(99_999, i) });
    }
    await makeRecords();
    const summed = 'SELECT next_idx AS next FROM usage_progress';
    await vi.waitFor(async () => expect((await ask1(summed)).next).toBeGreaterThan(4096), 60_000);
    await rig.stopGateway();
    states.keep('then');
    // The same without anything that is put back: all of it is done.
    const begunMs = performance.now();
    await rig.serve(busy);
    await vi.waitFor(async () => expect(await look()).toEqual({ swept: true, archived: true }), {
      timeout: 120_000,
    });
    busyMs = performance.now() - begunMs;
    await ask(rig.client, 'PUT', '/near/object', { body: Buffer.alloc(99_999, 9) });
    await rig.stopGateway();
    states.keep('now');
  });
  afterAll(async () => {
    await rig?.stop();
    await proxy?.stop();
    states?.remove();
  });

  // What a test that failed has left.
  afterEach(() => rig.stopGateway().catch(() => {}));

  async function ask1(sql: string): Promise<Record<string, number>> {
    return (await rig.query<Record<string, number>>(sql)) ?? {};
  }

  /** Each key has a record of its own, since each gets a delete marker. */
  async function makeRecords(): Promise<void> {
    const enabled = Buffer.from(
      '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>',
    );
    const local = { 'x-bursar-store': 'local' };
    await ask(rig.client, 'PUT', '/marked', { headers: local });
    await ask(rig.client, 'PUT', '/marked', {
      ...{ query: [['versioning', '']], body: enabled, headers: md5Header(enabled) },
    });
    for (let begin = 0; begin < size; begin += 1000) {
      const objects = Array.from({ length: 1000 }, (_, i) => `<Key>${begin + i}</Key>`)
        .map((key) => `<Object>${key}</Object>`)
        .join('');
      const body = Buffer.from(`<Delete>${objects}</Delete>`);
      const headers = md5Header(body);
      await ask(rig.client, 'POST', '/marked', { query: [['delete', '']], body, headers });
    }
  }

  /** Of what was there `then`: the two extents that nothing holds, and the pack that is due. */
  async function look(): Promise<{ swept: boolean; archived: boolean }> {
    const { count } = await ask1('SELECT count(*) AS count FROM archived_tiles');
    const condemned = await ask1('SELECT count(*) AS count FROM extents WHERE state = 2');
    return { swept: condemned.count === 0, archived: (count ?? 0) > 0 };
  }

  const putBack = () => {
    states.bringNowBack();
    states.putFilesBack(() => true);
  };
  const put = async (bucket: string): Promise<number> =>
    (await rig.client.send('PUT', `/${bucket}/new`, { body: Buffer.from('new') })).status;
  const puts = async () => [await put('near'), await put('far')];

  it('sweeps and archives nothing, and takes no writes', async () => {
    putBack();
    const files = () => listFiles(rig.dataDir).filter((one) => one.includes('/extents/'));
    const before = files();
    await rig.serve(busy);
    await expect.poll(() => rig.gateway.output()).toMatch(isOlder);
    expect(await puts()).toEqual([503, 503]);
    await new Promise((resolve) => setTimeout(resolve, busyMs));
    const { count } = await ask1('SELECT count(*) AS count FROM archived_tiles');
    expect(count).toBe(0);
    expect(files()).toEqual(before);
    expect(await puts()).toEqual([503, 503]);
    await rig.stopGateway();
  });

  it('notices it when a store comes that was away at the start', async () => {
    putBack();
    await proxy.refuse();
    await rig.serve();
    expect(await put('near')).toBe(200);
    await proxy.accept();
    await vi.waitFor(() => expect(rig.gateway.output()).toMatch(isOlder), 60_000);
    expect(await puts()).toEqual([503, 503]);
    await rig.stopGateway();
    // Its log has grown meanwhile. The checkpoint in the store is the same.
    await rig.serve();
    expect(await puts()).toEqual([503, 503]);
  });

  it.each([
    ['the log has another name', ['log', 'restart', '--origin', 'log.test/b', '--reason', 'test']],
    ['it was joined with its stores', ['restore', '--here']],
  ])('goes on once %s', async (_, command) => {
    putBack();
    const isRestore = command[0] === 'restore';
    const done = isRestore
      ? await rig.run(command)
      : await rig.runPlain([...command, '--data', rig.dataDir]);
    expect(done.code, done.stderr).toBe(0);
    for (let start = 0; start < 2; start++) {
      await rig.serve();
      expect(rig.gateway.output()).not.toContain('older copy');
      expect(await puts(), rig.gateway.output()).toEqual([200, 200]);
      await rig.stopGateway();
    }
  });

  it('is none that was killed, whatever it had signed', async () => {
    states.bringNowBack();
    for (let start = 0; start < 3; start++) {
      await rig.serve();
      expect(await puts(), rig.gateway.output()).toEqual([200, 200]);
      await rig.kill();
    }
    await rig.serve();
    expect(await puts(), rig.gateway.output()).toEqual([200, 200]);
    await rig.stopGateway();
  });
});
