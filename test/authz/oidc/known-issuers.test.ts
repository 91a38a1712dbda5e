// Tokens in the forms that issuers in the field give them, signed by keys of this test's own.
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type Claims,
  FakeIssuer,
  makeKey,
  openTrust,
  signToken,
  startMs,
  type Trust,
} from './fixture.ts';

const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA'];
let issuer: FakeIssuer;
let trust: Trust;

beforeAll(async () => {
  const rsa = makeKey('RS256', 'key of RS256');
  const keys = algorithms.map((alg) => {
    const kid = `key of ${alg}`;
    return /^[RP]S/.test(alg) ? { ...rsa, alg, kid } : makeKey(alg, kid);
  });
  issuer = await FakeIssuer.start(...keys);
  trust = await openTrust();
  await trust.apply({ kind: 'createGroup', tenant: 'cms', name: 'analysis' });
});

afterAll(async () => {
  trust.close();
  await issuer.stop();
});

/** As the issuer's token endpoint made it, but for its key, its URL and its times. */
function authenticate(claims: Claims, header: Claims = {}) {
  const [key] = issuer.keys;
  const token = signToken(key!, { ...issuer.claims(), nbf: undefined, ...claims }, header);
  return trust.outside.authenticate(token, startMs);
}

test.each(algorithms)('%s is understood', async (alg) => {
  await trust.trust('plain', issuer.url);
  const key = issuer.keys.find((one) => one.alg === alg)!;
  const token = signToken(key, issuer.claims({ jti: 'plain-id' }));
  const { delegation } = await trust.outside.authenticate(token, startMs);
  expect(delegation.ids).toEqual(['oidc.cms.plain.plain-id']);
  await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'plain' });
});

test('GitHub Actions: a workflow of one branch acts for a robot', async () => {
  const subject = 'repo:cms-sw/cmssw:ref:refs/heads/main';
  await trust.trust('github', issuer.url, { pathPrefix: '/', principals: { [subject]: 'bob' } });
  const claims = {
    jti: '4f3e9a1c-6a53-4e0e-9d8b-0d4a1f7d1c11',
    sub: subject,
    ref: 'refs/heads/main',
    sha: 'da39a3ee5e6b4b0d3255bfef95601890afd80709',
    repository: 'cms-sw/cmssw',
    repository_owner: 'cms-sw',
    run_id: '1234567890',
    run_attempt: '1',
    event_name: 'push',
    ref_protected: 'true',
    job_workflow_ref: 'cms-sw/cmssw/.github/workflows/publish.yml@refs/heads/main',
    runner_environment: 'github-hosted',
  };
  const { actor, delegation } = await authenticate(claims, { x5t: 'ykNaY4qM_ta4k2TgZOCEYLkcYlA' });
  expect(actor.principal.id).toBe('cms/bob');
  expect(delegation.scope).toBe(null);
  expect(delegation.ids).toEqual(['oidc.cms.github.4f3e9a1c-6a53-4e0e-9d8b-0d4a1f7d1c11']);
  for (const sub of ['repo:cms-sw/cmssw:pull_request', `${subject}2`, subject.toUpperCase()]) {
    await expect(authenticate({ ...claims, sub })).rejects.toMatchObject({ code: 'AccessDenied' });
  }
  await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'github' });
});

test('Keycloak: a user’s groups are theirs here too; its other scopes say nothing', async () => {
  const sub = '2f2c0e3b-6a5b-4b19-9e58-5b9d8a8b1f4e';
  await trust.trust('keycloak', issuer.url, {
    principals: { [sub]: 'alice' },
    groups: { '/cms/shifters': 'shifters', analysis: 'analysis' },
  });
  const { actor, delegation } = await authenticate({
    sub,
    jti: 'onrtac:8c0a4f0e-63a5-4f0e-8a63-1d3a1c6e9a11',
    aud: ['https://bursar.example/cms', 'account'],
    typ: 'Bearer',
    azp: 'analysis-portal',
    sid: 'f7c5c2bb-0b5f-4b51-a3b1-3d1a0a0f7d11',
    acr: '1',
    'allowed-origins': ['https://portal.example'],
    realm_access: { roles: ['offline_access', 'uma_authorization'] },
    resource_access: { account: { roles: ['manage-account'] } },
    scope: 'openid email profile',
    email_verified: true,
    groups: ['/cms/shifters', '/cms/others'],
    preferred_username: 'alice',
  });
  expect(actor.principal.id).toBe('cms/alice');
  expect(actor.subjects).toContain('group:cms/shifters');
  expect(actor.subjects).not.toContain('group:cms/analysis');
  expect(delegation.scope).toContainEqual({ right: 'modify', bucket: 'raw', prefix: '2026' });
  // Its id here is made of a jti that has another form than ours.
  expect(delegation.ids).toEqual([expect.stringMatching(/^oidc\.cms\.keycloak\.[\w-]{43}$/)]);
  await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'keycloak' });
});

test('INDIGO IAM: a WLCG token has what its scopes say below the prefix, and no more', async () => {
  await trust.trust('iam', issuer.url, {
    defaultPrincipal: 'bob',
    groups: { '/cms/production': 'analysis' },
  });
  const claims = {
    'wlcg.ver': '1.0',
    sub: 'b1a0c9c6-2d2e-4f4f-9d6b-2b6a4a6e6c11',
    scope: 'openid offline_access storage.read:/ storage.create:/output compute.read wlcg.groups',
    'wlcg.groups': ['/cms', '/cms/production'],
    client_id: 'b0a5c7ec-0b0f-4f2b-8f0e-7d4a1d2c3b4a',
  };
  const { actor, delegation } = await authenticate(claims, { typ: undefined });
  expect(actor.principal.id).toBe('cms/bob');
  expect(actor.subjects).toContain('group:cms/analysis');
  expect(delegation.scope).toEqual([
    { right: 'read', bucket: 'raw', prefix: '2026/' },
    { right: 'create', bucket: 'raw', prefix: '2026/output' },
  ]);
  await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'iam' });
});

test('CILogon: a subject that is a URL is mapped as it is', async () => {
  const sub = 'http://cilogon.org/serverE/users/12345';
  await trust.trust('cilogon', issuer.url, { principals: { [sub]: 'alice' } });
  const { actor } = await authenticate({
    sub,
    jti: 'https://cilogon.org/oauth2/accessToken/3f1c/1780000000000',
    scope: 'openid profile email org.cilogon.userinfo',
    'wlcg.ver': '1.0',
    isMemberOf: ['CO:members:all'],
  });
  expect(actor.principal.id).toBe('cms/alice');
  await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'cilogon' });
});
