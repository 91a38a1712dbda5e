// What a gateway is given of who there is, what they may and how much, before it loses its folder:
// all kinds of things, and of each one that is gone or was changed; and what its API says of them.
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import { ask } from './rebuild-content.ts';
import type { RebuildRig } from './rebuild-rig.ts';
import { S3Client } from './s3-client.ts';

export interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
}

/** Calls of the native API, as the operator. */
export class Admin {
  readonly rig: RebuildRig;

  constructor(rig: RebuildRig) {
    this.rig = rig;
  }

  async call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const query = [...new URL(path, 'http://g').searchParams] as [string, string][];
    const at = `/_/v1/${path.split('?')[0]}`;
    const [, account] = /^limits\/(.*)/.exec(path) ?? [];
    const answer = await ask(this.rig.client, method, at, {
      query,
      ...(account && { encodedPath: `/_/v1/limits/${encodeURIComponent(account)}` }),
      ...(body && {
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(body)),
      }),
    });
    return answer.body.length === 0 ? {} : JSON.parse(answer.body.toString());
  }

  async list(path: string, member: string): Promise<Record<string, unknown>[]> {
    return (await this.call('GET', path))[member] as Record<string, unknown>[];
  }

  async newKey(tenant: string, principal: string): Promise<Credentials> {
    const path = `tenants/${tenant}/principals/${principal}/access-keys`;
    return (await this.call('POST', path)) as unknown as Credentials;
  }

  async enrol(tenant: string, principal: string, key: ReturnType<typeof generatePrivateKey>) {
    const path = `tenants/${tenant}/principals/${principal}/public-keys`;
    const owner = `${tenant}/${principal}`;
    const asked = { audience: this.rig.gateway.endpoint, principal: owner, nowMs: Date.now() };
    const proof = createKeyProof(key, asked);
    await this.call('POST', path, { jwk: key.publicKey.jwk, proof });
  }

  /** All that the API says of who there is, what they may and how much; without access keys. */
  async survey(): Promise<object> {
    const seen: Record<string, unknown> = {};
    const keep = async (path: string, member: string) => {
      seen[path] = await this.list(path, member);
      return seen[path] as { name: string }[];
    };
    for (const { name: tenant } of await keep('tenants', 'tenants')) {
      const at = `tenants/${tenant}`;
      for (const kind of ['groups', 'grants', 'mounts', 'issuers', 'classes'])
        await keep(`${at}/${kind}`, kind);
      // How far they were told is not restored.
      const targets = await this.list(`${at}/targets`, 'targets');
      seen[`${at}/targets`] = targets.map(({ name, arn, url, createdAt }) => {
        return { name, arn, url, createdAt };
      });
      for (const { name } of await keep(`${at}/principals`, 'principals')) {
        await keep(`${at}/principals/${name}/public-keys`, 'publicKeys');
        await keep(`${at}/principals/${name}/mounts`, 'mounts');
      }
    }
    seen.limits = (await this.list('limits', 'limits')).map(({ account, limits }) => {
      return { account, limits };
    });
    // What was used is not restored.
    const tokens = await this.list('tokens', 'tokens');
    seen.tokens = tokens.map(({ used: _, uses: _1, lastUsedAt: _2, ...token }) => token);
    const shares = await this.list('shares', 'shares');
    seen.shares = shares
      .filter(({ downloadsMax }) => downloadsMax === null)
      .map(({ downloads: _, lastUsedAt: _1, ...share }) => share);
    const hooks = ['alarm-hook', ...hookOwners.map(hookOf)];
    // Their secrets are new, and so are they.
    const urlOf = async (path: string) =>
      (await this.call('GET', path).catch(() => ({ url: null }))).url;
    seen.hooks = await Promise.all(hooks.map(urlOf));
    return seen;
  }

  /** The status of a GET, whoever asks. */
  async status(path: string, token?: string): Promise<number> {
    const { endpoint } = this.rig.gateway;
    const headers = token ? { authorization: `Bearer ${token}` } : undefined;
    const answer = await fetch(new URL(path, endpoint), headers ? { headers } : {});
    await answer.arrayBuffer();
    return answer.status;
  }
}

/** By an access key: what a GET is answered with. */
/** Of whom there are webhooks: of the tenant, and of principals. */
const hookOwners = ['', ...['alice', 'bob', 'carol'].map((name) => `/principals/${name}`)];

function hookOf(whose: string): string {
  return `tenants/cms${whose}/alarm-hook`;
}

export async function statusAs(rig: RebuildRig, key: Credentials, path: string): Promise<number> {
  const client = new S3Client({ endpoint: rig.gateway.endpoint, ...key });
  try {
    return (await client.send('GET', path)).status;
  } finally {
    client.close();
  }
}

const key = generatePrivateKey('EdDSA');
export const goneKey = generatePrivateKey('EdDSA');

export interface Made {
  alice: Credentials;
  off: Credentials;
  tokens: Record<'kept' | 'revoked' | 'ofKey', string>;
  shares: Record<'kept' | 'revoked' | 'few', string>;
}

/** All kinds of things, and of each one that is gone or was changed. */
export async function populate(admin: Admin): Promise<Made> {
  const { rig } = admin;
  for (const name of ['cms', 'atlas', 'over']) await admin.call('POST', 'tenants', { name });
  await admin.call('DELETE', 'tenants/over');
  await admin.call('PATCH', 'tenants/atlas', {
    ...{ membersCreateBuckets: false, defaultStore: 's3', recordReads: 'strict' },
  });
  for (const name of ['shifters', 'gone']) await admin.call('POST', 'tenants/cms/groups', { name });
  const people = {
    alice: 'admin',
    bob: 'member',
    carol: 'auditor',
    eve: 'operator',
    left: 'member',
  };
  for (const [name, role] of Object.entries(people)) {
    const groups = name === 'bob' ? ['shifters', 'gone'] : [];
    const kind = name === 'carol' ? 'robot' : 'person';
    await admin.call('POST', 'tenants/cms/principals', { name, kind, role, groups });
  }
  await admin.call('DELETE', 'tenants/cms/groups/gone');
  await admin.call('PATCH', 'tenants/cms/principals/eve', { role: 'member', active: false });
  const alice = await admin.newKey('cms', 'alice');
  const off = await admin.newKey('cms', 'bob');
  await admin.enrol('cms', 'bob', key);
  await admin.enrol('cms', 'bob', goneKey);
  const keys = 'tenants/cms/principals/bob/public-keys';
  await admin.call('PATCH', `${keys}/${key.publicKey.thumbprint}`, { active: false });
  await admin.call('DELETE', `${keys}/${goneKey.publicKey.thumbprint}`);

  const owner = new S3Client({ endpoint: rig.gateway.endpoint, ...alice });
  await ask(owner, 'PUT', '/data');
  await ask(owner, 'DELETE', '/data', { query: [['publicAccessBlock', '']] });
  await ask(owner, 'PUT', '/data/object', { body: Buffer.from('kept') });
  await ask(owner, 'PUT', '/quiet');
  owner.close();
  await admin.call('PATCH', 'tenants/cms/buckets/quiet', { recordReads: 'aggregate' });

  const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'data' };
  const subjects = ['principal:cms/bob', 'group:cms/shifters', 'principal:cms/left'];
  await admin.call('PUT', 'tenants/cms/grants/readers', { ...rule, subjects });
  await admin.call('PUT', 'tenants/cms/grants/everybody', { ...rule, subjects: ['anyone'] });
  await admin.call('PUT', 'tenants/cms/grants/taken-back', { ...rule, subjects: ['anyone'] });
  await admin.call('DELETE', 'tenants/cms/grants/taken-back');
  await admin.call('PUT', 'tenants/cms/grants/never', {
    ...{ effect: 'deny', subjects: ['tenant:atlas'], actions: ['s3:*'], bucket: 'data' },
    conditions: { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } },
  });
  await admin.call('DELETE', 'tenants/cms/principals/left');
  await admin.call('PUT', 'tenants/atlas/mounts/theirs', { bucketTenant: 'cms', bucket: 'data' });
  await admin.call('PUT', 'tenants/atlas/mounts/gone', { bucketTenant: 'cms', bucket: 'data' });
  await admin.call('DELETE', 'tenants/atlas/mounts/gone');
  const bobs = 'tenants/cms/principals/bob/mounts';
  // What is taken later is not taken from who has the name.
  for (const name of ['theirs', 'gone', 'later']) {
    await admin.call('PUT', `${bobs}/${name}`, { bucketTenant: 'atlas', bucket: 'data' });
  }
  await admin.call('DELETE', `${bobs}/gone`);
  await admin.call('PUT', 'tenants/cms/mounts/later', { bucketTenant: 'atlas', bucket: 'other' });
  await admin.call('PATCH', 'tenants/atlas', { membersMountBuckets: false });
  const mapping = { pathPrefix: '/data', principals: { 1: 'bob' }, groups: { g: 'shifters' } };
  for (const name of ['iam', 'old']) {
    const url = `https://${name}.example.org`;
    await admin.call('PUT', `tenants/cms/issuers/${name}`, { url, audience: 'x/cms', mapping });
  }
  await admin.call('DELETE', 'tenants/cms/issuers/old');
  for (const name of ['derived', 'old', 'another']) {
    const durability = { legs: [{ store: 'local' }] };
    await admin.call('POST', 'tenants/cms/classes', { name, durability });
  }
  await admin.call('DELETE', 'tenants/cms/classes/old');
  await admin.call('PUT', 'limits/tenant:cms', {
    spend: { month: '12.5' },
    rate: { requests: 900 },
  });
  await admin.call('PUT', 'limits/bucket:cms/data', { storedBytes: { total: 1_000_000 } });
  await admin.call('PUT', 'limits/prefix:cms/data/run 1/', { storedBytes: { total: 500_000 } });
  await admin.call('PUT', 'limits/principal:cms/bob', { requests: { day: 5 } });
  await admin.call('DELETE', 'limits/principal:cms/bob');
  await admin.call('PUT', 'alarm-hook', { url: 'http://127.0.0.1:9/hook' });
  for (const whose of hookOwners) {
    await admin.call('PUT', hookOf(whose), { url: `https://127.0.0.1:9/cms${whose}` });
  }
  const queue = 'https://sqs.eu-central-1.amazonaws.com/123456789012/raw';
  await admin.call('PUT', 'tenants/cms/targets/queue', { kind: 'sqs', url: queue });
  for (const name of ['hook', 'gone']) {
    const target = { kind: 'webhook', url: 'https://127.0.0.1:9/target' };
    await admin.call('PUT', `tenants/cms/targets/${name}`, target);
  }
  await admin.call('DELETE', 'tenants/cms/targets/gone');

  const asAlice = new S3Client({ endpoint: rig.gateway.endpoint, ...alice });
  const headers = { 'content-type': 'application/json' };
  const post = async (client: S3Client, path: string, body: object) => {
    const sent = { headers, body: Buffer.from(JSON.stringify(body)) };
    return JSON.parse((await ask(client, 'POST', path, sent)).body.toString());
  };
  const newToken = (client: S3Client) =>
    post(client, '/_/v1/tokens', {
      ...{ scope: 'storage.read:/data', expiresIn: 3600 },
    });
  const [kept, revoked] = [await newToken(asAlice), await newToken(asAlice)];
  const share = (downloads?: number) =>
    post(asAlice, '/_/v1/shares', {
      ...{ bucket: 'data', key: 'object', expiresIn: 3600, ...(downloads && { downloads }) },
    });
  const shares = { kept: await share(), revoked: await share(), few: await share(3) };
  await ask(asAlice, 'DELETE', `/_/v1/tokens/${revoked.jti}`);
  await ask(asAlice, 'DELETE', `/_/v1/shares/${shares.revoked.id}`);
  // With an access key goes what was asked for with it.
  const second = await admin.newKey('cms', 'alice');
  const asSecond = new S3Client({ endpoint: rig.gateway.endpoint, ...second });
  const ofKey = await newToken(asSecond);
  await admin.call('DELETE', `tenants/cms/principals/alice/access-keys/${second.accessKeyId}`);
  await admin.call('PATCH', `tenants/cms/principals/bob/access-keys/${off.accessKeyId}`, {
    active: false,
  });
  for (const client of [asAlice, asSecond]) client.close();
  return {
    ...{ alice, off },
    tokens: { kept: kept.token, revoked: revoked.token, ofKey: ofKey.token },
    shares: { kept: shares.kept.url, revoked: shares.revoked.url, few: shares.few.url },
  };
}

/**
 * Other things, and others of them, than `populate` made: what was given, changed and taken away
 * later.
 */
export async function changeLater(admin: Admin, { alice, off }: Made): Promise<Credentials> {
  const at = 'tenants/cms';
  await admin.call('POST', 'tenants', { name: 'late' });
  await admin.call('PATCH', 'tenants/cms', { membersCreateBuckets: false });
  await admin.call('DELETE', 'tenants/atlas');
  await admin.call('POST', `${at}/groups`, { name: 'night' });
  const zoe = { name: 'zoe', kind: 'person', role: 'member', groups: ['night'] };
  await admin.call('POST', `${at}/principals`, zoe);
  await admin.call('PATCH', `${at}/principals/eve`, { role: 'auditor', active: true });
  await admin.call('PATCH', `${at}/principals/bob`, { groups: ['night'] });
  await admin.call('DELETE', `${at}/principals/carol`);
  await admin.call('DELETE', `${at}/groups/shifters`);
  const keys = `${at}/principals/bob/public-keys`;
  await admin.call('PATCH', `${keys}/${key.publicKey.thumbprint}`, { active: true });
  const second = generatePrivateKey('EdDSA');
  await admin.enrol('cms', 'zoe', second);
  await admin.call('DELETE', `${at}/principals/bob/access-keys/${off.accessKeyId}`);
  const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'data' };
  const widened = {
    ...rule,
    actions: ['s3:*'],
    subjects: ['principal:cms/bob', 'group:cms/night'],
  };
  await admin.call('PUT', `${at}/grants/readers`, widened);
  await admin.call('PUT', `${at}/grants/late`, { ...rule, subjects: ['principal:cms/zoe'] });
  await admin.call('DELETE', `${at}/grants/everybody`);
  const mapping = { pathPrefix: '/data', principals: { 1: 'zoe' }, groups: {} };
  const url = 'https://iam.example.org';
  await admin.call('PUT', `${at}/issuers/iam`, { url, audience: 'x/cms', mapping });
  await admin.call('DELETE', `${at}/classes/another`);
  await admin.call('DELETE', `${at}/classes/derived`);
  for (const name of ['derived', 'new']) {
    const durability = { legs: [{ store: 'local' }], repairHours: 48 };
    await admin.call('POST', `${at}/classes`, { name, durability });
  }
  await admin.call('PUT', `tenants/late/mounts/theirs`, { bucketTenant: 'cms', bucket: 'data' });
  const bobs = `${at}/principals/bob/mounts`;
  await admin.call('DELETE', `${bobs}/later`);
  for (const name of ['theirs', 'another']) {
    await admin.call('PUT', `${bobs}/${name}`, { bucketTenant: 'late', bucket: name });
  }
  await admin.call('PATCH', at, { membersMountBuckets: false });
  await admin.call('PUT', 'limits/tenant:cms', { spend: { month: '3' }, rate: { requests: 900 } });
  await admin.call('PUT', 'limits/bucket:cms/data', { storedBytes: { total: 2_000_000 } });
  await admin.call('PUT', 'limits/principal:cms/zoe', { requests: { day: 5 } });
  await admin.call('DELETE', `${at}/alarm-hook`);
  await admin.call('DELETE', hookOf('/principals/alice'));
  // A link that is used in the name of somebody else from then on.
  const links = await admin.list('shares', 'shares');
  const link = links.find(({ state, downloadsMax }) => state === 'valid' && downloadsMax === null);
  await admin.call('PUT', `shares/${link?.id}/principal`, { principal: 'zoe' });
  // With an access key goes what was asked for with it.
  const next = await admin.newKey('cms', 'alice');
  await admin.call('DELETE', `${at}/principals/alice/access-keys/${alice.accessKeyId}`);
  return next;
}
