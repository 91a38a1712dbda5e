// Every way we know to get more out of a token than it gives, through HTTP: each is answered 401 or
// 403 with a documented code, and when all were tried, nothing has changed.
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hashToken } from '#bursar/authz/tokens/chain.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { type Claims, claimsOf, encode, forgeLast, linkType } from '../authz/tokens/fixture.ts';
import { type Answer, callNative, elementOf, exchange } from '../protocol/target.ts';
import {
  aliceKey,
  carolKey,
  DelegationRig,
  describeAttacks,
  eveKey,
  hour,
  jobKey,
  shrink,
  strangerKey,
  subJobKey,
} from './delegation-rig.ts';

let rig: DelegationRig;
/** What Alice has before the attacks. */
let before: unknown;

beforeAll(async () => {
  rig = await DelegationRig.start();
  before = await rig.stateOfAlice();
});

afterAll(() => rig?.target.stop());

/** A link that says what one likes, with a signature that is no one's. */
function unsigned(header: Claims, sign: (input: string) => string): string {
  const input = `${encode({ typ: linkType, ...header })}.${encode(claimsOf(rig.open()))}`;
  return `${input}.${sign(input)}`;
}

const zeros = () => Buffer.alloc(64).toString('base64url');
const withPublicKey = (input: string) =>
  createHmac('sha256', Buffer.from(aliceKey.publicKey.jwk.x, 'base64url'))
    .update(input)
    .digest('base64url');
const forged = (header: Claims) => rig.bear(forgeLast(rig.open(), strangerKey, {}, header));

describeAttacks('a signature', [
  ['none', '401 InvalidBearerToken Header', () => rig.bear(unsigned({ alg: 'none' }, zeros))],
  [
    'an empty one',
    '401 InvalidBearerToken Malformed',
    () => rig.bear(unsigned({ alg: 'none' }, () => '')),
  ],
  [
    'an HMAC with the public key as its secret',
    '401 InvalidBearerToken Header',
    () => rig.bear(unsigned({ alg: 'HS256' }, withPublicKey)),
  ],
  ['a stranger’s', '401 InvalidBearerToken Signature', () => forged({})],
  [
    'a stranger’s, with the key in the header',
    '401 InvalidBearerToken Header',
    () => forged({ jwk: strangerKey.publicKey.jwk }),
  ],
  [
    'a stranger’s, with where to find the key',
    '401 InvalidBearerToken Header',
    () => forged({ jku: `${rig.target.endpoint}/raw/foo` }),
  ],
  [
    'a stranger’s, in the name of the gateway’s key',
    '401 InvalidBearerToken Signature',
    () =>
      rig.bear(
        forgeLast(rig.open(), strangerKey, { iss: rig.target.endpoint }, { kid: rig.gatewayKid }),
      ),
  ],
  [
    'of Alice, in the name of the gateway’s key',
    '401 InvalidBearerToken Signature',
    () =>
      rig.bear(
        forgeLast(rig.open(), aliceKey, { iss: rig.target.endpoint }, { kid: rig.gatewayKid }),
      ),
  ],
  [
    'of a key that is enrolled for another principal',
    '401 InvalidBearerToken Signature',
    () => rig.bear(rig.open({ key: carolKey })),
  ],
  [
    'of a key that is enrolled in another tenant',
    '401 InvalidBearerToken Signature',
    () => rig.bear(rig.open({ key: eveKey })),
  ],
  [
    'of Alice, who says that she is an admin',
    '401 InvalidBearerToken Signature',
    () => rig.bear(rig.open({ subject: 'cms/boss' })),
  ],
]);

/** A child of an honest parent, but for what is changed in it. */
function child(change: Claims): Promise<Answer> {
  const parent = rig.issue({ depthMax: 2 });
  return rig.bear(forgeLast(shrink(parent), jobKey, change));
}

const inSeconds = (timeMs: number) => Math.floor(timeMs / 1000);

describeAttacks('a claim', [
  [
    'expired',
    '401 ExpiredBearerToken Expired',
    () => rig.bear(rig.open({ nowMs: Date.now() - 2 * hour, expiresAtMs: Date.now() - 1000 })),
  ],
  [
    'not yet valid',
    '401 InvalidBearerToken NotYetValid',
    () => rig.bear(rig.open({ notBeforeMs: Date.now() + hour / 2 })),
  ],
  [
    'for another gateway',
    '401 InvalidBearerToken Audience',
    () => rig.bear(rig.open({ audience: 'https://s3.example.org' })),
  ],
  [
    'the same claim twice',
    '401 InvalidBearerToken Malformed',
    () => {
      const [header, , signature] = rig.open().split('.');
      const claims = JSON.stringify(claimsOf(rig.open()));
      return rig.bear(
        `${header}.${encode(`{"scope":"storage.read:/",${claims.slice(1)}`)}.${signature}`,
      );
    },
  ],
  ['an unknown constraint', '401 InvalidBearerToken Claims', () => child({ max_reads: 1 })],
  [
    'an unknown condition',
    '401 InvalidBearerToken Claims',
    () => child({ conditions: { weekdays: ['mon'] } }),
  ],
  ['a wider scope', '401 InvalidBearerToken Widened', () => child({ scope: 'storage.read:/raw' })],
  [
    '/foobar in /foo',
    '401 InvalidBearerToken Widened',
    () => child({ scope: 'storage.read:/raw/foobar' }),
  ],
  [
    'modify in create',
    '401 InvalidBearerToken Widened',
    () => child({ scope: 'storage.modify:/raw/new' }),
  ],
  ['administration', '401 InvalidBearerToken Widened', () => child({ scope: 'bursar.admin:/' })],
  ['..', '401 InvalidBearerToken Scope', () => child({ scope: 'storage.read:/raw/foo/../secret' })],
  [
    '%2e%2e',
    '401 InvalidBearerToken Scope',
    () => child({ scope: 'storage.read:/raw/foo/%2e%2e/secret' }),
  ],
  ['%2F', '401 InvalidBearerToken Scope', () => child({ scope: 'storage.read:/raw/foo%2F..' })],
  ['%252F', '401 InvalidBearerToken Scope', () => child({ scope: 'storage.read:/raw/foo%252F' })],
  [
    'a scope without a path',
    '401 InvalidBearerToken Scope',
    () => child({ scope: 'storage.read' }),
  ],
  [
    'a longer life than its parent',
    '401 InvalidBearerToken Widened',
    () => child({ exp: inSeconds(Date.now() + 2 * hour) }),
  ],
  [
    'an earlier issue than its parent',
    '401 InvalidBearerToken Widened',
    () => child({ iat: inSeconds(Date.now() - hour) }),
  ],
  ['a skipped depth', '401 InvalidBearerToken Depth', () => child({ del_depth: 2 })],
  [
    'more depth than its parent',
    '401 InvalidBearerToken Widened',
    () => child({ del_max_depth: 3 }),
  ],
  ['another principal', '401 InvalidBearerToken Parent', () => child({ sub: 'cms/boss' })],
]);

describeAttacks('a chain', [
  [
    'reordered',
    '401 InvalidBearerToken Depth',
    () => {
      const [first, second, third] = rig.threeLinks();
      return rig.bear([first, third, second].join('~'));
    },
  ],
  [
    'without a link in its middle',
    '401 InvalidBearerToken Depth',
    () => {
      const [first, , third] = rig.threeLinks();
      return rig.bear([first, third].join('~'));
    },
  ],
  [
    'with the link of another chain',
    '401 InvalidBearerToken Parent',
    () => rig.bear([rig.threeLinks()[0], shrink(rig.issue()).split('~')[1]].join('~')),
  ],
  [
    'without its narrowest link, by who only holds what was handed on',
    '401 InvalidProof Missing',
    () => rig.bear(rig.threeLinks()[0]),
  ],
  [
    'without its narrowest link, with the proof of the key that was handed on',
    '401 InvalidProof Key',
    () => {
      const [token] = rig.threeLinks();
      return rig.bear(token, { headers: rig.prove(token, {}, { key: subJobKey }) });
    },
  ],
  [
    'passed on by who has it, and not its key',
    '401 InvalidBearerToken Signature',
    () => rig.bear(forgeLast(shrink(rig.issue()), subJobKey, {})),
  ],
  [
    'that goes on behind a link that nobody may pass on',
    '401 InvalidBearerToken Parent',
    () => {
      const parent = rig.open({ depthMax: 3 });
      const change = {
        par_hash: hashToken(parent.split('.').slice(0, 2).join('.')),
        jti: `${claimsOf(parent).jti}.x`,
      };
      return rig.bear(forgeLast(`${parent}~${shrink(rig.issue()).split('~')[1]}`, jobKey, change));
    },
  ],
  [
    'of 10,000 links',
    '401 InvalidBearerToken TooLarge',
    () => rig.bear(`${rig.issue()}${'~'.repeat(9_999)}`),
  ],
  [
    'of 30 kB',
    '401 InvalidBearerToken TooLarge',
    () => rig.bear(`${rig.open()}${'A'.repeat(29_000)}`),
  ],
]);

describeAttacks('a proof', [
  ['none', '401 InvalidProof Missing', () => rig.bear(rig.issue())],
  ['of another key', '401 InvalidProof Key', () => rig.misuse({}, {}, { key: strangerKey })],
  ['of another method', '401 InvalidProof Signature', () => rig.misuse({}, { method: 'DELETE' })],
  ['of another path', '401 InvalidProof Signature', () => rig.misuse({}, { path: '/raw/foo' })],
  [
    'of another query',
    '401 InvalidProof Signature',
    () => rig.misuse({}, { path: '/raw/foo/a?response-content-type=text/html' }),
  ],
  [
    'of another host',
    '401 InvalidProof Signature',
    () => rig.misuse({}, { headers: { host: 'localhost' } }),
  ],
  [
    'of no body, with one',
    '401 InvalidProof Uncovered',
    () =>
      rig.misuse(
        { method: 'PUT', path: '/raw/new/y' },
        { method: 'PUT', path: '/raw/new/y', body: 'evil' },
      ),
  ],
  [
    'with a header added that copies',
    '401 InvalidProof Uncovered',
    () => {
      const put = { method: 'PUT', path: '/raw/new/y' };
      return rig.misuse(put, { ...put, headers: { 'x-amz-copy-source': '/raw/secret' } });
    },
  ],
  [
    'of yesterday',
    '401 InvalidProof Time',
    () => rig.misuse({}, {}, { nowMs: Date.now() - 24 * hour }),
  ],
  [
    'by DPoP, of another method',
    '401 InvalidProof Request',
    async () => {
      const token = rig.issue();
      const { authorization, dpop } = rig.prove(token, {}, { kind: 'dpop' }) as Record<
        string,
        string
      >;
      return rig.bear(token, { method: 'DELETE', headers: { authorization, dpop } as never });
    },
  ],
  [
    'used before',
    '401 InvalidProof Replayed',
    async () => {
      const token = rig.issue();
      const put = { method: 'PUT', path: '/raw/new/there', body: 'evil' };
      const headers = { ...rig.prove(token, put), 'content-length': '4' };
      const first = await exchange(rig.target, 'PUT', put.path, headers, put.body);
      // What is there may not be overwritten: the proof is used up none the less.
      expect(first.status).toBe(403);
      return exchange(rig.target, 'PUT', put.path, headers, put.body);
    },
  ],
]);

const reading = (path: string, scope = 'storage.read:/raw/foo') =>
  rig.bear(rig.open({ scope: parseScope(scope) }), { path });
const copying = (path: string, source: string, query = '') =>
  rig.bear(rig.open({ scope: parseScope('storage.read:/raw/in storage.create:/raw/new') }), {
    ...{ method: 'PUT', path: `${path}${query}`, headers: { 'x-amz-copy-source': source } },
  });

describeAttacks('a request outside of the scope', [
  ['/foobar by /foo', '403 AccessDenied', () => reading('/raw/foobar')],
  [
    'the object /foo by /foo/',
    '403 AccessDenied',
    () => reading('/raw/foo', 'storage.read:/raw/foo/'),
  ],
  ['a slash encoded twice', '403 AccessDenied', () => reading('/raw/foo%252Fa')],
  ['a Cyrillic o', '403 AccessDenied', () => reading(`/raw/f${encodeURIComponent('о')}o/a`)],
  ['full-width letters', '403 AccessDenied', () => reading(`/raw/${encodeURIComponent('ｆoo')}/a`)],
  [
    'a combining mark',
    '403 AccessDenied',
    () => reading(`/raw/foo${encodeURIComponent('\u0301')}`),
  ],
  ['an empty segment', '403 AccessDenied', () => reading('/raw//foo/a')],
  ['.. in front', '403 AccessDenied', () => reading('/raw/../raw/foo/a')],
  ['another case', '403 AccessDenied', () => reading('/raw/FOO/a')],
  ['a listing of all', '403 AccessDenied', () => reading('/raw')],
  ['a listing of what begins alike', '403 AccessDenied', () => reading('/raw?prefix=foo')],
  ['the bucket by its tenant’s name', '403 AccessDenied', () => reading('/cms:raw/secret')],
  [
    'another tenant’s bucket',
    '403 AccessDenied',
    () => reading('/atlas:raw/foo', 'storage.read:/'),
  ],
  ['a copy’s source', '403 AccessDenied', () => copying('/raw/new/y', '/raw/secret')],
  ['a copy’s source, encoded', '403 AccessDenied', () => copying('/raw/new/y', '/raw/%73ecret')],
  ['a copy’s source by ..', '403 AccessDenied', () => copying('/raw/new/y', '/raw/x/../secret')],
  ['a copy’s target', '403 AccessDenied', () => copying('/raw/foo/y', '/raw/in/source')],
  [
    'the source of a part',
    '403 AccessDenied',
    () => copying('/raw/new/x', '/raw/secret', `?partNumber=1&uploadId=${rig.uploadId}`),
  ],
  ['overwriting by create', '403 AccessDenied', () => copying('/raw/new/there', '/raw/in/source')],
  [
    'deleting by create',
    '403 AccessDenied',
    () => rig.bear(rig.open(), { method: 'DELETE', path: '/raw/new/there' }),
  ],
  [
    'administration',
    '403 AccessDenied',
    () =>
      rig.bear(rig.open(), {
        method: 'POST',
        path: '/_/v1/tenants/cms/principals/alice/access-keys',
      }),
  ],
  [
    'a share link',
    '403 AccessDenied',
    () => {
      const body = JSON.stringify({ bucket: 'raw', key: 'foo/a' });
      const headers = { 'content-type': 'application/json' };
      const token = rig.open({ scope: parseScope('storage.read:/ bursar.admin:/') });
      return rig.bear(token, { method: 'POST', path: '/_/v1/shares', headers, body });
    },
  ],
  [
    'from another network, which X-Forwarded-For names',
    '403 AccessDenied',
    () => {
      const token = rig.open({ conditions: { networks: ['192.0.2.0/24'] } });
      const headers = { 'x-forwarded-for': '192.0.2.1', forwarded: 'for=192.0.2.1' };
      return rig.bear(token, { headers });
    },
  ],
]);

const wide = JSON.stringify({
  Version: '2012-10-17',
  Statement: [{ Effect: 'Allow', Action: '*', Resource: '*' }],
});

describeAttacks('temporary keys', [
  [
    'of an expired token',
    '401 ExpiredTokenException',
    () => rig.trade(rig.open({ nowMs: Date.now() - 2 * hour, expiresAtMs: Date.now() - 1000 })),
  ],
  [
    'of a forged token',
    '401 InvalidIdentityToken',
    () => rig.trade(unsigned({ alg: 'HS256' }, withPublicKey)),
  ],
  [
    'of a token that is bound to a key, without proof',
    '401 InvalidProof',
    () => rig.trade(rig.issue()),
  ],
  [
    'in another tenant',
    '403 AccessDenied',
    () => rig.trade(rig.open(), { RoleArn: 'arn:aws:iam::atlas:role/any' }),
  ],
  [
    'with a policy that is wider than the token',
    '403 AccessDenied',
    async () => rig.readWith(await rig.trade(rig.open(), { Policy: wide }), '/raw/secret'),
  ],
  [
    'outside of the scope',
    '403 AccessDenied',
    async () => rig.readWith(await rig.trade(rig.open()), '/raw/foobar'),
  ],
]);

describe('temporary keys whose session token was changed', () => {
  const flipped = (token: string) => (token[90] === 'A' ? 'B' : 'A');
  it.each([
    ['in its middle', (own: string) => `${own.slice(0, 90)}${flipped(own)}${own.slice(91)}`],
    ['to its half', (own: string) => own.slice(0, own.length / 2)],
    ['to that of other keys', (_own: string, other: string) => other],
  ])('%s are refused', async (_title, change) => {
    const [keys, others] = [await rig.trade(rig.open()), await rig.trade(rig.open())];
    const [own = '', other = ''] = [keys, others].map(({ text }) =>
      elementOf(text, 'SessionToken'),
    );
    const { status, code } = await rig.readWith(keys, '/raw/foo/a', change(own, other));
    // As on AWS, whose SDKs know this pair.
    expect([status, code]).toEqual([400, 'InvalidToken']);
  });
});

describe('what was good a moment ago', () => {
  const refused = async (answer: Promise<Answer>, expected: [number, string]) => {
    const { status, code } = await answer;
    expect([status, code]).toEqual(expected);
  };

  it('is not, once its parent is revoked: tokens below it and temporary keys', async () => {
    const parent = rig.issue();
    const below = shrink(parent);
    const traded = await rig.trade(below);
    expect((await rig.bear(below)).status).toBe(200);
    expect((await rig.readWith(traded, '/raw/foo/a')).status).toBe(200);
    await callNative(rig.alice, 'DELETE', `/_/v1/tokens/${claimsOf(parent).jti}`);
    await refused(rig.bear(below), [403, 'AccessDenied']);
    await refused(rig.readWith(traded, '/raw/foo/a'), [403, 'AccessDenied']);
    await refused(rig.trade(below), [403, 'AccessDenied']);
  });

  it('is not, while who delegated is deactivated', async () => {
    const token = rig.open({ key: carolKey, subject: 'cms/carol' });
    const traded = await rig.trade(token);
    const carol = '/_/v1/tenants/cms/principals/carol';
    expect((await rig.bear(token)).status).toBe(200);
    await callNative(rig.boss, 'PATCH', carol, { active: false });
    await refused(rig.bear(token), [401, 'InvalidBearerToken']);
    await refused(rig.readWith(traded, '/raw/foo/a'), [403, 'InvalidAccessKeyId']);
    await callNative(rig.boss, 'PATCH', carol, { active: true });
    expect((await rig.bear(token)).status).toBe(200);
  });
});

describe('a token of a size that no header has', () => {
  it('is refused before it is read', async () => {
    const { status } = await rig.bear('A'.repeat(1024 * 1024)).catch(() => ({ status: 'cut' }));
    expect([400, 'cut']).toContain(status);
    // In a form it has as little room.
    const traded = await rig.trade('A'.repeat(1024 * 1024)).catch(() => ({ status: 'cut' }));
    expect([400, 'cut']).toContain(traded.status);
  });
});

describe('after all of them', () => {
  it('what Alice has is what she had, and an honest holder still gets it', async () => {
    expect(await rig.stateOfAlice()).toEqual(before);
    expect((await rig.bear(rig.open())).text).toBe('content of foo/a');
    const token = rig.issue();
    expect((await rig.bear(token, { headers: rig.prove(token, {}) })).text).toBe(
      'content of foo/a',
    );
  });
});
