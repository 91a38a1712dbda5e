// `bursar credentials` on the command line: what AWS's clients read from it, and what people do.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { issueToken } from '#bursar/authz/tokens/issue.js';
import { generatePrivateKey, renderPrivateKey } from '#bursar/authz/tokens/keys.js';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { callNative, type Target } from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const key = generatePrivateKey('ES256');
let gateway: ServedGateway;
let place: Workplace;

beforeAll(async () => {
  gateway = await startServedGateway();
  place = new Workplace();
  const { accessKeyId, secretAccessKey, endpoint } = gateway;
  const target = { endpoint, keys: { accessKeyId, secretAccessKey } } as Target;
  const asked = { scope: 'storage.read:/raw', expiresIn: 7200, cnf: { jwk: key.publicKey.jwk } };
  const { token } = await callNative(target, 'POST', '/_/v1/tokens', asked);
  write('token', `${token}\n`);
  write('key', renderPrivateKey(key, 'pem'));
});

afterAll(async () => {
  place.remove();
  await gateway.stop();
});

function write(name: string, text: string): void {
  writeFileSync(join(place.folder, name), text);
}

async function refusal(line: string): Promise<{ code: number | null; stderr: string }> {
  const { code, stdout, stderr } = await place.run(line.split(' '));
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^bursar: [^\n]+\n$/);
  return { code, stderr };
}

test('prints what a credential_process prints, and nothing else', async () => {
  const statement = { Effect: 'Allow', Action: 's3:GetObject', Resource: 'arn:aws:s3:::raw/*' };
  write('policy', JSON.stringify({ Version: '2012-10-17', Statement: statement }, null, 2));
  const line = 'credentials --token-file token --key key --duration 15m --policy policy';
  const beganMs = Date.now();
  const { code, stdout, stderr } = await place.run(line.split(' '));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const keys = JSON.parse(stdout);
  expect(keys).toEqual({
    Version: 1,
    AccessKeyId: expect.stringMatching(/^ASIA/),
    SecretAccessKey: expect.any(String),
    SessionToken: expect.any(String),
    Expiration: expect.stringMatching(/Z$/),
  });
  const lifeMs = Date.parse(keys.Expiration) - beganMs;
  expect(lifeMs).toBeGreaterThan(14 * 60_000);
  expect(lifeMs).toBeLessThan(16 * 60_000);
});

test('says why the gateway refuses', async () => {
  const { code, stderr } = await refusal('credentials --token-file token');
  expect(code).toBe(1);
  expect(stderr).toContain('(InvalidProof)');
  write('policy', '{}');
  const policy = await refusal('credentials --token-file token --key key --policy policy');
  expect(policy.stderr).toContain('(MalformedPolicyDocument)');
});

test('needs no more than the token, unless an outside issuer made it', async () => {
  write('outside', 'eyJhbGciOiJSUzI1NiJ9.e30.AA');
  const outside = await refusal('credentials --token-file outside');
  expect(outside).toMatchObject({ code: 2, stderr: expect.stringContaining('--gateway') });
  const line = `credentials --token-file outside --tenant default --gateway ${gateway.endpoint}`;
  const asked = await refusal(line);
  expect(asked).toMatchObject({ code: 1, stderr: expect.stringContaining('InvalidIdentityToken') });
});

test('says that the gateway cannot be reached, and where it was looked for', async () => {
  const { token } = issueToken({
    ...{ key, subject: 'default/admin', audience: 'http://127.0.0.1:1', nowMs: Date.now() },
    ...{ scope: parseScope('storage.read:/raw'), expiresAtMs: Date.now() + 60_000 },
  });
  write('elsewhere', token);
  const { code, stderr } = await refusal('credentials --token-file elsewhere');
  expect(code).toBe(1);
  expect(stderr).toContain('http://127.0.0.1:1 (ECONNREFUSED)');
});
