// Where keys come from, and what an issuer that misbehaves costs: a refusal, soon, and only for its
// own tokens.
import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { keysFreshMs, keysKeptMs, keysProblem, retryMs } from '#bursar/authz/oidc/issuer-keys.js';
import { FakeIssuer, makeKey, openTrust, signToken, startMs, type Trust } from './fixture.ts';

const keyOld = makeKey('ES256', 'old');
const keyNew = makeKey('EdDSA', 'new');
const longS = 7 * 24 * 3600;

let issuer: FakeIssuer;
let patient: Trust;
/** Gives an issuer 300 ms to answer; a failure takes as long, however soon it happens. */
let hasty: Trust;
/** Either of them. */
let trust: Trust;

beforeAll(async () => {
  patient = await openTrust();
  hasty = await openTrust({ privateHosts: ['127.0.0.1:*'], fetchMsMax: 300 });
});

afterAll(() => {
  patient.close();
  hasty.close();
});

beforeEach(async () => {
  issuer = await FakeIssuer.start(keyOld);
  trust = patient;
  await trust.trust('issuer', issuer.url);
});

afterEach(() => issuer.stop());

async function hurry(): Promise<void> {
  trust = hasty;
  await trust.trust('issuer', issuer.url);
}

/** A token that is like no other before. */
let made = 0;
function fresh(key = keyOld): string {
  return signToken(key, issuer.claims({ jti: String(made++), exp: startMs / 1000 + longS }));
}

async function outcome(token: string, nowMs: number): Promise<string> {
  try {
    const { actor } = await trust.outside.authenticate(token, nowMs);
    return actor.principal.id;
  } catch (error) {
    const { code, fields } = error as { code: string; fields: Record<string, string> };
    return fields.Reason ?? code;
  }
}

/** Of the last try, as the operator is told; its tenant is told that it failed. */
function problem(): string | null {
  const { problem: told } = trust.outside.keysState({ tenant: 'cms', url: issuer.url });
  if (told === null) return null;
  expect(told).toBe(keysProblem);
  return trust.problems.at(-1) ?? '';
}

describe('keys are asked for', () => {
  test('when a first token comes, once for all that come at once', async () => {
    expect(issuer.asked).toEqual([]);
    const tokens = Array.from({ length: 20 }, () => fresh());
    const outcomes = await Promise.all(tokens.map((token) => outcome(token, startMs)));
    expect(new Set(outcomes)).toEqual(new Set(['cms/alice']));
    expect(issuer.asked).toEqual(['/.well-known/openid-configuration', '/jwks']);
  });

  test('again for a key that is new, but not more often than in 30 seconds', async () => {
    expect(await outcome(fresh(), startMs)).toBe('cms/alice');
    issuer.keys = [keyNew];
    issuer.asked.length = 0;
    expect(await outcome(fresh(keyNew), startMs + retryMs - 1)).toBe('Signature');
    expect(issuer.asked).toEqual([]);
    expect(await outcome(fresh(keyNew), startMs + retryMs)).toBe('cms/alice');
    expect(await outcome(fresh(keyOld), startMs + retryMs)).toBe('Signature');
    const flood = Array.from({ length: 20 }, () => fresh(makeKey('EdDSA', `forged ${made++}`)));
    for (const token of flood) await outcome(token, startMs + retryMs + 1);
    expect(issuer.asked.length).toBe(2);
  });

  test('again after ten minutes: a withdrawn key ends, for tokens in use too', async () => {
    const token = fresh();
    expect(await outcome(token, startMs)).toBe('cms/alice');
    issuer.keys = [keyNew];
    expect(await outcome(token, startMs + keysFreshMs - 1)).toBe('cms/alice');
    expect(await outcome(token, startMs + keysFreshMs)).toBe('Signature');
  });
});

describe('an issuer that is down', () => {
  test('is asked again after 30 seconds, and refused by its reason until then', async () => {
    issuer.answer = (_request, response) => response.writeHead(503).end();
    expect(await outcome(fresh(), startMs)).toBe('IssuerKeys');
    expect(await outcome(fresh(), startMs + retryMs - 1)).toBe('IssuerKeys');
    expect(issuer.asked.length).toBe(1);
    expect(problem()).toMatch(/answered 503$/);
    issuer.answer = null;
    expect(await outcome(fresh(), startMs + retryMs)).toBe('cms/alice');
    expect(problem()).toBe(null);
  });

  test('leaves its last keys good for a day', async () => {
    expect(await outcome(fresh(), startMs)).toBe('cms/alice');
    issuer.answer = (request) => request.socket.destroy();
    expect(await outcome(fresh(), startMs + keysKeptMs - 1)).toBe('cms/alice');
    expect(await outcome(fresh(), startMs + keysKeptMs)).toBe('IssuerKeys');
  });

  test('keeps nobody waiting a second time whose key is known', async () => {
    await hurry();
    expect(await outcome(fresh(), startMs)).toBe('cms/alice');
    let hasEnded = false;
    issuer.answer = (_request, response) => response.once('close', () => (hasEnded = true));
    expect(await outcome(fresh(), startMs + keysFreshMs)).toBe('cms/alice');
    expect(hasEnded).toBe(true);
    hasEnded = false;
    expect(await outcome(fresh(), startMs + keysFreshMs + retryMs)).toBe('cms/alice');
    expect(hasEnded).toBe(false);
    await expect.poll(() => hasEnded).toBe(true);
  });

  test('and any other that fails are told no sooner than one that hangs', async () => {
    await hurry();
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const { port } = closed.address() as AddressInfo;
    await new Promise((done) => closed.close(done));
    const urls = [`http://127.0.0.1:${port}`, 'http://192.168.0.1:8080', 'http://nowhere.invalid'];
    for (const [i, url] of urls.entries()) await trust.trust(`other${i}`, url);
    issuer.answer = (_request, response) => response.end('no JSON');
    const asked = [issuer.url, ...urls].map(async (url) => {
      const sinceMs = performance.now();
      expect(await outcome(issuer.token({ iss: url }), startMs)).toBe('IssuerKeys');
      expect(performance.now() - sinceMs).toBeGreaterThan(300);
      return trust.outside.keysState({ tenant: 'cms', url }).problem;
    });
    // Who looks meanwhile is told nothing either.
    await expect.poll(() => issuer.asked.length).toBe(1);
    expect(problem()).toBe(null);
    expect(new Set(await Promise.all(asked))).toEqual(new Set([keysProblem]));
  });

  test('does not stop another', async () => {
    await hurry();
    const other = await FakeIssuer.start(keyNew);
    try {
      await trust.trust('other', other.url);
      issuer.answer = () => {};
      const waiting = outcome(fresh(), startMs);
      await expect(trust.outside.authenticate(other.token(), startMs)).resolves.toBeDefined();
      expect(await waiting).toBe('IssuerKeys');
      expect(problem()).toMatch(/did not come within 300 ms$/);
    } finally {
      await other.stop();
    }
  });
});

describe('nothing is taken', () => {
  const listening = async (server: Server) => {
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };
  const json = (response: ServerResponse, value: unknown) => response.end(JSON.stringify(value));

  test('from where a redirect leads', async () => {
    issuer.answer = ({ url = '' }, response) => {
      if (url === '/jwks') response.writeHead(302, { location: '/elsewhere' }).end();
      else json(response, issuer.document(url === '/elsewhere' ? '/jwks' : url));
    };
    expect(await outcome(fresh(), startMs)).toBe('IssuerKeys');
    expect(issuer.asked).not.toContain('/elsewhere');
  });

  test('from another server without TLS', async () => {
    let asked = 0;
    const elsewhere = createServer((_request, response) => {
      asked++;
      json(response, issuer.document('/jwks'));
    });
    const jwks_uri = await listening(elsewhere);
    issuer.answer = (_request, response) => json(response, { issuer: issuer.url, jwks_uri });
    expect(await outcome(fresh(), startMs)).toBe('IssuerKeys');
    expect(asked).toBe(0);
    elsewhere.close();
  });

  test('of a configuration that is another issuer’s', async () => {
    issuer.answer = ({ url = '' }, response) =>
      json(response, { ...issuer.document(url), issuer: `${issuer.url}/` });
    expect(await outcome(fresh(), startMs)).toBe('IssuerKeys');
    expect(problem()).toMatch(/is the configuration of another issuer$/);
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['larger than 256 KiB', (response) => response.end(`{"keys":[],"x":"${'x'.repeat(300_000)}"}`)],
    ['of 101 keys', (response) => json(response, { keys: new Array(101).fill({ kty: 'EC' }) })],
    ['that is no JSON', (response) => response.end('<html>')],
    ['with a member twice', (response) => response.end('{"keys":[],"keys":[]}')],
  ])('of a key set %s', async (_title, answerKeys) => {
    issuer.answer = ({ url = '' }, response) => {
      if (url === '/jwks') answerKeys(response);
      else json(response, issuer.document(url));
    };
    expect(await outcome(fresh(), startMs)).toBe('IssuerKeys');
  });

  test('of a key set that never ends', async () => {
    await hurry();
    issuer.answer = ({ url = '' }, response) => {
      if (url !== '/jwks') return json(response, issuer.document(url));
      const drip = setInterval(() => response.write(' '), 20);
      return response.on('close', () => clearInterval(drip));
    };
    expect(await outcome(fresh(), startMs)).toBe('IssuerKeys');
  });

  test('that is no public signing key', async () => {
    const jwk = keyOld.publicKey.export({ format: 'jwk' });
    const secret = keyOld.privateKey.export({ format: 'jwk' });
    const odd = [
      { ...jwk, x: 'AAAA' },
      { ...jwk, x: 7 },
      { ...jwk, key_ops: ['verify', 'sign'] },
    ];
    const unfit = [{ ...jwk, use: 'enc' }, { ...secret }, { kty: 'oct', k: 'AAAA' }];
    for (const key of [...unfit, ...odd]) {
      const other = await FakeIssuer.start(keyOld);
      other.answer = ({ url = '' }, response) =>
        json(response, url === '/jwks' ? { keys: [{ kid: 'old', ...key }] } : other.document(url));
      await trust.trust('other', other.url);
      await expect(trust.outside.authenticate(other.token(), startMs)).rejects.toMatchObject({
        fields: { Reason: 'Signature' },
      });
      await other.stop();
    }
  });

  test('from this machine, but from a host and port that the operator named', async () => {
    const { port } = new URL(issuer.url);
    // Neither the port of https nor another one.
    const others = ['127.0.0.1', `127.0.0.1:${Number(port) - 1}`, 'localhost.example'];
    const strict = await openTrust({ privateHosts: others });
    await strict.trust('issuer', issuer.url);
    const localhost = issuer.url.replace('127.0.0.1', 'localhost');
    await strict.trust('named', localhost);
    for (const iss of [issuer.url, localhost]) {
      const token = issuer.token({ iss });
      await expect(strict.outside.authenticate(token, startMs)).rejects.toMatchObject({
        fields: { Reason: 'IssuerKeys' },
      });
      expect(strict.outside.keysState({ tenant: 'cms', url: iss }).problem).toBe(keysProblem);
      const { hostname } = new URL(iss);
      const reason = `${hostname} is at an address that is not a public one`;
      expect(strict.problems.at(-1)).toMatch(
        new RegExp(`^keys of the issuer cms/\\w+: ${reason}$`),
      );
    }
    expect(issuer.asked).toEqual([]);
    strict.close();
    const named = await openTrust({ privateHosts: [`127.0.0.1:${port}`] });
    await named.trust('issuer', issuer.url);
    await named.outside.authenticate(issuer.token(), startMs);
    named.close();
  });

  test('from a place in the network that a public issuer names for them', async () => {
    const { port } = new URL(issuer.url);
    const strict = await openTrust({ privateHosts: [`127.0.0.1:${port}`] });
    const inside = createServer(() => expect.fail('was asked')).listen(0, '127.0.0.1');
    await once(inside, 'listening');
    const { port: other } = inside.address() as AddressInfo;
    const places = ['2130706433', '0x7f.1', '127.1', '[::ffff:127.0.0.1]', 'localhost', '0.0.0.0'];
    await strict.trust('issuer', issuer.url);
    for (const [i, host] of places.entries()) {
      issuer.answer = ({ url = '' }, response) =>
        json(response, { ...issuer.document(url), jwks_uri: `https://${host}:${other}/jwks` });
      const nowMs = startMs + i * 60_000;
      const token = issuer.tokenAt(nowMs);
      await expect(strict.outside.authenticate(token, nowMs)).rejects.toMatchObject({
        fields: { Reason: 'IssuerKeys' },
      });
      expect(strict.problems.at(-1)).toContain('is at an address that is not a public one');
    }
    issuer.answer = ({ url = '' }, response) =>
      json(response, { ...issuer.document(url), jwks_uri: 'https://user@example.org/jwks' });
    const lateMs = startMs + places.length * 60_000;
    const late = strict.outside.authenticate(issuer.tokenAt(lateMs), lateMs);
    await expect(late).rejects.toMatchObject({ fields: { Reason: 'IssuerKeys' } });
    expect(strict.problems.at(-1)).toContain('has a user');
    inside.close();
    strict.close();
  });
});

describe('what is known of a token is forgotten', () => {
  test('when its issuer is trusted no longer, or with something else', async () => {
    const token = fresh();
    expect(await outcome(token, startMs)).toBe('cms/alice');
    await trust.trust('issuer', issuer.url, { principals: { 'subject-of-alice': 'bob' } });
    expect(await outcome(token, startMs)).toBe('cms/bob');
    await trust.apply({ kind: 'deleteIssuer', tenant: 'cms', name: 'issuer' });
    expect(await outcome(token, startMs)).toBe('Signature');
  });

  test('when its principal is deactivated or made an operator', async () => {
    const token = fresh();
    const update = { kind: 'updatePrincipal', tenant: 'cms', name: 'alice' } as const;
    expect(await outcome(token, startMs)).toBe('cms/alice');
    await trust.apply({ ...update, active: false });
    expect(await outcome(token, startMs)).toBe('AccessDenied');
    await trust.apply({ ...update, active: true });
    expect(await outcome(token, startMs)).toBe('cms/alice');
    await trust.apply({ ...update, role: 'operator' });
    expect(await outcome(token, startMs)).toBe('AccessDenied');
    await trust.apply({ ...update, role: 'member' });
  });

  test('when a group is deleted, whatever grants still name it', async () => {
    const token = signToken(keyOld, issuer.claims({ groups: ['/cms/shifters'] }));
    const subjects = async () =>
      (await trust.outside.authenticate(token, startMs)).actor.subjects.join();
    expect(await subjects()).toContain('group:cms/shifters');
    await trust.apply({ kind: 'deleteGroup', tenant: 'cms', name: 'shifters' });
    expect(await subjects()).not.toContain('group:cms/shifters');
  });
});
