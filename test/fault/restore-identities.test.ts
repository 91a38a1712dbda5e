// Who there is, what they may and how much after a lost data folder was restored: as it was when
// the folder was lost, not when it was backed up. And where something may be missing, nothing is
// more than is known.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import {
  Admin,
  type Credentials,
  changeLater,
  type Made,
  populate,
  statusAs,
} from './identities-content.ts';
import { RebuildRig } from './rebuild-rig.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

interface Report {
  stores: {
    isWhole: boolean;
    identities: {
      doubtful: boolean;
      restored: Record<string, number>;
      leftOut: { count: number; first: string[] };
      removed: { first: string[] };
    };
  };
  unknown: string[];
}

describeWithTool(versitygw, 'a data folder whose identities changed after its backup', (path) => {
  let rig: RebuildRig;
  let admin: Admin;
  let made: Made;
  let listen: string[];
  const folder = mkdtempSync(join(tmpdir(), 'bursar-identities-'));
  const place = join(folder, 'place');

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    admin = new Admin(rig);
    await rig.serve();
    // Tokens are for its URL.
    listen = ['--listen', new URL(rig.gateway.endpoint).host];
    await backUp();
    made = await populate(admin);
  });
  afterAll(async () => {
    await rig?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const backUp = async () => {
    const { code, stderr } = await rig.backUp(place);
    expect(code, stderr).toBe(0);
  };
  const loseAndRestore = async (expected: number) => {
    const { code, stdout, stderr } = await rig.run(['restore', place, '--json']);
    expect(code, stderr).toBe(expected);
    return JSON.parse(stdout) as Report;
  };
  const lose = async () => {
    await rig.kill();
    rig.loseFolder();
  };
  const segments = () =>
    rig
      .storedObjects('journal/')
      .map(({ name }) => name)
      .filter((name) => /\d{20}-\d{20}$/.test(name));

  it('has all that was made since', async () => {
    const before = await admin.survey();
    await lose();
    const { stores, unknown } = await loseAndRestore(0);
    expect(stores).toMatchObject({ isWhole: true, identities: { leftOut: { count: 0 } } });
    expect(unknown.join()).not.toContain('principals, keys, grants');
    await rig.serve(listen);
    expect(await admin.survey()).toEqual(before);
    expect(await admin.status('/data/object', made.tokens.kept)).toBe(200);
    expect(await admin.status('/data/object', made.tokens.revoked)).toBe(403);
    expect(await admin.status(new URL(made.shares.revoked).pathname)).toBe(410);
  });

  it('has all that was changed since, and nothing that was taken away', async () => {
    made.alice = await admin.newKey('cms', 'alice');
    made.off = await admin.newKey('cms', 'bob');
    await backUp();
    const late: Credentials = await changeLater(admin, made);
    const before = await admin.survey();
    await lose();
    const { stores } = await loseAndRestore(0);
    expect(stores).toMatchObject({ isWhole: true, identities: { leftOut: { count: 0 } } });
    expect(stores.identities.removed.first).toEqual(
      expect.arrayContaining(['tenants/atlas', 'tenants/cms/principals/carol']),
    );
    await rig.serve(listen);
    expect(await admin.survey()).toEqual(before);
    // The new key has no secret here, and the old one is gone.
    for (const key of [made.alice, made.off, late]) {
      expect(await statusAs(rig, key, '/data/object')).toBe(403);
    }
    await rig.stopGateway();
    const deep = await rig.runPlain(['verify', 'deep', '--data', rig.dataDir]);
    expect(deep.code, deep.stderr + deep.stdout).toBe(0);
  });

  it('keeps secrets of access keys of the backup, and takes those of journals', async () => {
    await rig.serve([...listen, '--journal-with-keys']);
    const old = await admin.newKey('cms', 'alice');
    await vi.waitFor(async () => {
      const sql = 'SELECT state FROM journal_identities';
      expect(await rig.query(sql)).toEqual({ state: 3 });
    }, 20_000);
    await backUp();
    const late = await admin.newKey('cms', 'alice');
    await admin.call('PATCH', 'tenants/cms/principals/bob', { role: 'auditor' });
    await lose();
    const { code, stderr } = await rig.run(['restore', place, '--journal-with-keys']);
    expect(code, stderr).toBe(0);
    await rig.serve(listen);
    for (const key of [old, late]) expect(await statusAs(rig, key, '/data/object')).toBe(200);
  });

  it('where a part is missing, has no limit raised and nobody new who is active', async () => {
    await backUp();
    await admin.call('PUT', 'limits/tenant:cms', { spend: { month: '90' } });
    const robot = { name: 'robot', kind: 'robot', role: 'admin', groups: [] };
    await admin.call('POST', 'tenants/cms/principals', robot);
    const known = segments();
    await admin.call('POST', 'tenants/cms/groups', { name: 'unknown' });
    const lost = segments().filter((name) => !known.includes(name));
    const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'data' };
    await admin.call('PUT', 'tenants/cms/grants/open', { ...rule, subjects: ['anyone'] });
    await lose();
    for (const name of lost) rmSync(rig.pathOf(name));
    const { stores, unknown } = await loseAndRestore(1);
    expect(stores).toMatchObject({ isWhole: false, identities: { doubtful: true } });
    expect(unknown[0]).toMatch(/^principals, keys, grants .*, in part$/);
    await rig.serve(listen);
    const people = await admin.list('tenants/cms/principals', 'principals');
    const active = people.filter((one) => one.active).map(({ name }) => name);
    expect(active).toContain('alice');
    expect(active).not.toContain('robot');
    const limits = await admin.list('limits', 'limits');
    expect(limits.find(({ account }) => account === 'tenant:cms')?.limits).toEqual({
      spend: { month: '3' },
      rate: { requests: 900 },
    });
    const grants = await admin.list('tenants/cms/grants', 'grants');
    expect(grants.map(({ name }) => name)).not.toContain('open');
  });
});
