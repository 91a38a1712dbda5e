// Tokens of a real OpenID provider, over HTTP: what it signs is taken for what its mapping says.
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { audience, openTrust, type Trust } from './fixture.ts';

let server: Server;
let url: string;
let trust: Trust;

const secret = 'secret-of-the-client';

beforeAll(async () => {
  server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
  const resource = (alg: string) => ({
    scope: 'storage.read:/ storage.modify:/out openid',
    audience,
    accessTokenFormat: 'jwt',
    accessTokenTTL: 600,
    jwt: { sign: { alg } },
  });
  const provider = new Provider(url, {
    clients: ['subject-of-alice', 'stranger'].map((client_id) => ({
      client_id,
      client_secret: secret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    scopes: ['openid', 'storage.read:/', 'storage.modify:/out'],
    jwks: {
      keys: [
        { ...rsa.export({ format: 'jwk' }), kid: 'rsa', use: 'sig', alg: 'RS256' },
        { ...ec.export({ format: 'jwk' }), kid: 'ec', use: 'sig', alg: 'ES256' },
      ],
    },
    ttl: { ClientCredentials: 600 },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, wanted: string) =>
          resource(wanted.endsWith('?ec') ? 'ES256' : 'RS256'),
      },
    },
    extraTokenClaims: () => ({ 'wlcg.ver': '1.0', 'wlcg.groups': ['/cms/shifters', '/cms'] }),
  });
  server.on('request', provider.callback());
  trust = await openTrust();
  await trust.trust('provider', url);
});

afterAll(() => {
  trust.close();
  server.closeAllConnections();
  server.close();
});

async function ask(client: string, scope: string, resource = audience): Promise<string> {
  const answer = await fetch(`${url}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${client}:${secret}`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope, resource }),
  });
  const { access_token: token } = (await answer.json()) as { access_token: string };
  expect(token).toMatch(/^ey/);
  return token;
}

test.each([
  ['RS256', audience],
  ['ES256', `${audience}?ec`],
])(
  'a token signed with %s acts for its principal, with its groups, within its scopes',
  async (_alg, resource) => {
    const token = await ask('subject-of-alice', 'storage.read:/ storage.modify:/out', resource);
    const { actor, delegation } = await trust.outside.authenticate(token, Date.now());
    expect(actor.principal.id).toBe('cms/alice');
    expect(actor.subjects).toContain('group:cms/shifters');
    expect(delegation.scope).toEqual([
      { right: 'read', bucket: 'raw', prefix: '2026/' },
      { right: 'modify', bucket: 'raw', prefix: '2026/out' },
    ]);
    expect(delegation.ids).toEqual([expect.stringMatching(/^oidc\.cms\.provider\.[\w-]{43}$/)]);
    expect(delegation.expiresAtMs).toBeGreaterThan(Date.now() + 590_000);
  },
);

test('a token without storage scopes has its principal’s rights below the prefix', async () => {
  const token = await ask('subject-of-alice', 'openid');
  const { delegation } = await trust.outside.authenticate(token, Date.now());
  expect(delegation.scope?.map(({ right }) => right)).toEqual(
    expect.arrayContaining(['read', 'modify', 'stage']),
  );
  expect(
    delegation.scope?.every((entry) => entry.bucket === 'raw' && entry.prefix === '2026'),
  ).toBe(true);
});

test('a subject that is mapped to nobody is refused, and known by no other name', async () => {
  const token = await ask('stranger', 'openid');
  await expect(trust.outside.authenticate(token, Date.now())).rejects.toMatchObject({
    code: 'AccessDenied',
  });
});
