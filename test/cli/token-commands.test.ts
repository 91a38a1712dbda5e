// Tokens and keys on the command line, on a machine that reaches no gateway.
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { verifyKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { readPublicKey } from '#bursar/authz/tokens/keys.js';
import { Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const audience = 'https://s3.example.org';
let place: Workplace;

beforeAll(async () => {
  place = new Workplace();
  await run('key new --out alice.jwk');
  await run('key new --out job.pem --algorithm p256 --format pem');
  const issued = await run(
    `token issue cms/alice --key alice.jwk --audience ${audience} --expires 7d ` +
      '--scope storage.read:/raw --scope storage.create:/out --to job.pem.pub --json',
  );
  writeFileSync(join(place.folder, 'token'), `${JSON.parse(issued).token}\n`);
});

afterAll(() => place.remove());

async function run(line: string): Promise<string> {
  const { code, stdout, stderr } = await place.run(line.split(' '));
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

async function refusal(line: string): Promise<{ code: number | null; stderr: string }> {
  const { code, stdout, stderr } = await place.run(line.split(' '));
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^bursar: [^\n]+\n$/);
  return { code, stderr };
}

describe('bursar key', () => {
  test('new keeps the private half to its owner and never overwrites one', async () => {
    const file = join(place.folder, 'alice.jwk');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const before = readFileSync(file, 'utf8');
    const { code, stderr } = await refusal('key new --out alice.jwk');
    expect(code).toBe(1);
    expect(stderr).toContain('alice.jwk');
    expect(readFileSync(file, 'utf8')).toBe(before);
    expect(JSON.parse(readFileSync(`${file}.pub`, 'utf8'))).not.toHaveProperty('d');
  });

  test('proof is not for an access key whose secret the gateway knows', async () => {
    writeFileSync(
      join(place.folder, 'credentials'),
      '[bursar]\naws_access_key_id = BURX\naws_secret_access_key = s\n',
    );
    const line = `key proof cms/job --key credentials --audience ${audience}`;
    expect((await refusal(line)).stderr).toContain('BURX, whose secret the gateway knows');
  });

  test('proof makes what an enrolment takes', async () => {
    const line = `key proof cms/job --key job.pem --audience ${audience} --nonce abc`;
    const { jwk, proof } = JSON.parse(await run(`${line} --json`));
    const expected = { audience, principal: 'cms/job', nonce: 'abc', nowMs: Date.now() };
    const key = verifyKeyProof(proof, jwk, expected);
    expect(key).toMatchObject({ algorithm: 'ES256' });
    expect(readPublicKey(jwk)?.thumbprint).toBe(key.thumbprint);
  });
});

describe('bursar token', () => {
  test('delegate shrinks, and inspect shows what remains', async () => {
    const shrunk = await run(
      'token delegate token --key job.pem --bearer --scope storage.read:/raw/2026 --expires 1h ' +
        '--network 10.0.0.0/8 --max-object-size 1GiB --egress day=10GiB ' +
        '--spend total=2.50 --rate requests=5',
    );
    writeFileSync(join(place.folder, 'shrunk'), shrunk);
    const report = JSON.parse(await run('token inspect shrunk --jwks alice.jwk.pub --json'));
    expect(report.state).toBe('usable');
    expect(report.links).toMatchObject([
      { signedBy: 'principal', signature: 'valid', linksLeft: 7 },
      {
        signedBy: 'parent',
        signature: 'valid',
        scope: 'storage.read:/raw/2026',
        boundTo: null,
        conditions: { networks: ['10.0.0.0/8'], objectBytesMax: 1024 ** 3 },
        limits: {
          egressBytes: { day: 10 * 1024 ** 3 },
          spend: { total: '2.50' },
          rate: { requests: 5 },
        },
      },
    ]);
    const text = await run('token inspect shrunk --jwks alice.jwk.pub');
    expect(text).toContain('narrows: may only read and list raw/2026 and all below it');
    expect(text).toContain('What remains: usable now');
  });

  test.each([
    ['what is wider', '--bearer --scope storage.read:/', 'wider scope'],
    ['a later end', '--bearer --expires 8d', 'expires later'],
    ['another key', '--key alice.jwk --bearer', 'not|bound'],
  ])('delegate refuses %s', async (_title, flags, words) => {
    const { code, stderr } = await refusal(`token delegate token --key job.pem ${flags}`);
    expect(code).toBe(1);
    expect(stderr).toMatch(new RegExp(words));
  });

  test.each([
    ['nobody to give it to', '--scope storage.read:/raw', '--to FILE'],
    ['two answers to that', '--bearer --to job.pem.pub', '--to FILE'],
    ['a path that is none', '--bearer --scope storage.read:/raw/../x', '--scope'],
    ['a window that is none', '--bearer --egress week=1', '--egress'],
    ['a rate with a window', '--bearer --rate day=1', '--rate'],
    ['a size that is none', '--bearer --egress day=many', '--egress'],
    ['a limit that is taken away', '--bearer --egress none', 'none is no limit here'],
    ['a time that is none', '--bearer --expires soon', '--expires'],
  ])('delegate refuses %s as wrongly asked for', async (_title, flags, words) => {
    const { code, stderr } = await refusal(`token delegate token --key job.pem ${flags}`);
    expect(code).toBe(2);
    expect(stderr).toContain(words);
  });

  test.each([
    'token inspect nothing',
    'token inspect alice.jwk',
    'token delegate token --key token --bearer',
  ])('says what is wrong with a file: %s', async (line) => {
    expect((await refusal(line)).code).toBe(1);
  });
});
