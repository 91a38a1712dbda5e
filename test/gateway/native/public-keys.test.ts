// Public keys over the native API: who can enrol one, and what switching it off takes along.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { type Algorithm, generatePrivateKey, type PrivateKey } from '#bursar/authz/tokens/keys.js';
import { type Answer, type Fixture, openFixture, populate } from './fixture.ts';

const audience = 'https://s3.example.org';
const principals = '/_/v1/tenants/cms/principals';
const alices = `${principals}/alice/public-keys`;
const accessKeyId = 'AKIAABCDEFGHIJKLMN23';

let api: Fixture;

beforeAll(async () => {
  api = await openFixture();
  await populate(api);
});

afterAll(() => api.close());

interface Wanted {
  principal?: string;
  at?: string;
  madeMs?: number;
  accessKeyId?: string;
}

function proofOf(key: PrivateKey, wanted: Wanted = {}): string {
  return createKeyProof(key, {
    audience: wanted.at ?? audience,
    principal: wanted.principal ?? 'cms/alice',
    accessKeyId: wanted.accessKeyId,
    nowMs: wanted.madeMs ?? Date.now(),
  });
}

function enrolmentOf(key: PrivateKey) {
  return { jwk: key.publicKey.jwk, proof: proofOf(key) };
}

/** Enrols a new key as alice. */
async function enroll(algorithm: Algorithm = 'EdDSA'): Promise<PrivateKey> {
  const key = generatePrivateKey(algorithm);
  const made = await api.call('cms/alice', 'POST', alices, enrolmentOf(key));
  expect(made.status).toBe(201);
  return key;
}

async function enrollSigv4a(who: string, principal: string, id: string): Promise<string> {
  const key = generatePrivateKey('ES256');
  const proof = proofOf(key, { principal, accessKeyId: id });
  const [tenant, name] = principal.split('/');
  const url = `/_/v1/tenants/${tenant}/principals/${name}/public-keys`;
  const body = { jwk: key.publicKey.jwk, proof, purpose: 'sigv4a', accessKeyId: id };
  expect(await api.call(who, 'POST', url, body)).toMatchObject({ status: 201 });
  return `${url}/${key.publicKey.thumbprint}`;
}

function refused(answer: Answer, status: number, code: string): void {
  expect(answer).toMatchObject({ status, json: { code } });
}

describe('enrolling', () => {
  test.each(['EdDSA', 'ES256'] as const)('%s: a key is shown, listed and recorded', async (alg) => {
    const { thumbprint, jwk } = (await enroll(alg)).publicKey;
    const shown = await api.call('cms/boss', 'GET', `${alices}/${thumbprint}`);
    expect(shown.json).toEqual({
      ...{ thumbprint, jwk, purpose: 'token', accessKeyId: null, active: true },
      createdAt: expect.any(String),
    });
    const { json } = await api.call('cms/alice', 'GET', alices);
    expect(json.publicKeys).toContainEqual(shown.json);
    const made = api.entries.filter(({ action }) => action === 'bursar:CreatePublicKey').at(-1);
    expect(made?.target).toBe(`tenants/cms/principals/alice/public-keys/${thumbprint}`);
  });

  const other = generatePrivateKey('EdDSA');
  const own = generatePrivateKey('EdDSA');
  test.each<[string, () => string]>([
    ['by another key', () => proofOf(other)],
    ['for another principal', () => proofOf(own, { principal: 'cms/bob' })],
    ["for another tenant's principal", () => proofOf(own, { principal: 'atlas/alice' })],
    ['for another gateway', () => proofOf(own, { at: 'https://other.example.org' })],
    ['of two hours ago', () => proofOf(own, { madeMs: Date.now() - 7_200_000 })],
    ['of tomorrow', () => proofOf(own, { madeMs: Date.now() + 86_400_000 })],
    ['for an access key', () => proofOf(own, { accessKeyId })],
    ['that is none', () => 'a.b.c'],
  ])('a proof %s enrols nothing', async (_title, proof) => {
    const body = { jwk: own.publicKey.jwk, proof: proof() };
    refused(await api.call('cms/alice', 'POST', alices, body), 401, 'InvalidProof');
    const path = `${alices}/${own.publicKey.thumbprint}`;
    refused(await api.call('cms/alice', 'GET', path), 404, 'NoSuchPublicKey');
  });

  test('a private key that somebody sends is refused before it is read', async () => {
    const key = generatePrivateKey('EdDSA');
    const jwk = { ...key.publicKey.jwk, d: 'the-private-half' };
    const answer = await api.call('cms/alice', 'POST', alices, { jwk, proof: proofOf(key) });
    refused(answer, 400, 'InvalidInput');
    expect(JSON.stringify(api.entries)).not.toContain('private-half');
  });

  test('a key belongs to one principal, and once deleted to nobody', async () => {
    const key = await enroll();
    const bobs = `${principals}/bob/public-keys`;
    const asBob = { jwk: key.publicKey.jwk, proof: proofOf(key, { principal: 'cms/bob' }) };
    refused(await api.call('cms/bob', 'POST', bobs, asBob), 409, 'AlreadyExists');
    const path = `${alices}/${key.publicKey.thumbprint}`;
    expect(await api.call('cms/alice', 'DELETE', path)).toMatchObject({ status: 204 });
    refused(await api.call('cms/alice', 'POST', alices, enrolmentOf(key)), 409, 'AlreadyExists');
    refused(await api.call('cms/alice', 'DELETE', path), 404, 'NoSuchPublicKey');
  });

  test('a principal has twenty keys at most', async () => {
    const url = `${principals}/audit/public-keys`;
    const answers: Answer[] = [];
    for (let i = 0; i < 21; i++) {
      const key = generatePrivateKey('EdDSA');
      const body = { jwk: key.publicKey.jwk, proof: proofOf(key, { principal: 'cms/audit' }) };
      answers.push(await api.call('cms/audit', 'POST', url, body));
    }
    const [last, ...rest] = answers.reverse();
    expect(new Set(rest.map(({ status }) => status))).toEqual(new Set([201]));
    refused(last as Answer, 409, 'TooManyPublicKeys');
  });

  test.each([
    ['GET', ''],
    ['POST', ''],
    ['GET', '/x'],
    ['PATCH', '/x'],
    ['DELETE', '/x'],
  ])("%s %s of another's keys is refused", async (method, path) => {
    const body = { POST: enrolmentOf(own), PATCH: { active: false } }[method];
    refused(await api.call('cms/bob', method, `${alices}${path}`, body), 403, 'AccessDenied');
    refused(await api.call('atlas/boss', method, `${alices}${path}`, body), 404, 'NoSuchTenant');
  });

  test("an operator's keys are the operators' alone", async () => {
    await api.apply({ kind: 'updatePrincipal', tenant: 'atlas', name: 'bob', role: 'operator' });
    const url = '/_/v1/tenants/atlas/principals/bob/public-keys';
    const body = { jwk: own.publicKey.jwk, proof: proofOf(own, { principal: 'atlas/bob' }) };
    refused(await api.call('atlas/boss', 'POST', url, body), 403, 'AccessDenied');
    expect(await api.call('ROOT', 'POST', url, body)).toMatchObject({ status: 201 });
  });
});

describe('a SigV4A key', () => {
  test('is a public key and an access key, deleted together from either side', async () => {
    const byPublic = await enrollSigv4a('cms/alice', 'cms/alice', accessKeyId);
    const byAccess = `${principals}/alice/access-keys/${accessKeyId}`;
    expect((await api.call('cms/alice', 'GET', byPublic)).json).toMatchObject({ accessKeyId });
    const { json } = await api.call('cms/alice', 'GET', byAccess);
    expect(json.thumbprint).toBe(byPublic.split('/').at(-1));
    expect(await api.call('cms/alice', 'DELETE', byPublic)).toMatchObject({ status: 204 });
    refused(await api.call('cms/alice', 'GET', byAccess), 404, 'NoSuchAccessKey');

    const other = await enrollSigv4a('cms/alice', 'cms/alice', accessKeyId);
    expect(await api.call('cms/alice', 'DELETE', byAccess)).toMatchObject({ status: 204 });
    refused(await api.call('cms/alice', 'GET', other), 404, 'NoSuchPublicKey');
  });

  test('is switched as one, from either side', async () => {
    const id = `${accessKeyId.slice(0, -1)}4`;
    const byPublic = await enrollSigv4a('cms/alice', 'cms/alice', id);
    const byAccess = `${principals}/alice/access-keys/${id}`;
    for (const [from, active] of [
      [byPublic, false],
      [byAccess, true],
      [byAccess, false],
      [byPublic, true],
    ] as const) {
      await api.call('cms/alice', 'PATCH', from, { active });
      for (const path of [byPublic, byAccess]) {
        expect((await api.call('cms/alice', 'GET', path)).json).toMatchObject({ active });
      }
    }
  });

  test('needs its access key id, a proof of that id, and P-256', async () => {
    const [ed, ec] = [generatePrivateKey('EdDSA'), generatePrivateKey('ES256')];
    const bodyOf = (key: PrivateKey, proved?: string, sent?: string) => ({
      jwk: key.publicKey.jwk,
      proof: proofOf(key, { accessKeyId: proved }),
      purpose: 'sigv4a',
      accessKeyId: sent,
    });
    const enrol = (body: object) => api.call('cms/alice', 'POST', alices, body);
    refused(await enrol(bodyOf(ec)), 400, 'InvalidInput');
    refused(await enrol(bodyOf(ec, undefined, accessKeyId)), 401, 'InvalidProof');
    refused(await enrol(bodyOf(ed, accessKeyId, accessKeyId)), 400, 'InvalidInput');
    const foreign = 'BURABCDEFGHIJKLMN234';
    refused(await enrol(bodyOf(ec, foreign, foreign)), 400, 'InvalidInput');
    const tokenKey = { ...bodyOf(ec, accessKeyId, accessKeyId), purpose: 'token' };
    refused(await enrol(tokenKey), 400, 'InvalidInput');
  });

  test('that is the last of an operator stays', async () => {
    const id = `${accessKeyId.slice(0, -1)}5`;
    const url = await enrollSigv4a('ROOT', 'default/admin', id);
    await api.apply({ kind: 'updatePrincipal', tenant: 'atlas', name: 'bob', role: 'member' });
    const secret = '/_/v1/tenants/default/principals/admin/access-keys/ROOT';
    await api.call('ROOT', 'PATCH', url, { active: false });
    refused(await api.call('ROOT', 'DELETE', secret), 409, 'InUse');
    await api.call('ROOT', 'PATCH', url, { active: true });
    await api.apply({
      kind: 'updateAccessKey',
      ...{ tenant: 'default', principal: 'admin', id: 'ROOT', active: false },
    });
    const change = {
      tenant: 'default',
      principal: 'admin',
      thumbprint: url.split('/').at(-1) ?? '',
    };
    await expect(api.apply({ kind: 'deletePublicKey', ...change })).rejects.toThrow('InUse');
    const off = { kind: 'updatePublicKey', ...change, active: false } as const;
    await expect(api.apply(off)).rejects.toThrow('InUse');
    await api.apply({
      kind: 'updateAccessKey',
      ...{ tenant: 'default', principal: 'admin', id: 'ROOT', active: true },
    });
  });
});

describe('switching off', () => {
  test('a principal is refused with any key until it is activated again', async () => {
    const bob = `${principals}/bob`;
    const off = await api.call('cms/boss', 'PATCH', bob, { active: false });
    expect(off).toMatchObject({ status: 200, json: { active: false, role: 'member' } });
    refused(await api.call('cms/bob', 'GET', bob), 403, 'InvalidAccessKeyId');
    expect(await api.directory.findActor('cms/bob')).toBeUndefined();
    await api.call('cms/boss', 'PATCH', bob, { active: true });
    expect(await api.call('cms/bob', 'GET', bob)).toMatchObject({ json: { active: true } });
  });

  test('an access key is refused until it is activated again; others go on', async () => {
    const collection = `${principals}/bob/access-keys`;
    const { accessKeyId: id } = (await api.call('cms/bob', 'POST', collection)).json;
    const url = `${collection}/${id}`;
    const off = await api.call('cms/bob', 'PATCH', url, { active: false });
    expect(off).toMatchObject({ status: 200, json: { accessKeyId: id, active: false } });
    refused(await api.call(id, 'GET', url), 403, 'InvalidAccessKeyId');
    await api.call('cms/bob', 'PATCH', url, { active: true });
    expect(await api.call(id, 'GET', url)).toMatchObject({ json: { active: true } });
  });

  test('the last operator and the last key of one stay active', async () => {
    const root = '/_/v1/tenants/default/principals/admin';
    const own = `${root}/access-keys/ROOT`;
    await api.apply({
      kind: 'deleteAccessKey',
      ...{ tenant: 'default', principal: 'admin', id: `${accessKeyId.slice(0, -1)}5` },
    });
    refused(await api.call('ROOT', 'PATCH', root, { active: false }), 409, 'InUse');
    refused(await api.call('ROOT', 'PATCH', own, { active: false }), 409, 'InUse');
  });

  test('the root key makes its principal active again, with no other key', async () => {
    const { apply, directory, sealer } = api;
    await enrollSigv4a('ROOT', 'default/admin', `${accessKeyId.slice(0, -1)}6`);
    await apply({ kind: 'updatePrincipal', tenant: 'atlas', name: 'boss', role: 'operator' });
    const admin = { tenant: 'default', name: 'admin' };
    await apply({ kind: 'updatePrincipal', ...admin, active: false });
    expect(await directory.findActor('default/admin')).toBeUndefined();
    const sealedSecret = sealer.seal(Buffer.from('new'), 'access-key:default/admin/ROOT2');
    await apply({ kind: 'putRootKey', id: 'ROOT2', sealedSecret });
    const root = '/_/v1/tenants/default/principals/admin';
    const keys = await api.call('ROOT2', 'GET', `${root}/access-keys`);
    expect(keys.json.accessKeys).toMatchObject([{ accessKeyId: 'ROOT2' }]);
    expect((await api.call('ROOT2', 'GET', `${root}/public-keys`)).json.publicKeys).toEqual([]);
  });
});
