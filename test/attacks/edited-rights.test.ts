// Who edits the database gains nothing: every row that says who there is, who may what and how much
// is changed behind the gateway's back, while it serves and while it does not. Each edit is said by
// name and refused, and those whom it does not concern are served.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { SqlValue } from '#bursar/core/database.js';
import {
  type Answer,
  as,
  callNative,
  exchange,
  findRecords,
  type Message,
  newPrincipal,
  send,
  type Target,
} from '../protocol/target.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import {
  environmentWithoutSettings,
  type ServedGateway,
  startServedGateway,
} from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

/** Who is in the tenant of one attack. */
interface Place {
  tenant: string;
  bucket: string;
  /** Owns the bucket. */
  alice: Target;
  /** May nothing in it. */
  mallory: Target;
  /** Of the tenant. */
  boss: Target;
  operator: Target;
  /** What the preparation gave. */
  made: Record<string, string>;
  /** Rows that are to be put back. */
  kept: Record<string, Record<string, unknown>>;
}

interface Attack {
  name: string;
  /** What the gateway is told of the tenant before. */
  prepare?: (place: Place, catalog: CatalogEditor) => Promise<unknown>;
  edit: (catalog: CatalogEditor, place: Place) => Promise<number>;
  /** What would work now, had the edit an effect. */
  attempt: (place: Place) => Promise<Answer>;
  /** How it is said. */
  said: (place: Place) => string;
}

const get = (path: string): Message => ({ method: 'GET', path });
const read = ({ mallory, bucket }: Place) => send(mallory, get(`/${bucket}/k`));
const grants = ({ tenant }: Place) => `/_/v1/tenants/${tenant}/grants`;

const grantToMallory = (place: Place, more: object = {}) => ({
  ...{ effect: 'allow', subjects: [`principal:${place.tenant}/mallory`], bucket: place.bucket },
  ...{ actions: ['s3:GetObject'], ...more },
});

async function keep(place: Place, catalog: CatalogEditor, tables: string[]): Promise<void> {
  for (const table of tables) {
    const column = table === 'seals' ? "tbl = 'grants' AND tenant" : 'tenant';
    const sql = `SELECT * FROM ${table} WHERE ${column} = ?`;
    place.kept[table] = (await catalog.get(sql, place.tenant)) as Record<string, unknown>;
  }
}

async function putBack({ kept }: Place, catalog: CatalogEditor, table: string): Promise<number> {
  const row = kept[table] as Record<string, string>;
  const columns = Object.keys(row);
  const marks = columns.map(() => '?').join(', ');
  const sql = `INSERT OR REPLACE INTO ${table} (${columns.join(', ')}) VALUES (${marks})`;
  return catalog.run(sql, ...Object.values(row));
}

/**
 * Gives each of two rows what the other has, but for some columns; gives 1 where both have changed.
 */
async function swap(
  catalog: CatalogEditor,
  { table, key, names, not }: { table: string; key: string; names: string[]; not: string[] },
): Promise<number> {
  const rows: Record<string, SqlValue>[] = [];
  for (const name of names) {
    const row = await catalog.get<Record<string, SqlValue>>(
      `SELECT * FROM ${table} WHERE ${key} = ?`,
      name,
    );
    if (!row) throw new Error(`${table} has no ${name}`);
    rows.push(row);
  }
  let changed = 0;
  for (const [i, name] of names.entries()) {
    const other = rows[1 - i] as Record<string, SqlValue>;
    const columns = Object.keys(other).filter((column) => column !== key && !not.includes(column));
    const set = columns.map((column) => `${column} = ?`).join(', ');
    const values = columns.map((column) => other[column] ?? null);
    changed += await catalog.run(`UPDATE ${table} SET ${set} WHERE ${key} = ?`, ...values, name);
  }
  return changed / 2;
}

const attacks: Attack[] = [
  {
    name: 'a role is raised',
    edit: (catalog, { tenant }) =>
      catalog.run(
        "UPDATE principals SET role = 'operator' WHERE tenant = ? AND name = 'mallory'",
        tenant,
      ),
    attempt: ({ mallory }) => send(mallory, get('/_/v1/tenants')),
    said: ({ tenant }) => `principal ${tenant}/mallory is not what was stored`,
  },
  {
    name: 'a key is given to another principal',
    edit: (catalog, { tenant, mallory }) =>
      catalog.run(
        "UPDATE access_keys SET principal = 'alice' WHERE tenant = ? AND id = ?",
        ...[tenant, mallory.keys.accessKeyId],
      ),
    attempt: read,
    said: ({ tenant, mallory }) =>
      `access key ${tenant}/alice/${mallory.keys.accessKeyId} was not stored by the gateway`,
  },
  {
    name: 'a grant is added',
    edit: (catalog, place) =>
      catalog.run(
        "INSERT INTO grants VALUES (?, 'added', ?, 1)",
        ...[place.tenant, JSON.stringify({ name: 'added', ...grantToMallory(place) })],
      ),
    attempt: read,
    said: ({ tenant }) => `grant ${tenant}/added was not stored by the gateway`,
  },
  {
    name: 'a grant that denies is removed',
    prepare: async (place) => {
      const deny = grantToMallory(place, { effect: 'deny' });
      await callNative(place.operator, 'PUT', `${grants(place)}/yes`, grantToMallory(place));
      await callNative(place.operator, 'PUT', `${grants(place)}/no`, deny);
    },
    edit: (catalog, { tenant }) =>
      catalog.run("DELETE FROM grants WHERE tenant = ? AND name = 'no'", tenant),
    attempt: read,
    said: ({ tenant }) => `grant ${tenant}/no was removed, and not by the gateway`,
  },
  {
    name: 'a grant that denies is removed with its seal',
    prepare: async (place) => {
      const deny = grantToMallory(place, { effect: 'deny' });
      await callNative(place.operator, 'PUT', `${grants(place)}/yes`, grantToMallory(place));
      await callNative(place.operator, 'PUT', `${grants(place)}/no`, deny);
    },
    edit: async (catalog, { tenant }) =>
      (await catalog.run("DELETE FROM grants WHERE tenant = ? AND name = 'no'", tenant)) +
      (await catalog.run("DELETE FROM seals WHERE tenant = ? AND row = 'no'", tenant)) -
      1,
    attempt: read,
    said: ({ tenant }) => `what there is of tenant ${tenant} is not what was stored last`,
  },
  {
    name: 'a grant is widened',
    prepare: async (place) => {
      const narrow = grantToMallory(place, { prefix: 'in/' });
      await callNative(place.operator, 'PUT', `${grants(place)}/some`, narrow);
    },
    edit: (catalog, { tenant }) =>
      catalog.run(
        `UPDATE grants SET rule = replace(rule, '"in/"', '""') WHERE tenant = ?
           AND instr(rule, '"in/"')`,
        tenant,
      ),
    attempt: read,
    said: ({ tenant }) => `grant ${tenant}/some is not what was stored`,
  },
  {
    name: 'a grant that was deleted is put back with its seal',
    prepare: async (place, catalog) => {
      await callNative(place.operator, 'PUT', `${grants(place)}/gone`, grantToMallory(place));
      await keep(place, catalog, ['grants', 'seals']);
      await callNative(place.operator, 'DELETE', `${grants(place)}/gone`);
    },
    edit: async (catalog, place) =>
      (await putBack(place, catalog, 'grants')) + (await putBack(place, catalog, 'seals')) - 1,
    attempt: read,
    said: ({ tenant }) => `what there is of tenant ${tenant} is not what was stored last`,
  },
  {
    name: 'two grants are exchanged, with their seals',
    prepare: async (place) => {
      const deny = grantToMallory(place, { effect: 'deny' });
      const other = grantToMallory(place, { bucket: 'elsewhere' });
      await callNative(place.operator, 'PUT', `${grants(place)}/a`, deny);
      await callNative(place.operator, 'PUT', `${grants(place)}/b`, other);
      await callNative(place.operator, 'PUT', `${grants(place)}/yes`, grantToMallory(place));
    },
    edit: async (catalog, { tenant }) => {
      const names = ['a', 'b'].map((name) => `${tenant}/${name}`);
      const rows = { table: 'grants', key: "tenant || '/' || name", names };
      const seals = { table: 'seals', key: "tenant || '/' || row", names };
      const exchanged = await swap(catalog, { ...rows, not: ['tenant', 'name'] });
      return exchanged * (await swap(catalog, { ...seals, not: ['tbl', 'tenant', 'row'] }));
    },
    attempt: read,
    said: ({ tenant }) => `grant ${tenant}/a is not what was stored`,
  },
  {
    name: 'two principals exchange their roles, with their seals',
    edit: async (catalog, { tenant }) => {
      const names = ['boss', 'mallory'].map((name) => `${tenant}/${name}`);
      const rows = { table: 'principals', key: "tenant || '/' || name", names };
      const seals = { table: 'seals', key: "tenant || '/' || row", names };
      const exchanged = await swap(catalog, { ...rows, not: ['tenant', 'name'] });
      return exchanged * (await swap(catalog, { ...seals, not: ['tbl', 'tenant', 'row'] }));
    },
    attempt: ({ mallory, tenant }) => send(mallory, get(`/_/v1/tenants/${tenant}/principals`)),
    said: ({ tenant }) => `principal ${tenant}/mallory is not what was stored`,
  },
  {
    name: 'what a bucket is charged for storage is made less',
    prepare: ({ alice, bucket }) =>
      send(alice, { method: 'PUT', path: `/${bucket}/stored`, body: 'x'.repeat(1000) }),
    edit: (catalog, { bucket }) =>
      catalog.run('UPDATE quota_storage SET at_ms = at_ms + 3600000 WHERE bucket = ?', bucket),
    attempt: read,
    said: ({ tenant, bucket }) =>
      `what bucket ${tenant}/${bucket} is charged for STANDARD is not what was stored`,
  },
  {
    name: 'a member is added to a group',
    prepare: async (place) => {
      const { operator, tenant } = place;
      await callNative(operator, 'POST', `/_/v1/tenants/${tenant}/groups`, { name: 'readers' });
      const grant = grantToMallory(place, { subjects: [`group:${tenant}/readers`] });
      await callNative(operator, 'PUT', `${grants(place)}/group`, grant);
    },
    edit: (catalog, { tenant }) =>
      catalog.run("INSERT INTO group_members VALUES (?, 'readers', 'mallory')", tenant),
    attempt: read,
    said: ({ tenant }) =>
      `member of a group ${tenant}/mallory/readers was not stored by the gateway`,
  },
  {
    name: 'a limit is raised',
    prepare: async ({ operator, tenant, alice, bucket }) => {
      const limits = { requests: { month: 1 } };
      await callNative(operator, 'PUT', `/_/v1/limits/tenant:${tenant}`, limits);
      await send(alice, get(`/${bucket}/k`));
    },
    edit: (catalog, { tenant }) =>
      catalog.run(
        "UPDATE quota_accounts SET limits = replace(limits, '1', '1000') WHERE account = ?",
        `tenant:${tenant}`,
      ),
    attempt: ({ alice, bucket }) => send(alice, get(`/${bucket}/k`)),
    said: ({ tenant }) => `limits of ${tenant}/tenant:${tenant} is not what was stored`,
  },
  {
    name: 'what was used is forgotten',
    prepare: async ({ operator, tenant, alice, bucket }) => {
      const limits = { requests: { total: 1 } };
      await callNative(operator, 'PUT', `/_/v1/limits/tenant:${tenant}`, limits);
      await send(alice, get(`/${bucket}/k`));
    },
    edit: (catalog, { tenant }) =>
      catalog.run(
        "UPDATE quota_accounts SET used_requests = 0, used_spend = '0' WHERE account = ?",
        `tenant:${tenant}`,
      ),
    attempt: ({ alice, bucket }) => send(alice, get(`/${bucket}/k`)),
    said: ({ tenant }) => `what tenant:${tenant} has used is not what was stored`,
  },
  {
    name: 'what two accounts have used is exchanged, with its MACs',
    prepare: async ({ operator, tenant, alice, bucket }) => {
      const limits = { requests: { total: 1 } };
      await callNative(operator, 'PUT', `/_/v1/limits/tenant:${tenant}`, limits);
      await send(alice, get(`/${bucket}/k`));
    },
    edit: (catalog, { tenant, bucket }) =>
      swap(catalog, {
        ...{ table: 'quota_accounts', key: 'account', not: ['limits'] },
        names: [`tenant:${tenant}`, `bucket:${tenant}/${bucket}`],
      }),
    attempt: ({ alice, bucket }) => send(alice, get(`/${bucket}/k`)),
    said: ({ tenant }) => `what tenant:${tenant} has used is not what was stored`,
  },
  {
    name: 'an account with a limit is removed',
    prepare: async ({ operator, tenant, alice, bucket }) => {
      const limits = { requests: { month: 1 } };
      await callNative(operator, 'PUT', `/_/v1/limits/tenant:${tenant}`, limits);
      await send(alice, get(`/${bucket}/k`));
    },
    edit: (catalog, { tenant }) =>
      catalog.run('DELETE FROM quota_accounts WHERE account = ?', `tenant:${tenant}`),
    attempt: ({ alice, bucket }) => send(alice, get(`/${bucket}/k`)),
    said: ({ tenant }) =>
      `limits of ${tenant}/tenant:${tenant} was removed, and not by the gateway`,
  },
  {
    name: 'the revocation of a token is deleted',
    prepare: async ({ alice, made }) => {
      const asked = { scope: 'storage.read:/', expiresIn: 3600 };
      const { token, jti } = await callNative(alice, 'POST', '/_/v1/tokens', asked);
      await callNative(alice, 'DELETE', `/_/v1/tokens/${jti}`);
      made.token = token;
      made.jti = jti;
    },
    edit: (catalog, { tenant }) => catalog.run('DELETE FROM revocations WHERE tenant = ?', tenant),
    attempt: ({ alice, bucket, made }) =>
      exchange(alice, 'GET', `/${bucket}/k`, { authorization: `Bearer ${made.token}` }),
    said: ({ tenant, made }) =>
      `revocation ${tenant}/alice/${made.jti} was removed, and not by the gateway`,
  },
  {
    name: 'the revocation of a share link is deleted',
    prepare: async ({ alice, bucket, made }) => {
      const asked = { bucket, key: 'k', expiresIn: 3600 };
      const { url, id } = await callNative(alice, 'POST', '/_/v1/shares', asked);
      await callNative(alice, 'DELETE', `/_/v1/shares/${id}`);
      made.path = new URL(url).pathname;
      made.id = id;
    },
    edit: (catalog, { tenant }) => catalog.run('DELETE FROM revocations WHERE tenant = ?', tenant),
    attempt: ({ alice, made }) => exchange(alice, 'GET', made.path ?? ''),
    said: ({ tenant, made }) =>
      `revocation ${tenant}/alice/${made.id} was removed, and not by the gateway`,
  },
  {
    name: 'a share link is given its downloads back',
    prepare: async ({ alice, bucket, made }) => {
      const asked = { bucket, key: 'k', expiresIn: 3600, downloads: 1 };
      const { url, id } = await callNative(alice, 'POST', '/_/v1/shares', asked);
      made.path = new URL(url).pathname;
      made.id = id;
      await exchange(alice, 'GET', made.path);
    },
    edit: (catalog, { tenant }) =>
      catalog.run("UPDATE tokens SET uses = 0 WHERE tenant = ? AND kind = 'share'", tenant),
    attempt: async ({ alice, made }) => {
      // Who does not know the secret is told nothing of the link, and waits for no verification.
      const guess = made.path?.replace(/[^.]+$/, 'a'.repeat(32)) ?? '';
      expect(await exchange(alice, 'GET', guess)).toMatchObject({ status: 404 });
      return exchange(alice, 'GET', made.path ?? '');
    },
    said: ({ tenant, made }) =>
      `token or share link ${tenant}/alice/${made.id} is not what was stored`,
  },
  ...[
    {
      name: 'the policy of a bucket is changed',
      set: (place: Place) => {
        const Principal = { AWS: `arn:aws:iam::${place.tenant}:user/mallory` };
        const Resource = [`arn:aws:s3:::${place.bucket}/*`];
        const statement = { Effect: 'Allow', Principal, Action: 's3:GetObject', Resource };
        const policy = { Version: '2012-10-17', Statement: [statement] };
        return `policy = '${JSON.stringify(policy)}'`;
      },
    },
    { name: 'the owner of a bucket is changed', set: () => "owner = 'mallory'" },
    { name: 'the public access of a bucket is changed', set: () => "public_access = '{}'" },
    { name: 'the lock default of a bucket is changed', set: () => "object_lock = '{}'" },
    { name: 'the versioning of a bucket is changed', set: () => "versioning = 'Suspended'" },
  ].map(
    ({ name, set }): Attack => ({
      name,
      edit: (catalog, place) =>
        catalog.run(`UPDATE buckets SET ${set(place)} WHERE name = ?`, place.bucket),
      attempt: read,
      said: ({ tenant, bucket }) => `bucket ${tenant}/${bucket} is not what was stored`,
    }),
  ),
  {
    name: 'a setting of a bucket is changed',
    prepare: ({ alice, bucket }) => {
      const tags = '<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>';
      const body = `<Tagging>${tags}</Tagging>`;
      return send(alice, { method: 'PUT', path: `/${bucket}`, query: [['tagging', '']], body });
    },
    edit: (catalog, { bucket }) =>
      catalog.run(
        `UPDATE bucket_settings SET document = '[["a","evil"]]'
           WHERE bucket_id = (SELECT id FROM buckets WHERE name = ?)`,
        bucket,
      ),
    attempt: ({ alice, bucket }) =>
      send(alice, { ...get(`/${bucket}`), query: [['tagging', '']] }).then((answer) =>
        // What it said before is as good as a refusal.
        answer.status === 200 && !answer.text.includes('evil')
          ? { ...answer, status: 403 }
          : answer,
      ),
    said: ({ tenant, bucket }) =>
      `setting of a bucket ${tenant}/${bucket}/tagging is not what was stored`,
  },
  {
    name: 'a mount is pointed elsewhere',
    prepare: async ({ operator, tenant }) => {
      const mount = { bucketTenant: 'calm', bucket: 'nothing' };
      await callNative(operator, 'PUT', `/_/v1/tenants/${tenant}/mounts/mounted`, mount);
    },
    edit: (catalog, { tenant, bucket }) =>
      catalog.run(
        'UPDATE mounts SET bucket_tenant = ?, bucket = ? WHERE tenant = ?',
        ...[tenant, bucket, tenant],
      ),
    attempt: ({ alice }) => send(alice, get('/mounted/k')),
    said: ({ tenant }) => `mount ${tenant}/mounted is not what was stored`,
  },
  {
    name: "a principal's own mount is pointed elsewhere",
    prepare: async ({ operator, tenant }) => {
      const mount = { bucketTenant: 'calm', bucket: 'nothing' };
      const path = `/_/v1/tenants/${tenant}/principals/alice/mounts/own`;
      await callNative(operator, 'PUT', path, mount);
    },
    edit: (catalog, { tenant, bucket }) =>
      catalog.run(
        'UPDATE own_mounts SET bucket_tenant = ?, bucket = ? WHERE tenant = ?',
        ...[tenant, bucket, tenant],
      ),
    attempt: ({ alice }) => send(alice, get('/own/k')),
    said: ({ tenant }) => `mount ${tenant}/alice/own is not what was stored`,
  },
  {
    name: 'the address of a webhook is changed',
    prepare: ({ operator, tenant }) =>
      callNative(operator, 'PUT', `/_/v1/tenants/${tenant}/alarm-hook`, {
        url: 'https://alarms.example.org/bursar',
      }),
    edit: (catalog, { tenant }) =>
      catalog.run(
        "UPDATE alarm_hooks SET url = 'https://evil.example.org' WHERE tenant = ?",
        tenant,
      ),
    attempt: ({ boss, tenant }) => send(boss, get(`/_/v1/tenants/${tenant}/alarm-hook`)),
    said: ({ tenant }) => `webhook ${tenant}/tenant:${tenant} is not what was stored`,
  },
  {
    name: 'a token is taken from the key that it was asked for with',
    prepare: async ({ alice, made }) => {
      const asked = { scope: 'storage.read:/', expiresIn: 3600 };
      const { token, jti } = await callNative(alice, 'POST', '/_/v1/tokens', asked);
      made.token = token;
      made.jti = jti;
    },
    edit: (catalog, { tenant }) =>
      catalog.run("UPDATE tokens SET access_key = 'AK0' WHERE tenant = ?", tenant),
    attempt: ({ alice, bucket, made }) =>
      exchange(alice, 'GET', `/${bucket}/k`, { authorization: `Bearer ${made.token}` }),
    said: ({ tenant, made }) =>
      `token or share link ${tenant}/alice/${made.jti} is not what was stored`,
  },
  {
    name: "an issuer's URL is changed",
    prepare: ({ operator, tenant }) =>
      callNative(operator, 'PUT', `/_/v1/tenants/${tenant}/issuers/iam`, {
        ...{ url: 'https://iam.example.org', audience: `bursar/${tenant}` },
        mapping: { pathPrefix: '/', defaultPrincipal: 'alice' },
      }),
    edit: (catalog, { tenant }) =>
      catalog.run("UPDATE issuers SET url = 'https://evil.example.org' WHERE tenant = ?", tenant),
    attempt: ({ boss, tenant }) => send(boss, get(`/_/v1/tenants/${tenant}/issuers/iam`)),
    said: ({ tenant }) => `issuer ${tenant}/iam is not what was stored`,
  },
  {
    name: 'a storage class is told to keep its copies elsewhere',
    prepare: ({ operator, tenant }) =>
      callNative(operator, 'POST', `/_/v1/tenants/${tenant}/classes`, {
        ...{ name: 'derived', durability: { legs: [{ store: 'local' }] } },
      }),
    edit: (catalog, { tenant }) =>
      catalog.run(
        "UPDATE classes SET definition = replace(definition, 'local', 'mine') WHERE tenant = ?",
        tenant,
      ),
    attempt: ({ boss, tenant }) => send(boss, get(`/_/v1/tenants/${tenant}/classes/derived`)),
    said: ({ tenant }) => `storage class ${tenant}/derived is not what was stored`,
  },
  {
    name: 'members of a tenant are let make buckets',
    edit: (catalog, { tenant }) =>
      catalog.run('UPDATE tenants SET members_create_buckets = 1 WHERE name = ?', tenant),
    attempt: ({ mallory, bucket }) => send(mallory, { method: 'PUT', path: `/${bucket}-new` }),
    said: ({ tenant }) => `tenant ${tenant} is not what was stored`,
  },
];

const main = resolve(import.meta.dirname, '../../app/main.js');

async function settle({ endpoint, accessKeyId, secretAccessKey }: ServedGateway): Promise<Target> {
  const keys = { accessKeyId, secretAccessKey };
  return { endpoint, keys, strayNames: () => [], stop: async () => {} };
}

/** A tenant with a bucket, its owner, an admin, and somebody who may nothing. */
async function settleTenant(operator: Target, tenant: string): Promise<Place> {
  const membersCreateBuckets = false;
  await callNative(operator, 'POST', '/_/v1/tenants', { name: tenant, membersCreateBuckets });
  const made = async (name: string, role: string) =>
    as(operator, await newPrincipal(operator, { tenant, name, role }));
  const alice = await made('alice', 'admin');
  const place = {
    ...{ tenant, bucket: `${tenant}-data`, alice, operator, made: {}, kept: {} },
    mallory: await made('mallory', 'member'),
    boss: await made('boss', 'admin'),
  };
  for (const path of [`/${place.bucket}`, `/${place.bucket}/k`]) {
    const { status } = await send(alice, { method: 'PUT', path });
    expect(status).toBe(200);
  }
  return place;
}

/** Of the last, what is in memory says it before anything is verified. */
const refusals = ['BursarIntegrityError', 'failed authentication', 'It was revoked.'];

/** Asks until the edit is refused as what it is; before that it must have no effect. */
async function untilRefused(attempt: () => Promise<Answer>): Promise<void> {
  const seen: string[] = [];
  await expect
    .poll(
      async () => {
        const { status, text } = await attempt();
        seen.push(`${status} ${text}`);
        if (status < 300) throw new Error(`the edit has an effect: ${text}`);
        return refusals.some((said) => text.includes(said));
      },
      { timeout: 10_000, interval: 200 },
    )
    .toBe(true)
    .catch((error) => {
      throw new Error(`${error.message}: ${[...new Set(seen)].join(' | ')}`, { cause: error });
    });
}

describe.each(['running', 'stopped'])('the database of a %s gateway is edited', (mode) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-rights-'));
  let gateway: ServedGateway;
  let calm: Place;
  const places = new Map<Attack, Place>();

  const again = (target: Target): Target => ({ ...target, endpoint: gateway.endpoint });

  beforeAll(async () => {
    gateway = await startServedGateway({ dataDir });
    const operator = await settle(gateway);
    calm = await settleTenant(operator, 'calm');
    const catalog = new CatalogEditor(dataDir);
    for (const [i, attack] of attacks.entries()) {
      const place = await settleTenant(operator, `attack-${i}`);
      await attack.prepare?.(place, catalog);
      places.set(attack, place);
    }
    if (mode === 'stopped') await gateway.stop();
    for (const [attack, place] of places) {
      expect([attack.name, await attack.edit(catalog, place)]).toEqual([attack.name, 1]);
    }
    catalog.close();
    if (mode === 'running') return;
    // Tokens are for where it listened.
    const args = ['--listen', new URL(gateway.endpoint).host];
    gateway = await startServedGateway({ dataDir, args });
  });

  afterAll(async () => {
    await gateway?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it.each(attacks.map((attack) => [attack.name, attack] as const))('%s', async (_, attack) => {
    const place = places.get(attack) as Place;
    const here: Place = { ...place };
    for (const who of ['alice', 'mallory', 'boss', 'operator'] as const)
      here[who] = again(place[who]);
    await untilRefused(() => attack.attempt(here));
    await expect.poll(() => gateway.output()).toContain(attack.said(place));
  });

  it('is not put right by the API, which goes on', async () => {
    const operator = await settle(gateway);
    const tenantOf = (name: string) =>
      (places.get(attacks.find((one) => one.name === name) as Attack) as Place).tenant;
    const mount = { bucketTenant: 'calm', bucket: 'nothing' };
    const grant = { effect: 'allow', subjects: ['tenant:calm'], actions: ['s3:GetObject'] };
    const puts: [path: string, body: object][] = [
      [`limits/tenant:${tenantOf('a limit is raised')}`, { requests: { month: 1 } }],
      [`tenants/${tenantOf('a mount is pointed elsewhere')}/mounts/mounted`, mount],
      [`tenants/${tenantOf('a grant is widened')}/grants/some`, { ...grant, bucket: 'x' }],
    ];
    for (const [path, body] of puts) {
      const headers = { 'content-type': 'application/json' };
      const put = { method: 'PUT', path: `/_/v1/${path}`, headers, body: JSON.stringify(body) };
      expect([path, (await send(operator, put)).text]).toEqual([
        path,
        expect.stringContaining('BursarIntegrityError'),
      ]);
    }
  });

  it('those whom it does not concern are served', async () => {
    const { alice, bucket } = calm;
    expect((await send(again(alice), get(`/${bucket}/k`))).status).toBe(200);
    const put = { method: 'PUT', path: `/${bucket}/more`, body: 'more' };
    expect((await send(again(alice), put)).status).toBe(200);
    const { integrityFailures } = await callNative(await settle(gateway), 'GET', '/_/v1/health');
    expect(integrityFailures.catalog.row).toBeGreaterThanOrEqual(attacks.length);
  });

  it('each is in the records, and `database check` names it', async () => {
    const operator = await settle(gateway);
    const records = await findRecords(operator, [['action', 'bursar:IntegrityFailure']]);
    const { stdout, status } = spawnSync(
      process.execPath,
      [main, 'database', 'check', '--data', dataDir],
      { encoding: 'utf8', env: environmentWithoutSettings() },
    );
    expect(status).not.toBe(0);
    for (const [attack, place] of places) {
      expect(stdout).toContain(attack.said(place));
      expect(records.filter(({ tenant }) => tenant === place.tenant)).not.toEqual([]);
    }
  });
});
