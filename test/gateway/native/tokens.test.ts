// Tokens over the native API: who is issued one, who sees which, and who can end one.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Delegation } from '#bursar/authz/identity.js';
import { type ReadLink, readLinks, verifyChain } from '#bursar/authz/tokens/chain.js';
import { ChainConditions } from '#bursar/authz/tokens/conditions.js';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { type Answer, type Fixture, openFixture, populate } from './fixture.ts';

const audience = 'https://s3.example.org';
const tokens = '/_/v1/tokens';
const scope = 'storage.read:/raw/2026 storage.create:/out';
const holder = generatePrivateKey('ES256');
const cnf = { jwk: holder.publicKey.jwk };

let api: Fixture;

beforeAll(async () => {
  api = await openFixture();
  await populate(api);
});

afterAll(() => api.close());

beforeEach(() => api.narrow('cms/alice', null));

async function create(who = 'cms/alice', body: object = {}) {
  const answer = await api.call(who, 'POST', tokens, { scope, ...body });
  expect(answer.status).toBe(201);
  return answer.json as { token: string; jti: string; expiresAt: string };
}

async function list(who: string, query = ''): Promise<Record<string, unknown>[]> {
  const answer = await api.call(who, 'GET', `${tokens}?${query}`);
  expect(answer).toMatchObject({ status: 200, json: { next: null } });
  return answer.json.tokens;
}

async function stateOf(jti: string): Promise<unknown> {
  return (await list('ROOT')).find((one) => one.jti === jti)?.state;
}

function revoke(who: string, jti: string): Promise<Answer> {
  return api.call(who, 'DELETE', `${tokens}/${jti}`);
}

function refused(answer: Answer, status: number, code: string): void {
  expect(answer).toMatchObject({ status, json: { code } });
}

function delegationOf(ids: string[], text: string): Delegation {
  return {
    ids,
    scope: parseScope(text),
    conditions: new ChainConditions([]),
    accounts: [],
    policies: [],
    expiresAtMs: Date.now() + 60_000,
  };
}

describe('a token', () => {
  test("is the caller's, by the gateway's key, and leaves once", async () => {
    const conditions = { networks: ['10.0.0.0/8'], objectBytesMax: 5 };
    const wanted = { expiresIn: 60, cnf, maxDepth: 2, conditions, label: 'night job' };
    const { token, jti, expiresAt } = await create('cms/alice', wanted);
    const chain = await verifyChain(token, {
      audience,
      nowMs: Date.now(),
      findIssuerKey: ({ issuer, keyId }) => {
        expect(issuer).toBe(audience);
        const { publicKey: key } = api.tokenKeys.current;
        return keyId === key.thumbprint ? { key } : undefined;
      },
    });
    expect(chain).toMatchObject({ subject: 'cms/alice', ids: [jti] });
    expect(chain.links[0]).toMatchObject({ depthMax: 2, conditions });
    expect(chain.boundKey?.thumbprint).toBe(holder.publicKey.thumbprint);
    expect(chain.expiresAtMs).toBe(Date.parse(expiresAt));
    expect(Math.abs(chain.expiresAtMs - Date.now() - 60_000)).toBeLessThan(30_000);

    const shown = (await list('cms/alice')).find((one) => one.jti === jti);
    expect(shown).toMatchObject({
      ...{ parent: null, issued: true, principal: 'cms/alice', accessKeyId: 'cms/alice', scope },
      ...{ boundTo: holder.publicKey.thumbprint, label: 'night job', conditions, limits: null },
      ...{ state: 'valid', expiresAt, lastUsedAt: null, uses: 0 },
    });
    const made = api.entries.find(({ target }) => target === `tokens/${jti}`);
    expect(made).toMatchObject({ action: 'bursar:CreateToken', status: 201 });
    const signature = token.split('.').at(-1) as string;
    expect(JSON.stringify([api.entries, shown])).not.toContain(signature);
  });

  test('is a bearer token of an hour that nobody can pass on, unless said otherwise', async () => {
    const { jti, expiresAt } = await create();
    expect(Math.abs(Date.parse(expiresAt) - Date.now() - 3_600_000)).toBeLessThan(30_000);
    const shown = (await list('cms/alice')).find((one) => one.jti === jti);
    expect(shown).toMatchObject({ boundTo: null, label: null, conditions: null });
  });

  test.each([
    ['no scope', { scope: undefined }, 'body.scope'],
    ['a scope without a path', { scope: 'storage.read' }, 'body.scope'],
    ['a scope that leads out', { scope: 'storage.read:/a/../b' }, 'body.scope'],
    ['more than fits in a token', { scope: longScope() }, 'body.scope'],
    ['no time', { expiresIn: 0 }, 'body.expiresIn'],
    ['more than 366 days', { expiresIn: 366 * 86_400 + 1 }, 'body.expiresIn'],
    ['a beginning after its end', { notBefore: '2999-01-01T00:00:00Z' }, 'body.notBefore'],
    ['a condition that is not known', { conditions: { moon: 'full' } }, 'body.conditions'],
    ['a network that is none', { conditions: { networks: ['10/8'] } }, 'body.conditions'],
    ['a private key', { cnf: { jwk: { ...cnf.jwk, d: 'x' } } }, 'body.cnf.jwk'],
    ['an RSA key', { cnf: { jwk: { kty: 'RSA', n: 'AQ', e: 'AQAB' } } }, 'body.cnf.jwk'],
    ['depth without a key', { maxDepth: 1 }, 'body.maxDepth'],
    ['more links than there can be', { cnf, maxDepth: 8 }, 'body.maxDepth'],
    ["another's name", { principal: 'cms/bob' }, 'body.principal'],
  ])('with %s is not issued', async (_title, body, field) => {
    const answer = await api.call('cms/alice', 'POST', tokens, { scope, ...body });
    expect(answer).toMatchObject({ status: 400, json: { code: 'InvalidInput', field } });
  });

  test('with limits has them in its link, its entry and its record', async () => {
    const limits = { requests: { total: 5 }, spend: { day: '0.10' } };
    const { status, json } = await api.call('cms/alice', 'POST', tokens, { scope, limits });
    expect(status).toBe(201);
    const [{ link }] = readLinks(json.token) as [ReadLink];
    expect(link.limits).toEqual(limits);
    expect(api.entries.at(-1)?.change).toMatchObject({ kind: 'addToken', details: { limits } });
  });

  test.each([
    ['of another form', { requests: { week: 1 } }],
    ['that are none', {}],
  ])('with limits %s is not issued', async (_title, limits) => {
    refused(await api.call('cms/alice', 'POST', tokens, { scope, limits }), 400, 'InvalidInput');
  });

  test('makes or activates no token, key or issuer, even if it may administer', async () => {
    api.narrow('cms/alice', delegationOf(['a'], 'bursar.admin:/ storage.read:/'));
    const alice = '/_/v1/tenants/cms/principals/alice';
    const key = generatePrivateKey('EdDSA');
    const subject = { audience, principal: 'cms/alice', nowMs: Date.now() };
    const enrolment = { jwk: key.publicKey.jwk, proof: createKeyProof(key, subject) };
    for (const [url, body] of [
      [tokens, { scope }],
      [`${alice}/access-keys`, undefined],
      [`${alice}/public-keys`, enrolment],
    ] as const) {
      refused(await api.call('cms/alice', 'POST', url, body), 403, 'AccessDenied');
    }
    api.narrow('cms/alice', null);
    const { accessKeyId } = (await api.call('cms/alice', 'POST', `${alice}/access-keys`)).json;
    const { thumbprint } = (await api.call('cms/alice', 'POST', `${alice}/public-keys`, enrolment))
      .json;
    api.narrow('cms/alice', delegationOf(['a'], 'bursar.admin:/'));
    for (const url of [`access-keys/${accessKeyId}`, `public-keys/${thumbprint}`]) {
      const set = (active: boolean) =>
        api.call('cms/alice', 'PATCH', `${alice}/${url}`, { active });
      expect((await set(false)).status).toBe(200);
      refused(await set(true), 403, 'AccessDenied');
    }
    api.narrow('cms/boss', delegationOf(['b'], 'bursar.admin:/'));
    const issuer = '/_/v1/tenants/cms/issuers/own';
    const mapping = { pathPrefix: '/', principals: { me: 'boss' } };
    const trust = {
      url: 'https://own.example.org',
      audience: 'https://s3.example.org/cms',
      mapping,
    };
    refused(await api.call('cms/boss', 'PUT', issuer, trust), 403, 'AccessDenied');
    api.narrow('cms/boss', null);
    expect((await api.call('cms/boss', 'PUT', issuer, trust)).status).toBe(200);
  });
});

/** Sixty-four entries that a scope may have, each of a length that a path may have. */
function longScope(): string {
  return Array.from({ length: 64 }, (_, i) => `storage.read:/raw/${i}${'x'.repeat(500)}`).join(' ');
}

describe('a list', () => {
  test("shows a member its own, an admin its tenant's, an operator all", async () => {
    const made = [await create('cms/alice'), await create('cms/bob'), await create('atlas/alice')];
    const [alices, bobs, others] = made.map(({ jti }) => jti);
    const seenBy = async (who: string, query = '') => {
      const ids = (await list(who, query)).map(({ jti }) => jti);
      return [alices, bobs, others].map((jti) => ids.includes(jti));
    };
    expect(await seenBy('cms/alice')).toEqual([true, false, false]);
    expect(await seenBy('cms/alice', 'principal=bob')).toEqual([false, false, false]);
    expect(await seenBy('cms/boss')).toEqual([true, true, false]);
    expect(await seenBy('cms/boss', 'principal=bob')).toEqual([false, true, false]);
    expect(await seenBy('cms/boss', 'principal=atlas/alice')).toEqual([false, false, false]);
    expect(await seenBy('ROOT')).toEqual([true, true, true]);
    expect(await seenBy('ROOT', 'principal=atlas/alice')).toEqual([false, false, true]);
  });

  test.each(['ROOT', 'cms/boss', 'cms/alice'])(
    'comes to %s in pages, each token once',
    async (who) => {
      await create('cms/alice');
      const all = (await list(who)).map(({ jti }) => jti);
      const paged: unknown[] = [];
      let after = '';
      do {
        const query = `limit=1&after=${encodeURIComponent(after)}`;
        const { json } = await api.call(who, 'GET', `${tokens}?${query}`);
        paged.push(...json.tokens.map(({ jti }: { jti: string }) => jti));
        after = json.next;
      } while (after !== null);
      expect(all.length).toBeGreaterThan(1);
      expect(paged).toEqual(all);
      refused(await api.call(who, 'GET', `${tokens}?after=x`), 400, 'InvalidInput');
    },
  );
});

test('a token of a principal that is switched off is shown as refused', async () => {
  const { jti } = await create('cms/bob');
  const change = { kind: 'updatePrincipal', tenant: 'cms', name: 'bob' } as const;
  await api.apply({ ...change, active: false });
  expect(await stateOf(jti)).toBe('inactive');
  await api.apply({ ...change, active: true });
  expect(await stateOf(jti)).toBe('valid');
});

describe('revoking', () => {
  test.each(['cms/alice', 'cms/boss', 'ROOT'])('%s can', async (who) => {
    const { jti } = await create();
    expect(await revoke(who, jti)).toMatchObject({ status: 204 });
    expect(await stateOf(jti)).toBe('revoked');
    expect(api.revocations.has([jti])).toBe(true);
    expect(await revoke(who, jti)).toMatchObject({ status: 204 });
  });

  test.each(['cms/bob', 'atlas/boss', 'cms/audit'])(
    '%s is told nothing of it, as of one that never was',
    async (who) => {
      const { jti } = await create();
      const nobodys = 'AAAAAAAAAAAAAAAAAAAAAA';
      const [there, nowhere] = [await revoke(who, jti), await revoke(who, nobodys)];
      refused(there, 404, 'NoSuchToken');
      const strip = ({ json: { requestId: _id, instance: _path, ...rest } }: Answer) => rest;
      // It names what was asked for.
      const named = String(strip(there).detail).replace(jti, nobodys);
      expect({ ...strip(there), detail: named }).toEqual(strip(nowhere));
      expect(await stateOf(jti)).toBe('valid');
    },
  );

  test("an operator's token is the operators' to revoke", async () => {
    await api.apply({
      kind: 'createPrincipal',
      ...{ tenant: 'default', name: 'dan', principalKind: 'person', role: 'admin', groups: [] },
    });
    const sealedSecret = api.sealer.seal(Buffer.from('x'), 'access-key:default/dan/DAN');
    await api.apply({
      kind: 'createAccessKey',
      ...{ tenant: 'default', principal: 'dan', id: 'DAN', sealedSecret },
    });
    const { jti } = await create('ROOT');
    refused(await revoke('DAN', jti), 403, 'AccessDenied');
    expect(await stateOf(jti)).toBe('valid');
  });

  test('reaches links that were never seen, below what is known to be one’s own', async () => {
    const { jti } = await create();
    refused(await revoke('cms/bob', `${jti}.child`), 404, 'NoSuchToken');
    expect(await revoke('cms/alice', `${jti}.child`)).toMatchObject({ status: 204 });
    expect(api.revocations.has([jti])).toBe(false);
    expect(api.revocations.has([jti, `${jti}.child`, `${jti}.child.other`])).toBe(true);

    const key = generatePrivateKey('EdDSA');
    const { jwk, thumbprint } = key.publicKey;
    refused(await revoke('cms/alice', `${thumbprint}.x`), 404, 'NoSuchToken');
    const proof = createKeyProof(key, { audience, principal: 'cms/alice', nowMs: Date.now() });
    const url = '/_/v1/tenants/cms/principals/alice/public-keys';
    await api.call('cms/alice', 'POST', url, { jwk, proof });
    refused(await revoke('cms/bob', `${thumbprint}.x`), 404, 'NoSuchToken');
    expect(await revoke('cms/alice', `${thumbprint}.x`)).toMatchObject({ status: 204 });
    expect(api.revocations.has([`${thumbprint}.x`])).toBe(true);
  });

  test('reaches tokens of an outside issuer that were never seen', async () => {
    const mapping = { pathPrefix: '/', principals: {} };
    const trust = {
      url: 'https://sso.example.org',
      audience: 'https://s3.example.org/cms',
      mapping,
    };
    await api.call('cms/boss', 'PUT', '/_/v1/tenants/cms/issuers/s.o', trust);
    const [leaked, fresh] = ['oidc.cms.sDo.leaked', 'oidc.cms.sDo.fresh'];
    for (const [who, id] of [
      ['cms/boss', 'oidc.cms.other.leaked'],
      ['cms/boss', 'oidc.cms.sDo'],
      ['cms/alice', leaked],
      ['atlas/boss', leaked],
    ] as const) {
      refused(await revoke(who, id), 404, 'NoSuchToken');
    }
    expect(await revoke('cms/boss', leaked)).toMatchObject({ status: 204 });
    expect(api.revocations.has([leaked])).toBe(true);
    api.narrow('cms/alice', delegationOf([fresh], 'storage.read:/raw'));
    expect(await revoke('cms/alice', fresh)).toMatchObject({ status: 204 });
    expect(api.revocations.has([fresh])).toBe(true);
  });

  test('who uses a token can end that and what is below, and nothing else', async () => {
    const [own, other] = [await create(), await create()];
    const link = `${own.jti}.link`;
    api.narrow('cms/alice', delegationOf([own.jti, link], 'storage.read:/raw'));
    for (const jti of [own.jti, other.jti, `${own.jti}.links`, `${other.jti}.link`]) {
      refused(await revoke('cms/alice', jti), 404, 'NoSuchToken');
    }
    expect(await revoke('cms/alice', `${link}.below`)).toMatchObject({ status: 204 });
    expect(await revoke('cms/alice', link)).toMatchObject({ status: 204 });
    expect(api.revocations.has([own.jti, link])).toBe(true);
    expect(await stateOf(own.jti)).toBe('valid');
    refused(await api.call('cms/alice', 'GET', tokens), 403, 'AccessDenied');
  });

  test.each([
    ['deactivated', 'PATCH', { active: false }],
    ['deleted', 'DELETE', undefined],
  ])(
    'happens to all that was asked for with an access key that is %s',
    async (_t, method, body) => {
      const url = '/_/v1/tenants/cms/principals/alice/access-keys';
      const { accessKeyId } = (await api.call('cms/alice', 'POST', url)).json;
      const [its, other] = [await create(accessKeyId), await create()];
      await api.call('cms/alice', method, `${url}/${accessKeyId}`, body);
      expect(await stateOf(its.jti)).toBe('revoked');
      expect(await stateOf(other.jti)).toBe('valid');
    },
  );
});
