// What a lost data folder costs of who there is, what they may and how much: nothing that the
// journals in S3 stores tell, but for secrets. And what was taken away stays so, whatever is
// missing.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { Admin, goneKey, type Made, populate, statusAs } from './identities-content.ts';
import { RebuildRig, type Rebuilt, type Report } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

async function expectTakenAway(admin: Admin, made: Made): Promise<void> {
  expect(await admin.status('/data/object', made.tokens.kept)).toBe(200);
  expect(await admin.status('/data/object', made.tokens.revoked)).toBe(403);
  expect(await admin.status('/data/object', made.tokens.ofKey)).toBe(403);
  expect(await admin.status(new URL(made.shares.kept).pathname)).toBe(200);
  expect(await admin.status(new URL(made.shares.revoked).pathname)).toBe(410);
}

describeWithTool(versitygw, 'a gateway that lost its folder', (path) => {
  let rig: RebuildRig;
  let admin: Admin;
  let made: Made;
  let before: object;
  let listen: string[];
  let kept: string;

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    admin = new Admin(rig);
    await rig.serve();
    // Tokens are for its URL.
    listen = ['--listen', new URL(rig.gateway.endpoint).host];
    made = await populate(admin);
    before = await admin.survey();
    // What was answered for is in the journal.
    await rig.kill();
    kept = mkdtempSync(join(tmpdir(), 'bursar-kept-'));
    for (const folder of folders()) copy(folder, join(kept, folders().indexOf(folder).toString()));
  });
  afterAll(async () => {
    await rig?.stop();
    rmSync(kept, { recursive: true, force: true });
  });

  /** Of the gateway, and of its store. */
  const folders = () => [rig.dataDir, join(rig.backend.dataDir, 'backend')];
  const copy = (from: string, to: string) => {
    rmSync(to, { recursive: true, force: true });
    execFileSync('cp', ['-a', from, to]);
  };
  /** All is as it was when the gateway was killed. */
  const putBack = () => {
    for (const [i, folder] of folders().entries()) copy(join(kept, String(i)), folder);
  };
  const lose = () => {
    rig.loseDatabase();
    rmSync(join(rig.dataDir, 'credentials'), { force: true });
  };
  const segments = () =>
    rig.storedObjects('journal/').filter(({ name }) => /\d{20}-\d{20}$/.test(name));

  describe('rebuilt', () => {
    let rebuilt: Rebuilt;
    beforeAll(async () => {
      lose();
      rebuilt = await rig.rebuild();
      await rig.serve(listen);
    });

    it('knows who there is, what they may and how much, as before', async () => {
      expect(rebuilt.code, rebuilt.stderr).toBe(0);
      expect(rebuilt.report).toMatchObject({ isWhole: true, tenants: [], principals: [] });
      expect(rebuilt.report?.identities).toMatchObject({
        ...{ stores: ['s3'], doubtful: false, leftOut: { count: 0 } },
        // Of the gateway, of cms and three of its people, and of a target.
        newWebhookSecrets: { count: 6 },
      });
      expect(await admin.survey()).toEqual(before);
      const bucket = await admin.call('GET', 'tenants/cms/buckets/quiet');
      expect(bucket).toMatchObject({ recordReads: 'aggregate', owner: 'alice' });
    });

    it('makes up no secret of an access key: new ones do what the old ones did', async () => {
      const { withoutKey } = (rebuilt.report as Report).identities;
      expect(withoutKey.first).toContain(`cms/alice: ${made.alice.accessKeyId}`);
      expect(await statusAs(rig, made.alice, '/data/object')).toBe(403);
      expect(await statusAs(rig, await admin.newKey('cms', 'alice'), '/data/object')).toBe(200);
    });

    it('takes tokens and links that it took, and none that was revoked', async () => {
      await expectTakenAway(admin, made);
      // How often it was used before is not known.
      expect(rebuilt.report?.identities.usedUpShares.count).toBe(1);
      expect(await admin.status(new URL(made.shares.few).pathname)).toBe(410);
    });

    it('gives no name again, nor takes a key that was deleted', async () => {
      const refused = (path: string, body: object) =>
        expect(admin.call('POST', path, body)).rejects.toThrow(/409/);
      await refused('tenants', { name: 'over' });
      await refused('tenants/cms/groups', { name: 'gone' });
      const left = { name: 'left', kind: 'person', role: 'member' };
      await refused('tenants/cms/principals', left);
      await expect(admin.enrol('cms', 'bob', goneKey)).rejects.toThrow(/409/);
    });

    it('tells the new journal all of it: it is rebuilt again', async () => {
      const after = await admin.survey();
      await admin.call('DELETE', 'tenants/cms/grants/everybody');
      await rig.kill();
      rig.loseDatabase();
      expect((await rig.rebuild()).code).toBe(0);
      await rig.serve(listen);
      const again = (await admin.survey()) as Record<string, { name: string }[]>;
      const grants = 'tenants/cms/grants';
      const expected = { ...(after as typeof again) };
      expected[grants] = expected[grants]?.filter(({ name }) => name !== 'everybody') ?? [];
      expect(again).toEqual(expected);
      await expectTakenAway(admin, made);
    });
  });

  describe('of whose journal a part is missing', () => {
    let rebuilt: Rebuilt;
    beforeAll(async () => {
      await rig.kill();
      putBack();
      lose();
      // An early one, and so alice is known all the same: all of her keys are told later.
      rmSync(rig.pathOf(segments()[1]?.name as string));
      rebuilt = await rig.rebuild();
      await rig.serve(listen);
    });

    it('has nobody active but its operator, and lets nobody in by a grant to anyone', async () => {
      expect(rebuilt.code).toBe(1);
      expect(rebuilt.report).toMatchObject({ isWhole: false, identities: { doubtful: true } });
      const grants = await admin.list('tenants/cms/grants', 'grants');
      expect(grants.map(({ name }) => name)).not.toContain('everybody');
      for (const tenant of ['cms', 'default']) {
        const principals = await admin.list(`tenants/${tenant}/principals`, 'principals');
        const active = principals.filter((one) => one.active).map(({ name }) => name);
        expect(active).toEqual(tenant === 'default' ? ['admin'] : []);
      }
      expect(await admin.status('/data/object', made.tokens.kept)).toBe(401);
    });

    it('has who is activated, with the rights that are known', async () => {
      await admin.call('PATCH', 'tenants/cms/principals/alice', { active: true });
      expect(await admin.status('/data/object', made.tokens.kept)).toBe(200);
    });
  });

  describe('and has an older marker of its journal', () => {
    it('goes by the newest snapshot all the same', async () => {
      await rig.kill();
      putBack();
      const begin = rig.storedObjects('journal/').find(({ name }) => name.endsWith('/begin'));
      const older = readFileSync(rig.pathOf(begin?.name as string));
      // Another start with the setting begins with a snapshot, and so with a new marker.
      await rig.serve([...listen, '--journal-with-keys']);
      await snapshotIs('identitiesAndKeys');
      await rig.kill();
      lose();
      await rig.putObject(begin?.name as string, older);
      const { report, code } = await rig.rebuild();
      expect(code).toBe(0);
      expect(report?.identities).toMatchObject({ doubtful: false, restored: { grants: 3 } });
    });
  });

  describe('and told the secrets of its access keys', () => {
    beforeAll(async () => {
      putBack();
      await rig.serve([...listen, '--journal-with-keys']);
      await snapshotIs('identitiesAndKeys');
      await rig.kill();
      lose();
    });

    it('takes the old keys again, and none that was off', async () => {
      const { report, code, stderr } = await rig.rebuild(['--journal-with-keys']);
      expect(code, stderr).toBe(0);
      expect(report?.identities).toMatchObject({
        ...{ withoutKey: { count: 0 }, newWebhookSecrets: { count: 0 } },
      });
      await rig.serve(listen);
      expect(await statusAs(rig, made.alice, '/data/object')).toBe(200);
      expect(await statusAs(rig, made.off, '/data/object')).toBe(403);
      await admin.call('PATCH', `tenants/cms/principals/bob/access-keys/${made.off.accessKeyId}`, {
        active: true,
      });
      // By the grant to anyone.
      expect(await statusAs(rig, made.off, '/cms:data/object')).toBe(200);
      await expectTakenAway(admin, made);
    });
  });

  /** Waits until the journal has a snapshot that tells this, and nothing from before it. */
  async function snapshotIs(tells: string): Promise<void> {
    const sql = 'SELECT state FROM journal_identities';
    const wanted = tells === 'identities' ? 2 : 3;
    await vi.waitFor(
      async () => expect((await rig.query<{ state: number }>(sql))?.state).toBe(wanted),
      { timeout: 30_000 },
    );
  }
});

describeWithTool(versitygw, 'a gateway with two stores, of which one is away', (path) => {
  let rig: RebuildRig;
  let proxy: FaultProxy;
  let admin: Admin;
  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    rig.backend.makeBucket('cold');
    proxy = await FaultProxy.start(rig.backend.port);
    const cold = { url: 's3://cold/c', endpoint: proxy.endpoint, pathStyle: true };
    rig.environment = { BURSAR_STORES: JSON.stringify({ cold }) };
    await rig.serve();
    admin = new Admin(rig);
    await admin.call('POST', 'tenants', { name: 'cms' });
    const rule = { effect: 'allow', actions: ['s3:GetObject'], subjects: ['anyone'] };
    for (const name of ['kept', 'taken-back']) {
      await admin.call('PUT', `tenants/cms/grants/${name}`, { ...rule, bucket: 'b' });
    }
  });
  afterAll(async () => {
    await rig?.stop();
    await proxy?.stop();
  });

  const away = { kind: 'status', status: 503, code: 'SlowDown' } as const;
  const untoldOf = async (method: string, to: string, body?: object) => {
    const answer = await rig.client.send(method, `/_/v1/${to}`, {
      ...(body && {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
      }),
    });
    expect(answer.status).toBeLessThan(300);
    return answer.headers['x-bursar-untold'];
  };
  const grants = async () =>
    (await admin.list('tenants/cms/grants', 'grants')).map(({ name }) => name);

  it('takes a right away all the same, and says who was not told', async () => {
    expect(await untoldOf('PATCH', 'tenants/cms', { membersCreateBuckets: false })).toBeUndefined();
    proxy.choose = () => away;
    expect(await untoldOf('DELETE', 'tenants/cms/grants/taken-back')).toBe('cold');
    await rig.kill();
    rig.loseDatabase();
    proxy.choose = () => undefined;
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report?.identities).toMatchObject({ doubtful: false });
    expect(report?.identities.stores.sort()).toEqual(['cold', 's3']);
    await rig.serve();
    expect(await grants()).toEqual(['kept']);
  });

  it('tells what a store was not told when it is back, killed or not', async () => {
    proxy.choose = () => away;
    expect(await untoldOf('DELETE', 'tenants/cms/grants/kept')).toBe('cold');
    await rig.kill();
    proxy.choose = () => undefined;
    await rig.serve();
    const sql = 'SELECT count(*) AS state FROM identity_outbox';
    const stateBy = async (text: string) => (await rig.query<{ state: number }>(text))?.state;
    await expect.poll(() => stateBy(sql), { timeout: 30_000 }).toBe(0);
    await rig.kill();
    rig.loseDatabase();
    // The other store is lost, too.
    const cold = rig.environment.BURSAR_STORES as string;
    const settings = ['--store', 's3://cold/c'];
    rig.environment = {};
    const { code, stderr } = await rig.rebuild(settings);
    expect(code, stderr).toBe(0);
    await rig.serve(settings);
    expect(await grants()).toEqual([]);
    rig.environment = { BURSAR_STORES: cold };
  });
});
