// Identity changes and the directory, on a real SQLite file with the ledger's schema.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { accessKeyContext } from '#bursar/authz/key-rows.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { Keyring } from '#bursar/core/keyring.js';
import { accessKeysPerPrincipalMax } from '#bursar/core/limits.js';
import { Sealer } from '#bursar/core/sealing.js';
import { type IdentityChange, identityCommandOf } from '#bursar/ledger/commands/identities.js';
import { schema } from '#bursar/ledger/schema.js';
import { Directory } from '#bursar/state/directory.js';
import { ToldMemory } from '../../state/told-memory.ts';

let folder: string;
let db: OpenDatabase;
let sealer: Sealer;
let directory: Directory;
let memory: ToldMemory;
let clockMs = 1_000;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-identity-'));
  db = openDatabase(join(folder, 'test.db'), { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  sealer = new Sealer(new Keyring([{ epoch: 1, key: Buffer.alloc(32, 7) }]));
  memory = new ToldMemory();
  directory = new Directory({ read: db.tx, sealer, followed: memory });
  memory.projections.push(directory);
  await apply(rootKey('ROOT', 'root secret'));
});

afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true });
});

/** Applies as the ledger does: in a transaction that is committed whatever the verdict is. */
async function apply(change: IdentityChange) {
  return memory.change(db.tx, change, async () => {
    db.exec('BEGIN IMMEDIATE');
    const moment = { timeMs: clockMs++, seq: 0 };
    const verdict = await identityCommandOf(change).apply(db.tx, structuredClone(change), moment);
    db.exec('COMMIT');
    return verdict;
  });
}

/** Tells of a change of keys that no ledger has made. */
function tellOfKeys(): Promise<void> {
  return memory.tell({ kind: 'accessKey', id: 'any' });
}

const ok = { ok: true };
const refused = (code: string) => ({ ok: false, code });

function rootKey(id: string, secret: string): IdentityChange {
  const context = accessKeyContext('default', 'admin', id);
  const sealedSecret = sealer.seal(Buffer.from(secret), context);
  return { kind: 'putRootKey', id, sealedSecret };
}

function tenant(name: string): IdentityChange {
  return { kind: 'createTenant', name, membersCreateBuckets: true };
}

function principal(tenantName: string, name: string, extra: object = {}): IdentityChange {
  const base = { kind: 'createPrincipal', principalKind: 'person', role: 'member' } as const;
  return { ...base, groups: [], tenant: tenantName, name, ...extra };
}

function accessKey(tenantName: string, name: string, id: string): IdentityChange {
  const context = accessKeyContext(tenantName, name, id);
  const sealedSecret = sealer.seal(Buffer.from(`secret of ${id}`), context);
  return { kind: 'createAccessKey', tenant: tenantName, principal: name, id, sealedSecret };
}

async function addBucket(tenantName: string, owner: string) {
  const sql = 'INSERT INTO buckets (tenant, name, owner, created_ms) VALUES (?, ?, ?, 0)';
  await db.tx.run(sql, tenantName, 'data', owner);
}

/** Every row that identity changes can touch, to show that a refusal changed none. */
async function dump(): Promise<string> {
  const tables = [
    'tenants',
    'principals',
    'groups',
    'group_members',
    'access_keys',
    'retired_tenants',
  ];
  const rows: unknown[] = [];
  for (const table of tables) rows.push(await db.tx.all(`SELECT * FROM ${table}`));
  return JSON.stringify(rows);
}

async function expectRefused(change: IdentityChange, code: string) {
  const before = await dump();
  expect(await apply(change)).toEqual(refused(code));
  expect(await dump()).toBe(before);
}

describe('tenants', () => {
  test('a created tenant is there with its setting', async () => {
    expect(
      await apply({ ...tenant('cms'), membersCreateBuckets: false } as IdentityChange),
    ).toMatchObject(ok);
    expect(await directory.readTenant('cms')).toMatchObject({ membersCreateBuckets: false });
  });

  test('a name that exists is refused', async () => {
    await apply(tenant('cms'));
    await expectRefused(tenant('cms'), 'AlreadyExists');
  });

  test('the name of a deleted tenant is never given again', async () => {
    await apply(tenant('cms'));
    expect(await apply({ kind: 'deleteTenant', name: 'cms' })).toMatchObject(ok);
    await expectRefused(tenant('cms'), 'AlreadyExists');
  });

  test('a deleted tenant leaves no principal, group, membership or working key', async () => {
    await apply(tenant('cms'));
    await apply({ kind: 'createGroup', tenant: 'cms', name: 'muons' });
    await apply(principal('cms', 'alice', { groups: ['muons'] }));
    await apply(accessKey('cms', 'alice', 'KEY1'));
    expect(await apply({ kind: 'deleteTenant', name: 'cms' })).toMatchObject(ok);
    expect(await directory.findAccessKey('KEY1')).toBeUndefined();
    expect(await directory.readPrincipal('cms', 'alice')).toBeUndefined();
    expect(await directory.readGroup('cms', 'muons')).toBeUndefined();
    expect(await db.tx.all("SELECT 1 FROM group_members WHERE tenant = 'cms'")).toEqual([]);
  });

  test('a tenant that owns a bucket, and the default one, cannot be deleted', async () => {
    await apply(tenant('cms'));
    await apply(principal('cms', 'alice'));
    await addBucket('cms', 'alice');
    await expectRefused({ kind: 'deleteTenant', name: 'cms' }, 'InUse');
    await expectRefused({ kind: 'deleteTenant', name: 'default' }, 'InUse');
  });

  test('a missing tenant can be neither changed nor deleted', async () => {
    const update = { kind: 'updateTenant', name: 'nobody', membersCreateBuckets: true } as const;
    await expectRefused(update, 'NoSuchTenant');
    await expectRefused({ kind: 'deleteTenant', name: 'nobody' }, 'NoSuchTenant');
  });

  test("a changed setting reaches the principals' next authentication", async () => {
    await apply({ kind: 'updateTenant', name: 'default', membersCreateBuckets: false });
    const key = await directory.findAccessKey('ROOT');
    expect(key?.principal.membersCreateBuckets).toBe(false);
  });
});

describe('principals and groups', () => {
  beforeEach(async () => {
    await apply(tenant('cms'));
    await apply({ kind: 'createGroup', tenant: 'cms', name: 'muons' });
    await apply({ kind: 'createGroup', tenant: 'cms', name: 'shifters' });
  });

  test('a principal is listed with its groups, in order', async () => {
    const groups = ['shifters', 'muons', 'shifters'];
    expect(await apply(principal('cms', 'alice', { groups }))).toMatchObject(ok);
    await apply(
      principal('cms', 'bob', { principalKind: 'robot', role: 'auditor', groups: ['muons'] }),
    );
    const entries = await directory.listPrincipals('cms', { after: '', limit: 10 });
    expect(entries).toMatchObject([
      { name: 'alice', kind: 'person', role: 'member', groups: ['muons', 'shifters'] },
      { name: 'bob', kind: 'robot', role: 'auditor', groups: ['muons'] },
    ]);
    expect(await directory.listGroupMembers('cms', 'muons')).toEqual(['alice', 'bob']);
  });

  test('a listing goes on after the last name of the page before', async () => {
    for (const name of ['a', 'b', 'c']) await apply(principal('cms', name));
    const first = await directory.listPrincipals('cms', { after: '', limit: 2 });
    const second = await directory.listPrincipals('cms', { after: 'b', limit: 2 });
    expect([...first, ...second].map((entry) => entry.name)).toEqual(['a', 'b', 'c']);
  });

  test('a principal needs its tenant, a free name and existing groups', async () => {
    await apply(principal('cms', 'alice'));
    await expectRefused(principal('atlas', 'alice'), 'NoSuchTenant');
    await expectRefused(principal('cms', 'alice'), 'AlreadyExists');
    await expectRefused(principal('cms', 'bob', { groups: ['muons', 'taus'] }), 'NoSuchGroup');
  });

  test('an update replaces the role and the set of groups, each only if given', async () => {
    await apply(principal('cms', 'alice', { groups: ['muons'] }));
    const update = { kind: 'updatePrincipal', tenant: 'cms', name: 'alice' } as const;
    await apply({ ...update, role: 'admin' });
    expect(await directory.readPrincipal('cms', 'alice')).toMatchObject({
      role: 'admin',
      groups: ['muons'],
    });
    await apply({ ...update, groups: ['shifters'] });
    expect(await directory.readPrincipal('cms', 'alice')).toMatchObject({
      role: 'admin',
      groups: ['shifters'],
    });
  });

  test('an update of nobody, or into a missing group, is refused whole', async () => {
    await apply(principal('cms', 'alice'));
    const update = { kind: 'updatePrincipal', tenant: 'cms', role: 'admin' } as const;
    await expectRefused({ ...update, name: 'bob' }, 'NoSuchPrincipal');
    await expectRefused({ ...update, tenant: 'atlas', name: 'bob' }, 'NoSuchTenant');
    await expectRefused({ ...update, name: 'alice', groups: ['taus'] }, 'NoSuchGroup');
  });

  test('a principal that owns a bucket cannot be deleted; another can, with its keys', async () => {
    await apply(principal('cms', 'alice'));
    await apply(principal('cms', 'bob', { groups: ['muons'] }));
    await apply(accessKey('cms', 'bob', 'KEY1'));
    await addBucket('cms', 'alice');
    await expectRefused({ kind: 'deletePrincipal', tenant: 'cms', name: 'alice' }, 'InUse');
    expect(await apply({ kind: 'deletePrincipal', tenant: 'cms', name: 'bob' })).toMatchObject(ok);
    expect(await directory.findAccessKey('KEY1')).toBeUndefined();
    expect(await directory.listGroupMembers('cms', 'muons')).toEqual([]);
    const gone = { kind: 'deletePrincipal', tenant: 'cms', name: 'bob' } as const;
    await expectRefused(gone, 'NoSuchPrincipal');
    await expectRefused({ ...gone, tenant: 'atlas' }, 'NoSuchTenant');
  });

  test('groups: taken and missing names are refused, members survive a deletion', async () => {
    await expectRefused({ kind: 'createGroup', tenant: 'cms', name: 'muons' }, 'AlreadyExists');
    await expectRefused({ kind: 'createGroup', tenant: 'atlas', name: 'muons' }, 'NoSuchTenant');
    await expectRefused({ kind: 'deleteGroup', tenant: 'cms', name: 'taus' }, 'NoSuchGroup');
    await expectRefused({ kind: 'deleteGroup', tenant: 'atlas', name: 'taus' }, 'NoSuchTenant');
    await apply(principal('cms', 'alice', { groups: ['muons'] }));
    expect(await apply({ kind: 'deleteGroup', tenant: 'cms', name: 'muons' })).toMatchObject(ok);
    expect(await directory.readPrincipal('cms', 'alice')).toMatchObject({ groups: [] });
  });
});

describe('access keys', () => {
  beforeEach(async () => {
    await apply(tenant('cms'));
    await apply(principal('cms', 'alice'));
  });

  test('a key is found with its secret and principal, and no secret is in the file', async () => {
    expect(await apply(accessKey('cms', 'alice', 'KEY1'))).toMatchObject(ok);
    expect(await directory.findAccessKey('KEY1')).toMatchObject({
      id: 'KEY1',
      secret: 'secret of KEY1',
      principal: { id: 'cms/alice', role: 'member', membersCreateBuckets: true },
    });
    const row = await db.tx.get<{ sealed_secret: Buffer }>(
      "SELECT sealed_secret FROM access_keys WHERE id = 'KEY1'",
    );
    expect(row?.sealed_secret.includes('secret')).toBe(false);
    const listed = await directory.listAccessKeys('cms', 'alice', { after: '', limit: 10 });
    expect(listed.map((entry) => Object.keys(entry))).toEqual([
      ['id', 'thumbprint', 'active', 'createdMs'],
    ]);
  });

  test('a SigV4A key is found with its public half, while that is active', async () => {
    const { publicKey } = generatePrivateKey('ES256');
    const { thumbprint } = publicKey;
    const owner = { tenant: 'cms', principal: 'alice' };
    await apply({
      kind: 'createPublicKey',
      ...{ ...owner, thumbprint, jwk: JSON.stringify(publicKey.jwk), proof: 'a proof' },
      ...{ purpose: 'sigv4a', accessKeyId: 'AKIA1' },
    });
    const found = { secret: null, publicKey: { thumbprint }, principal: { id: 'cms/alice' } };
    expect(await directory.findAccessKey('AKIA1')).toMatchObject(found);

    await apply({ kind: 'updatePublicKey', ...owner, thumbprint, active: false });
    expect(await directory.findAccessKey('AKIA1')).toBeUndefined();
    await apply({ kind: 'updatePublicKey', ...owner, thumbprint, active: true });
    expect(await directory.findAccessKey('AKIA1')).toMatchObject(found);

    await apply(principal('cms', 'eve'));
    for (const moved of ["purpose = 'token'", "purpose = 'sigv4a', principal = 'eve'"]) {
      await db.tx.run(`UPDATE public_keys SET ${moved}`);
      await tellOfKeys();
      expect(await directory.findAccessKey('AKIA1')).toBeUndefined();
    }
  });

  test("a sealed secret moved to another principal's row does not open", async () => {
    await apply(accessKey('cms', 'alice', 'KEY1'));
    await apply(principal('cms', 'eve'));
    await db.tx.run("UPDATE access_keys SET principal = 'eve' WHERE id = 'KEY1'");
    await expect(directory.findAccessKey('KEY1')).rejects.toThrow('does not open');
  });

  test('a key needs its principal and an id that nobody has', async () => {
    await apply(accessKey('cms', 'alice', 'KEY1'));
    await expectRefused(accessKey('cms', 'bob', 'KEY2'), 'NoSuchPrincipal');
    await expectRefused(accessKey('atlas', 'bob', 'KEY2'), 'NoSuchTenant');
    await expectRefused(accessKey('cms', 'alice', 'KEY1'), 'AlreadyExists');
    await expectRefused(accessKey('cms', 'alice', 'ROOT'), 'AlreadyExists');
  });

  test('a principal holds a bounded number of keys', async () => {
    for (let i = 0; i < accessKeysPerPrincipalMax; i++) {
      expect(await apply(accessKey('cms', 'alice', `KEY${i}`))).toMatchObject(ok);
    }
    await expectRefused(accessKey('cms', 'alice', 'ONEMORE'), 'TooManyAccessKeys');
  });

  test("a key is deleted only under its own principal's name", async () => {
    await apply(accessKey('cms', 'alice', 'KEY1'));
    await apply(principal('cms', 'bob'));
    const deletion = {
      kind: 'deleteAccessKey',
      tenant: 'cms',
      principal: 'bob',
      id: 'KEY1',
    } as const;
    await expectRefused(deletion, 'NoSuchAccessKey');
    await expectRefused({ ...deletion, principal: 'carol' }, 'NoSuchPrincipal');
    await expectRefused({ ...deletion, tenant: 'atlas' }, 'NoSuchTenant');
    expect(await apply({ ...deletion, principal: 'alice' })).toMatchObject(ok);
    expect(await directory.findAccessKey('KEY1')).toBeUndefined();
  });
});

describe('the last operator', () => {
  const demotion = {
    kind: 'updatePrincipal',
    tenant: 'default',
    name: 'admin',
    role: 'admin',
  } as const;
  const deletion = { kind: 'deletePrincipal', tenant: 'default', name: 'admin' } as const;
  const keyDeletion = {
    kind: 'deleteAccessKey',
    tenant: 'default',
    principal: 'admin',
    id: 'ROOT',
  } as const;

  test('can be neither demoted nor deleted nor lose its last key', async () => {
    for (const change of [demotion, deletion, keyDeletion]) await expectRefused(change, 'InUse');
  });

  test('is not saved by an operator who has no access key', async () => {
    await apply(principal('default', 'other', { role: 'operator' }));
    for (const change of [demotion, deletion, keyDeletion]) await expectRefused(change, 'InUse');
  });

  test('may go once another operator has an access key', async () => {
    await apply(principal('default', 'other', { role: 'operator' }));
    await apply(accessKey('default', 'other', 'OTHER'));
    for (const change of [keyDeletion, demotion, deletion])
      expect(await apply(change)).toMatchObject(ok);
    expect(await directory.hasOperatorKey()).toBe(true);
  });

  test('keeps its tenant from being deleted', async () => {
    await apply(tenant('ops'));
    await apply(principal('ops', 'boss', { role: 'operator' }));
    await apply(accessKey('ops', 'boss', 'BOSS'));
    await apply(deletion);
    await expectRefused({ kind: 'deleteTenant', name: 'ops' }, 'InUse');
  });
});

describe('the root key', () => {
  test('makes tenant default with operator admin, whose key works', async () => {
    expect(await directory.findAccessKey('ROOT')).toMatchObject({
      secret: 'root secret',
      principal: { id: 'default/admin', role: 'operator' },
    });
  });

  test('put again with the same values changes nothing but its time', async () => {
    expect(await apply(rootKey('ROOT', 'root secret'))).toMatchObject(ok);
    const keys = await directory.listAccessKeys('default', 'admin', { after: '', limit: 10 });
    expect(keys.map((key) => key.id)).toEqual(['ROOT']);
    expect(await directory.findAccessKey('ROOT')).toMatchObject({ secret: 'root secret' });
  });

  test('replaces a former one, which stops working', async () => {
    expect(await apply(rootKey('NEW', 'new secret'))).toMatchObject(ok);
    expect(await directory.findAccessKey('ROOT')).toBeUndefined();
    expect(await directory.findAccessKey('NEW')).toMatchObject({ secret: 'new secret' });
  });

  test('replaces a secret under the same id', async () => {
    await apply(rootKey('ROOT', 'new secret'));
    expect(await directory.findAccessKey('ROOT')).toMatchObject({ secret: 'new secret' });
  });

  test('makes an admin who was demoted an operator again', async () => {
    await apply(principal('default', 'other', { role: 'operator' }));
    await apply(accessKey('default', 'other', 'OTHER'));
    await apply({ kind: 'deletePrincipal', tenant: 'default', name: 'admin' });
    await apply(principal('default', 'admin'));
    await apply(rootKey('ROOT', 'root secret'));
    expect((await directory.findAccessKey('ROOT'))?.principal.role).toBe('operator');
  });

  test("is refused when its id is somebody else's", async () => {
    await apply(principal('default', 'other'));
    await apply(accessKey('default', 'other', 'OTHER'));
    await expectRefused(rootKey('OTHER', 'root secret'), 'AlreadyExists');
  });
});

describe('the memory of the directory', () => {
  test('answers from memory until it is told of a change', async () => {
    await directory.findAccessKey('ROOT');
    await directory.findAccessKey('LATER');
    await db.tx.run("UPDATE access_keys SET id = 'LATER' WHERE id = 'ROOT'");
    expect(await directory.findAccessKey('ROOT')).toBeDefined();
    expect(await directory.findAccessKey('LATER')).toBeUndefined();
    await tellOfKeys();
    expect(await directory.findAccessKey('ROOT')).toBeUndefined();
  });

  test('does not keep what was read before a change that came meanwhile', async () => {
    const reading = directory.findAccessKey('ROOT');
    await db.tx.run("DELETE FROM access_keys WHERE id = 'ROOT'");
    await tellOfKeys();
    await reading;
    expect(await directory.findAccessKey('ROOT')).toBeUndefined();
  });

  test('is not emptied of real keys by floods of unknown ids', async () => {
    await directory.findAccessKey('ROOT');
    for (let i = 0; i < 20_000; i++) await directory.findAccessKey(`UNKNOWN${i}`);
    await db.tx.run("DELETE FROM access_keys WHERE id = 'ROOT'");
    expect(await directory.findAccessKey('ROOT')).toBeDefined();
  });
});
