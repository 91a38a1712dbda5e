// `bursar verify deep`: names what was altered of all else than versions, whoever altered it.
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import { call, operator, operatorSettings, type Sending, send } from '../tooling/filled-folder.ts';
import { type Outcome, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let place: Workplace;
/** A copy that the test may alter. */
let copy: string;

beforeAll(async () => {
  place = new Workplace();
  copy = join(place.folder, 'copy');
  await serving(place.data, async (client) => {
    await send(client, 'PUT', '/data');
    await send(client, 'PUT', '/data/one', { body: 'one' });
    await send(client, 'PUT', '/gone');
    await send(client, 'DELETE', '/gone');
    const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
    await send(client, 'PUT', '/locked', { headers });
  });
});

afterAll(() => place.remove());

async function serving(
  data: string,
  work: (client: S3Client, endpoint: string) => Promise<void>,
): Promise<void> {
  const served = await place.serve(['--data', data, '--sweep-interval', '1h'], operatorSettings);
  const client = new S3Client({ endpoint: served.endpoint, ...operator });
  await work(client, served.endpoint);
  client.close();
  expect(await served.stop()).toBe(0);
}

function verify(folder: string): Promise<Outcome> {
  return place.run(['verify', 'deep', '--data', folder, '--skip-data']);
}

function takeCopy(): void {
  rmSync(copy, { recursive: true, force: true });
  cpSync(place.data, copy, { recursive: true });
}

async function editing<T>(edit: (catalog: CatalogEditor) => Promise<T>): Promise<T> {
  const catalog = new CatalogEditor(copy);
  const result = await edit(catalog);
  catalog.close();
  return result;
}

/** With the keys of the folder, rows can be made authentic, whatever they say. */
async function sealing<T>(edit: (catalog: CatalogEditor) => Promise<T>): Promise<void> {
  await editing(edit);
  const sealed = await place.run(['database', 'accept', '--yes', '--data', copy]);
  expect(sealed.code, sealed.stderr).toBe(0);
}

it('finds nothing where nothing was altered', async () => {
  const { code, stdout } = await verify(place.data);
  expect(stdout).toMatch(/^compared \d+ records/);
  expect(code).toBe(0);
});

describe('of buckets that were altered', () => {
  let said: Outcome;
  beforeAll(async () => {
    takeCopy();
    await editing(async (catalog) => {
      await catalog.run("UPDATE buckets SET owner = 'mallory' WHERE name = 'data'");
      await catalog.run("UPDATE buckets SET record_reads = 'aggregate' WHERE name = 'locked'");
      await catalog.run("UPDATE buckets SET store = 7, created_ms = 1 WHERE name = 'locked'");
      await catalog.run("UPDATE buckets SET versioning = 'Suspended' WHERE name = 'locked'");
    });
    said = await verify(copy);
  });

  it.each([
    ['whose they are', /bucket default\/data: its owner is not what record \d+/],
    ['how their reads are recorded', /bucket default\/locked: its recordReads is not what/],
    ['where their bytes lie', /bucket default\/locked: its store is not what record/],
    ['when they were made', /bucket default\/locked: its createdMs is not what record/],
    ['what is set of them', /bucket default\/locked: what is set of it is not what record/],
  ])('tells %s', (_, difference) => {
    expect(said.stdout).toMatch(difference);
    expect(said.code).toBe(1);
  });
});

it('tells that one was used in the name of an owner whom it never had', async () => {
  takeCopy();
  const setOwner = (owner: string) =>
    sealing((catalog) => catalog.run("UPDATE buckets SET owner = ? WHERE name = 'data'", owner));
  await setOwner('mallory');
  await serving(copy, async (client) => {
    await send(client, 'GET', '/data/one');
  });
  await setOwner('admin');
  const { stdout, code } = await verify(copy);
  expect(stdout).toMatch(/bucket default\/data: record \d+ charged it to mallory, whose it never/);
  expect(code).toBe(1);
});

describe('of locks', () => {
  const retention = (mode: string, days: number) => {
    const until = new Date(Date.now() + days * 86_400_000).toISOString();
    return `<Retention><Mode>${mode}</Mode><RetainUntilDate>${until}</RetainUntilDate></Retention>`;
  };
  const hold = '<LegalHold><Status>ON</Status></LegalHold>';
  const rule = '<DefaultRetention><Mode>COMPLIANCE</Mode><Days>9</Days></DefaultRetention>';
  const lockConfig = `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>
    <Rule>${rule}</Rule></ObjectLockConfiguration>`;
  const put = async (client: S3Client, path: string, sending: Sending = {}) => {
    const made = await send(client, 'PUT', path, { body: path, ...sending });
    return String(made.headers['x-amz-version-id']);
  };
  const remove = (client: S3Client, path: string, id: string, headers = {}) =>
    send(client, 'DELETE', path, { query: [['versionId', id]], headers });

  it('tells of versions ended or unlocked by rows from before they were locked', async () => {
    takeCopy();
    const ids = new Map<string, string>();
    const idOf = (name: string) => ids.get(name) ?? '';
    const columns = 'attributes, row_mac';
    const saved: { key: string; attributes: string; row_mac: Uint8Array }[] = [];
    const names = ['kept', 'held', 'shortened', 'bypassed', 'released'];
    const lockOn = (client: S3Client, name: string, kind: string, body: string) =>
      send(client, 'PUT', `/locked/${name}`, {
        query: [
          [kind, ''],
          ['versionId', idOf(name)],
        ],
        headers: { 'x-amz-bypass-governance-retention': 'true' },
        body,
      });
    await serving(copy, async (client) => {
      for (const name of names) ids.set(name, await put(client, `/locked/${name}`));
    });
    await editing(async (catalog) => {
      for (const key of names) {
        const sql = `SELECT key, ${columns} FROM versions WHERE key = ?`;
        saved.push((await catalog.get(sql, key)) as (typeof saved)[number]);
      }
    });
    await serving(copy, async (client) => {
      await lockOn(client, 'kept', 'retention', retention('COMPLIANCE', 30));
      await lockOn(client, 'shortened', 'retention', retention('COMPLIANCE', 30));
      await lockOn(client, 'held', 'legal-hold', hold);
      await lockOn(client, 'bypassed', 'retention', retention('GOVERNANCE', 30));
      await lockOn(client, 'released', 'legal-hold', hold);
      await lockOn(client, 'released', 'legal-hold', hold.replace('ON', 'OFF'));
      // As it may be.
      const bypass = { 'x-amz-bypass-governance-retention': 'true' };
      await remove(client, '/locked/bypassed', idOf('bypassed'), bypass);
      await remove(client, '/locked/released', idOf('released'));
    });
    await editing(async (catalog) => {
      for (const { key, attributes, row_mac } of saved) {
        const sql = 'UPDATE versions SET attributes = ?, row_mac = ? WHERE key = ?';
        await catalog.run(sql, attributes, row_mac, key);
      }
    });
    await serving(copy, async (client) => {
      await remove(client, '/locked/kept', idOf('kept'));
      await remove(client, '/locked/held', idOf('held'));
      await lockOn(client, 'shortened', 'retention', retention('GOVERNANCE', 1));
    });
    const { stdout, code } = await verify(copy);
    const told = stdout.split('\n').filter((line) => /lock/.test(line) && /^version/.test(line));
    expect(told).toHaveLength(3);
    expect(stdout).toMatch(
      /version \d+ of kept: record \d+ ended it, and record \d+ had locked it/,
    );
    expect(stdout).toMatch(
      /version \d+ of held: record \d+ ended it, and record \d+ had locked it/,
    );
    expect(stdout).toMatch(
      /version \d+ of shortened: record \d+ made less of its lock, which record/,
    );
    expect(code).toBe(1);
  });

  it('knows the default of buckets, and locks that versions are made with', async () => {
    takeCopy();
    const until = new Date(Date.now() + 30 * 86_400_000).toISOString();
    const headers = {
      'x-amz-object-lock-mode': 'COMPLIANCE',
      'x-amz-object-lock-retain-until-date': until,
    };
    const ids = new Map<string, string>();
    await serving(copy, async (client) => {
      ids.set('before', await put(client, '/locked/before'));
      await send(client, 'PUT', '/locked', { query: [['object-lock', '']], body: lockConfig });
      ids.set('default', await put(client, '/locked/default'));
      ids.set('own', await put(client, '/locked/own', { headers }));
      await remove(client, '/locked/before', ids.get('before') ?? '');
    });
    expect((await verify(copy)).code).toBe(0);
    // Here, that none is locked.
    await sealing((catalog) =>
      catalog.run("UPDATE buckets SET object_lock = NULL, versioning = 'Suspended'"),
    );
    await editing((catalog) => catalog.run("UPDATE versions SET attributes = '{}'"));
    await serving(copy, async (client) => {
      // What is damaged may be deleted where there is no object lock.
      for (const name of ['default', 'own']) {
        await remove(client, `/locked/${name}`, ids.get(name) ?? '');
      }
    });
    const { stdout } = await verify(copy);
    expect(stdout).toMatch(
      /version \d+ of default: record \d+ ended it, and record \d+ had locked it/,
    );
    expect(stdout).toMatch(/version \d+ of own: record \d+ ended it, and record \d+ had locked it/);
  });
});

describe('of who there is, what they may and how much', () => {
  let said: Outcome;
  beforeAll(async () => {
    takeCopy();
    const enrolled = generatePrivateKey('EdDSA');
    await serving(copy, async (client, endpoint) => {
      for (const name of ['cms', 'over']) await call(client, 'POST', 'tenants', { name });
      await call(client, 'POST', 'tenants/over/principals', { name: 'x' });
      await call(client, 'DELETE', 'tenants/over');
      await call(client, 'PATCH', 'tenants/cms', { recordReads: 'strict' });
      for (const name of ['staff', 'gone'])
        await call(client, 'POST', 'tenants/cms/groups', { name });
      const principals = 'tenants/cms/principals';
      for (const name of ['alice', 'bob', 'carol', 'left']) {
        await call(client, 'POST', principals, { name, groups: ['gone', 'staff'] });
        await call(client, 'POST', `${principals}/${name}/access-keys`);
      }
      await call(client, 'DELETE', 'tenants/cms/groups/gone');
      await call(client, 'PATCH', `${principals}/bob`, { active: false, groups: [] });
      await call(client, 'DELETE', `${principals}/left`);
      const asked = { audience: endpoint, principal: 'cms/alice', nowMs: Date.now() };
      const { jwk } = enrolled.publicKey;
      const proof = createKeyProof(enrolled, asked);
      await call(client, 'POST', `${principals}/alice/public-keys`, { jwk, proof });
      const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'data' };
      const many = Array.from({ length: 90 }, (_, i) => `principal:other/${'x'.repeat(50)}${i}`);
      for (const name of ['added-to', 'back', 'kept', 'long']) {
        const subjects = name === 'long' ? many : ['principal:cms/alice'];
        await call(client, 'PUT', `tenants/cms/grants/${name}`, { ...rule, subjects });
      }
      await call(client, 'PUT', 'tenants/cms/mounts/theirs', {
        bucketTenant: 'default',
        bucket: 'data',
      });
      for (const name of ['own', 'hidden', 'ended']) {
        const mount = { bucketTenant: 'default', bucket: 'data' };
        await call(client, 'PUT', `${principals}/alice/mounts/${name}`, mount);
      }
      await call(client, 'DELETE', `${principals}/alice/mounts/ended`);
      await call(client, 'PATCH', 'tenants/cms', { membersMountBuckets: false });
      const mapping = { pathPrefix: '/data', principals: { 1: 'bob' } };
      const url = 'https://iam.example.org';
      await call(client, 'POST', 'tenants/cms/classes', {
        name: 'derived',
        durability: { legs: [{ store: 'local' }] },
      });
      await call(client, 'PUT', 'tenants/cms/issuers/iam', { url, audience: 'x/cms', mapping });
      for (const name of ['hook', 'ended']) {
        const target = { kind: 'webhook', url: 'https://127.0.0.1:9/cms' };
        await call(client, 'PUT', `tenants/cms/targets/${name}`, target);
      }
      await call(client, 'DELETE', 'tenants/cms/targets/ended');
      await call(client, 'PUT', 'limits/tenant:cms', { spend: { month: '12.5' } });
      await call(client, 'PUT', 'limits/principal:cms/bob', { requests: { day: 5 } });
      await call(client, 'DELETE', 'limits/principal:cms/bob');
    });
    const unaltered = await verify(copy);
    expect(unaltered.stdout).toMatch(/^compared/);
    expect(unaltered.code).toBe(0);
    await editing(async (catalog) => {
      for (const sql of [
        "UPDATE principals SET role = 'operator' WHERE name = 'alice'",
        "UPDATE principals SET active = 1 WHERE name = 'bob'",
        "INSERT INTO group_members VALUES ('cms', 'staff', 'bob')",
        "INSERT INTO principals VALUES ('cms', 'mallory', 'person', 'admin', 1, 1)",
        "INSERT INTO groups VALUES ('cms', 'gone', 1)",
        "UPDATE access_keys SET principal = 'alice' WHERE principal = 'carol'",
        "UPDATE public_keys SET principal = 'carol'",
        "UPDATE grants SET rule = replace(rule, 'alice', 'bob') WHERE name = 'added-to'",
        "UPDATE grants SET rule = replace(rule, 'xxx', 'yyy') WHERE name = 'long'",
        "DELETE FROM grants WHERE name = 'back'",
        "INSERT INTO grants VALUES ('cms', 'new', '{}', 1)",
        "UPDATE mounts SET bucket = 'locked'",
        "UPDATE own_mounts SET bucket = 'locked' WHERE name = 'own'",
        "DELETE FROM own_mounts WHERE name = 'hidden'",
        "DELETE FROM tenant_settings WHERE tenant = 'cms'",
        "UPDATE issuers SET url = 'https://mallory.example.org'",
        "UPDATE targets SET url = 'https://mallory.example.org'",
        `UPDATE classes SET definition = replace(definition, '"ack":1', '"ack":2')`,
        "UPDATE tenants SET record_reads = 'aggregate' WHERE name = 'cms'",
        "INSERT INTO tenants (name, created_ms) VALUES ('over', 1)",
        "UPDATE quota_accounts SET limits = replace(limits, '12.5', '99') WHERE account = " +
          "'tenant:cms'",
        'UPDATE quota_accounts SET limits = \'{"requests":{"day":9}}\' WHERE account LIKE \'%bob\'',
      ]) {
        expect(await catalog.run(sql), sql).toBeGreaterThan(0);
      }
    });
    said = await verify(copy);
  });

  it.each([
    ['a role that was raised', /principal cms\/alice: its role is not what record/],
    ['one who was made active', /principal cms\/bob: its active is not what record/],
    ['a member who was added', /principal cms\/bob: its groups is not what record/],
    ['a principal who was added', /principal cms\/mallory: no record made it/],
    ['a group that was put back', /group cms\/gone: no record made it/],
    ['a key of another', /access key \S+: its owner is not what record/],
    ['a public key of another', /public key \S+: its owner is not what record/],
    ['a grant that was widened', /grant cms\/added-to: its rule is not what record/],
    ['one that its record names by a digest', /grant cms\/long: its rule is not what record/],
    ['one that was deleted', /grant cms\/back: it is missing, and record/],
    ['one that was added', /grant cms\/new: no record made it/],
    ['a mount that leads elsewhere', /mount cms\/theirs: its rule is not what record/],
    ["a principal's mount", /mount cms\/alice\/own: its rule is not what record/],
    ['one that is not there', /mount cms\/alice\/hidden: it is missing, and record/],
    ['who may mount', /tenant cms: its membersMountBuckets is not what record/],
    ['another issuer', /issuer cms\/iam: its rule is not what record/],
    ['a target that leads elsewhere', /target cms\/hook: its rule is not what record/],
    ['another storage class', /storage class cms\/derived: its rule is not what record/],
    ["a tenant's settings", /tenant cms: its recordReads is not what record/],
    ['a tenant that was put back', /tenant over: no record made it/],
    ['a limit that was taken away', /limits of principal:cms\/bob: no record made it/],
    ['a limit that was raised', /limits of tenant:cms: its amounts is not what record/],
  ])('tells %s', (_, difference) => {
    expect(said.stdout).toMatch(difference);
    expect(said.code).toBe(1);
  });

  it('tells nothing of what was not altered', () => {
    expect(said.stdout).not.toMatch(/grant cms\/kept|group cms\/staff/);
  });
});

describe('of what prefixes and writers with limits store', () => {
  const limited = ['prefix:default/data/o', 'writer:default/admin', 'writer:default/data/cms/x'];
  let folder: string;
  beforeAll(async () => {
    takeCopy();
    folder = join(place.folder, 'limited');
    cpSync(copy, folder, { recursive: true });
    await serving(folder, async (client) => {
      for (const account of limited) {
        await call(client, 'PUT', `limits/${account}`, { storedBytes: { total: 1000 } });
      }
      await send(client, 'PUT', '/data/other', { body: 'of root' });
    });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('nothing is told where all of it is there', async () => {
    const said = await verify(folder);
    expect([said.code, said.stderr]).toEqual([0, '']);
  });

  it('what is not there any more is told by account', async () => {
    const catalog = new CatalogEditor(folder);
    await catalog.run("DELETE FROM versions WHERE key = 'other'");
    catalog.close();
    const said = await verify(folder);
    const told = (account: string) =>
      expect(said.stdout).toMatch(
        new RegExp(`what is there of ${account}: its storedObjects is 1, and the records say 2`),
      );
    for (const account of limited.slice(0, 2)) told(account);
    expect(said.stdout).not.toContain(limited[2]);
  });
});
