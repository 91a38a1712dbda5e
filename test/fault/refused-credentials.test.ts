// The credentials of a store are revoked, and replaced in their file, under a gateway that serves;
// a proxy tells wrong times. A real S3 server with accounts. BURSAR_FULL=1 has keys that end, too.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { FaultProxy } from '../tooling/fault-proxy.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const isFull = process.env.BURSAR_FULL === '1';
const hourMs = 3600_000;

/**
 * A command that gives keys: makes an account, and removes those that have ended. It notes each
 * with the end of its keys, and with a dash when it is gone. The gateway takes no keys for a
 * request that end within ten seconds.
 */
const issuing = `
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
const admin = (...args) => execFileSync(config.path, [...config.admin, ...args]);
const all = readFileSync(config.issued, 'utf8').split('\\n').filter(Boolean).map((one) => {
  const [name, endMs] = one.split(' ');
  if (one.endsWith('-') || Number(endMs) > Date.now()) return one;
  admin('delete-user', '--access', name);
  return one + ' -';
});
const name = 'session-' + all.length;
const endMs = Date.now() + 20_000;
admin('create-user', '--access', name, '--secret', 'secret of ' + name, '--role', 'admin');
writeFileSync(config.issued, [...all, name + ' ' + endMs].join('\\n'));
const Expiration = new Date(endMs).toISOString();
const keys = { AccessKeyId: name, SecretAccessKey: 'secret of ' + name, Expiration };
console.log(JSON.stringify({ Version: 1, ...keys }));
`;
const body = Buffer.alloc(300_000, 'body');

describeWithTool(versitygw, 'a store that refuses the credentials of its gateway', (path) => {
  const dir = mkdtempSync(join(tmpdir(), 'refused-credentials-'));
  const file = join(dir, 'credentials');
  let backend: S3Backend;
  let proxy: FaultProxy;
  let gateway: ServedGateway;
  let client: S3Client;

  beforeAll(async () => {
    backend = await startVersitygw(path, ['--iam-dir', dir, '--iam-cache-disable']);
    backend.makeBucket('backend');
    proxy = await FaultProxy.start(backend.port);
    createAccount('first');
    useAccount('first');
    await serve();
    await expectAnswers({ 'PUT /data': 200, 'PUT /data/kept': 200, 'PUT /data/removed': 200 });
  });
  afterAll(async () => {
    client?.close();
    await gateway?.stop();
    if (gateway) rmSync(gateway.dataDir, { recursive: true });
    await proxy?.stop();
    await backend?.stop();
    rmSync(dir, { recursive: true });
  });

  async function serve(): Promise<void> {
    const flags = ['--store', 's3://backend/store', '--store-endpoint', proxy.endpoint];
    gateway = await startServedGateway({
      dataDir: gateway?.dataDir ?? mkdtempSync(join(tmpdir(), 'refused-gateway-')),
      args: [...flags, '--store-path-style', '--sweep-grace', '0s', '--sweep-interval', '1s'],
      env: {
        AWS_PROFILE: 'store',
        AWS_SHARED_CREDENTIALS_FILE: file,
        AWS_EC2_METADATA_DISABLED: 'true',
      },
    });
    client = new S3Client(gateway);
  }

  function admin(...args: string[]): void {
    const { accessKeyId, secretAccessKey } = backend.credentials;
    const root = ['--access', accessKeyId, '--secret', secretAccessKey];
    execFileSync(path, ['admin', ...root, '--endpoint-url', backend.endpoint, ...args]);
  }

  function createAccount(name: string): void {
    admin('create-user', '--access', name, '--secret', `secret of ${name}`, '--role', 'admin');
  }

  function useAccount(name: string): void {
    const secret = `aws_secret_access_key = secret of ${name}`;
    writeFileSync(file, `[store]\naws_access_key_id = ${name}\n${secret}\n`);
  }

  async function answersTo(requests: readonly string[]): Promise<Record<string, number>> {
    const answers: Record<string, number> = {};
    for (const request of requests) {
      const [method = '', to = ''] = request.split(' ');
      const sent = method === 'PUT' && to !== '/data' ? { body } : {};
      answers[request] = (await client.send(method, to, sent)).status;
    }
    return answers;
  }

  async function expectAnswers(expected: Record<string, number>): Promise<void> {
    expect(await answersTo(Object.keys(expected))).toEqual(expected);
  }

  async function health() {
    const answer = await client.send('GET', '/_/v1/health');
    return JSON.parse(answer.body.toString());
  }

  async function reason(): Promise<string | null> {
    const { body: text } = await client.send('GET', '/_/v1/stores');
    const { stores } = JSON.parse(text.toString());
    return stores.find(({ name }: { name: string }) => name === 's3').reason;
  }

  const extents = () =>
    readdirSync(join(backend.dataDir, 'backend/store/extents'), { recursive: true }).filter(
      (name) => String(name).length > 30,
    );

  it('is not ready, damages nothing, and serves again with those of its file', async () => {
    admin('delete-user', '--access', 'first');
    await expectAnswers({
      'GET /data/kept': 503,
      'PUT /data/new': 503,
      'DELETE /data/removed': 503,
      'HEAD /data/kept': 200,
    });
    await vi.waitFor(async () => expect(await reason()).toMatch(/InvalidAccessKeyId/), 20_000);
    expect(await health()).toMatchObject({ stores: { s3: { ready: false } } });
    await expect.poll(() => gateway.output()).toMatch(/store s3 .*InvalidAccessKeyId/);
    expect(gateway.output()).not.toMatch(/is missing|lost the mark|not there any more/);
    createAccount('second');
    useAccount('second');
    await vi.waitFor(async () => expect(await reason()).toBeNull(), 30_000);
    const { body: kept } = await client.send('GET', '/data/kept');
    expect(kept.equals(body)).toBe(true);
    // The one that was refused may have been carried out.
    await expectAnswers({
      'PUT /data/new': 200,
      'GET /data/new': 200,
      'DELETE /data/removed': 204,
    });
    // What was removed is swept, and nothing else.
    await vi.waitFor(() => expect(extents().length).toBe(2), 20_000);
  });

  it.each([
    [400, 'ExpiredToken'],
    [400, 'InvalidToken'],
    // What AWS says when somebody revokes the sessions of a role.
    [403, 'AccessDenied'],
  ])(
    'whose session is revoked (%i %s) serves again with the session that follows',
    async (status, code) => {
      const [revoked, next] = [`revoked-${code}`, `next-${code}`];
      createAccount(revoked);
      useAccount(revoked);
      client.close();
      await gateway.stop();
      await serve();
      await expectAnswers({ 'GET /data/kept': 200 });
      proxy.choose = ({ headers }) =>
        headers.authorization?.includes(revoked) ? { kind: 'status', status, code } : undefined;
      await expectAnswers({ 'GET /data/kept': 503, 'PUT /data/other': 503 });
      await vi.waitFor(async () => expect(await reason()).toContain(code), 40_000);
      createAccount(next);
      useAccount(next);
      await vi.waitFor(async () => expect(await reason()).toBeNull(), 40_000);
      await expectAnswers({
        'GET /data/kept': 200,
        'PUT /data/other': 200,
        'DELETE /data/other': 204,
      });
      proxy.choose = () => undefined;
    },
  );

  it.runIf(isFull)(
    'whose keys end within seconds is served by those that a command then gives',
    async () => {
      // Keys of a session, each with an account of its own that is gone when they end.
      const issued = join(dir, 'issued');
      writeFileSync(issued, '');
      const { accessKeyId, secretAccessKey } = backend.credentials;
      const root = ['--access', accessKeyId, '--secret', secretAccessKey];
      const config = {
        path,
        issued,
        admin: ['admin', ...root, '--endpoint-url', backend.endpoint],
      };
      const command = join(dir, 'issue.mjs');
      writeFileSync(command, `const config = ${JSON.stringify(config)};\n${issuing}`);
      writeFileSync(file, `[store]\ncredential_process = "${process.execPath}" "${command}"\n`);
      client.close();
      await gateway.stop();
      await serve();
      const ended = () =>
        readFileSync(issued, 'utf8')
          .split('\n')
          .filter((one) => one.endsWith('-'));
      await vi.waitFor(
        async () => {
          await expectAnswers({ 'PUT /data/session': 200, 'GET /data/session': 200 });
          expect(ended().length).toBeGreaterThan(2);
        },
        { timeout: 100_000, interval: 200 },
      );
      createAccount('after-sessions');
      useAccount('after-sessions');
      client.close();
      await gateway.stop();
      await serve();
      await expectAnswers({ 'GET /data/session': 200, 'DELETE /data/session': 204 });
    },
  );

  it('that denies all is not ready, and is found when it does no more', async () => {
    proxy.choose = () => ({ kind: 'status', status: 403, code: 'AccessDenied' });
    await expectAnswers({ 'GET /data/kept': 503, 'PUT /data/other': 503, 'DELETE /data/new': 503 });
    expect(await health()).toMatchObject({ stores: { s3: { ready: false } } });
    expect(await reason()).toMatch(/AccessDenied/);
    proxy.choose = () => undefined;
    await vi.waitFor(async () => expect(await reason()).toBeNull(), 40_000);
    await expectAnswers({
      'GET /data/kept': 200,
      'PUT /data/other': 200,
    });
  });

  it('by another clock than ours is not ready until the clocks agree', async () => {
    proxy.choose = () => ({ kind: 'status', status: 403, code: 'RequestTimeTooSkewed' });
    await expectAnswers({
      'GET /data/kept': 503,
      'PUT /data/other': 503,
      'DELETE /data/other': 503,
    });
    await vi.waitFor(async () => expect(await reason()).toMatch(/TooSkewed/), 20_000);
    proxy.choose = () => undefined;
    await vi.waitFor(async () => expect(await reason()).toBeNull(), 40_000);
    await expectAnswers({ 'GET /data/kept': 200, 'DELETE /data/other': 204 });
  });

  it.each([-26, 26])(
    'or whose proxy is %i hours ahead decides nothing by that clock',
    async (hours) => {
      const date = new Date(Date.now() + hours * hourMs).toUTCString();
      const headers = { date, 'last-modified': date };
      proxy.choose = ({ method }) => (method === 'PUT' ? undefined : { kind: 'rewrite', headers });
      client.close();
      await gateway.stop();
      // Lists are asked for at each start and before it, by a client that would go by these dates.
      await serve();
      await expectAnswers({ 'GET /data/kept': 200, 'PUT /data/new': 200, 'DELETE /data/new': 204 });
      await vi.waitFor(async () => {
        expect(await health()).toMatchObject({ stores: { s3: { ready: true, journal: true } } });
      }, 20_000);
      const { headers: seen } = await client.send('HEAD', '/data/kept');
      const ageMs = Date.now() - Date.parse(seen['last-modified'] ?? '');
      expect(Math.abs(ageMs)).toBeLessThan(hourMs);
      expect(gateway.output()).not.toMatch(/TooSkewed|is not available/);
      proxy.choose = () => undefined;
    },
  );
});
