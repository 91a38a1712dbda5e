// Where the time of requests goes, as a served gateway tells it: each is slowed in one place, and
// that place is seen. How long something took is only ever compared with what the test itself made
// it wait.
import { once } from 'node:events';
import { request } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { stages } from '#bursar/instruments/stage-clock.js';
import { type Fields, formBody, postForm, signPolicy } from '../../protocol/forms.ts';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  exchange,
  type Message,
  newPrincipal,
  patternOf,
  region,
  send,
  signMessage,
  type Target,
} from '../../protocol/target.ts';
import { Wire } from '../../protocol/wire.ts';
import { FaultProxy } from '../../tooling/fault-proxy.ts';
import { putLimits } from '../../tooling/limits.ts';
import { presignUrl } from '../../tooling/presign.ts';
import { type ServedGateway, startServedGateway } from '../../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../../tooling/versitygw.ts';
import { findLine, type LogLine, readLines } from '../log-lines.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const MiB = 2 ** 20;
/** Timers may be early by a millisecond. */
const waitMs = 300;
const atLeastMs = waitMs - 5;
const small = patternOf(1000);
const large = patternOf(5 * MiB);

describeWithTool(versitygw, 'the stages of a request', (path) => {
  let backend: S3Backend;
  let proxy: FaultProxy;
  let gateway: ServedGateway;
  let target: Target;
  let boss: Target;
  let member: Target;

  beforeAll(async () => {
    backend = await startVersitygw(path);
    backend.makeBucket('backing');
    proxy = await FaultProxy.start(backend.port);
    const store = { url: 's3://backing', endpoint: proxy.endpoint, pathStyle: 'yes' };
    gateway = await startServedGateway({
      // All are slow from here on, so all are logged with their stages.
      args: ['--slow-request', '0s'],
      env: {
        BURSAR_STORES: JSON.stringify({ cloud: store }),
        AWS_ACCESS_KEY_ID: backend.credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: backend.credentials.secretAccessKey,
      },
    });
    const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
    const keys = { accessKeyId, secretAccessKey };
    target = { endpoint, keys, strayNames: () => [], stop };
    boss = as(target, await newPrincipal(target, { role: 'admin' }));
    member = as(target, await newPrincipal(target));
    await must({ method: 'PUT', path: '/near' });
    await must({ method: 'PUT', path: '/far', headers: { 'x-bursar-store': 'cloud' } });
    for (const bucket of ['near', 'far']) {
      await must({ method: 'PUT', path: `/${bucket}/small`, body: small });
      await must({ method: 'PUT', path: `/${bucket}/large`, body: large });
    }
  });
  afterAll(async () => {
    await gateway.stop();
    await proxy.stop();
    await backend.stop();
  });

  async function must(message: Message, by = target): Promise<Answer> {
    const answer = await send(by, message);
    expect(answer.status, answer.text).toBeLessThan(300);
    return answer;
  }

  /** The stages of the request that this answers. */
  async function stagesOf({ headers }: Answer): Promise<Record<string, number>> {
    const id = headers['x-amz-request-id'];
    const line = await findLine(gateway, ({ requestId }) => requestId === id);
    return line.stagesMs as Record<string, number>;
  }

  it('add up to its duration, of all ways and operations', async () => {
    for (const bucket of ['near', 'far']) {
      for (const key of ['small', 'large']) {
        await must({ method: 'GET', path: `/${bucket}/${key}` });
        await must({ method: 'GET', path: `/${bucket}/${key}`, headers: { range: 'bytes=9-99' } });
        const copySource = { 'x-amz-copy-source': `/near/${key}` };
        await must({ method: 'PUT', path: `/${bucket}/copy`, headers: copySource });
      }
      const upload = { path: `/${bucket}/parts` };
      const begun = await must({ ...upload, method: 'POST', query: [['uploads', '']] });
      const id = ['uploadId', elementOf(begun.text, 'UploadId') ?? ''] as const;
      const query = [['partNumber', '1'] as const, id];
      const part = await must({ ...upload, method: 'PUT', query, body: large });
      const parts = `<Part><PartNumber>1</PartNumber><ETag>${part.headers.etag}</ETag></Part>`;
      const body = `<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`;
      await must({ ...upload, method: 'POST', query: [id], body });
      const fields: Fields = [
        ['key', 'form'],
        ...signPolicy(target.keys, [{ bucket }, { key: 'form' }]),
      ];
      expect((await postForm(target, bucket, formBody(fields, { content: small }))).status).toBe(
        204,
      );
      await must({ method: 'GET', path: `/${bucket}` });
      await must({ method: 'DELETE', path: `/${bucket}/form` });
      const share = { bucket, key: 'large' };
      const link = await callNative(target, 'POST', '/_/v1/shares', share);
      const { status } = await exchange(target, 'GET', link.url.slice(target.endpoint.length));
      expect(status).toBe(200);
    }
    await exchange(target, 'OPTIONS', '/near/small', { origin: 'https://a' });
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    await exchange(target, 'POST', '/', form, 'Action=AssumeRoleWithWebIdentity');
    await exchange(target, 'GET', '/_/health');
    const last = await exchange(target, 'GET', '/near/small');
    expect(last.status).toBe(403);
    await stagesOf(last);

    const lines = readLines(gateway);
    for (const line of lines) expect(line, JSON.stringify(line)).toSatisfy(addsUp);
    const ways = ['native', 'open', 'preflight', 's3', 'share', 'sts'];
    expect([...new Set(lines.map(({ way }) => way))].sort()).toEqual(ways);
    const put = lines.find(({ operation }) => operation === 'PutObject');
    for (const stage of ['parse', 'authenticate', 'decide', 'reserve', 'store', 'commit']) {
      expect(put?.stagesMs?.[stage], stage).toBeGreaterThan(0);
    }
  });

  it('count a client that is slow to send as stream', async () => {
    const message = { method: 'PUT', path: '/near/slow', body: large };
    const { path: at, headers } = signMessage(target, message);
    const { hostname, port } = new URL(target.endpoint);
    const length = { 'content-length': String(large.length) };
    const asked = request({
      hostname,
      port,
      method: 'PUT',
      path: at,
      headers: { ...headers, ...length, expect: '100-continue' },
    });
    const answered = new Promise<string>((resolve, reject) => {
      asked.on('error', reject);
      asked.on('response', (response) => {
        response.resume();
        resolve(String(response.headers['x-amz-request-id']));
      });
    });
    // The wait begins when the body is asked for, and with a piece that takes no time to store.
    await once(asked, 'continue');
    asked.write(large.subarray(0, 1));
    await setTimeout(waitMs);
    asked.end(large.subarray(1));
    const id = await answered;
    const line = await findLine(gateway, ({ requestId }) => requestId === id);
    expect(line).toMatchObject({ status: 200, bytesIn: large.length });
    expect(line.stagesMs?.stream).toBeGreaterThan(atLeastMs);
  });

  it('count a client that is slow to read as stream', async () => {
    await must({ method: 'PUT', path: '/near/huge', body: patternOf(32 * MiB) });
    const { path: at, headers } = signMessage(target, { method: 'GET', path: '/near/huge' });
    const { hostname, port } = new URL(target.endpoint);
    const id = await new Promise<string>((resolve, reject) => {
      const asked = request(
        { hostname, port, path: at, headers, agent: false },
        async (response) => {
          await setTimeout(waitMs);
          response.resume();
          response.on('end', () => resolve(String(response.headers['x-amz-request-id'])));
        },
      );
      asked.on('error', reject);
      asked.end();
    });
    const line = await findLine(gateway, ({ requestId }) => requestId === id);
    expect(line).toMatchObject({ status: 200, bytesOut: 32 * MiB });
    expect(line.stagesMs?.stream).toBeGreaterThan(atLeastMs);
  });

  it.each([
    ['GET', 'small', undefined],
    ['GET', 'large', undefined],
    ['PUT', 'small', small],
    ['PUT', 'large', large],
  ] as const)('count a slow S3 store as store: %s of a %s object', async (method, key, body) => {
    proxy.choose = (asked) =>
      asked.method === method ? { kind: 'slow-first-byte', delayMs: waitMs } : undefined;
    const answer = await must({ method, path: `/far/${key}`, ...(body ? { body } : {}) });
    proxy.choose = () => undefined;
    expect((await stagesOf(answer)).store).toBeGreaterThan(atLeastMs);
  });

  it('count waiting for the turn of an account with a rate as reserve', async () => {
    await putLimits(target, 'bucket:default/near', { rate: { bytes: 2 * MiB } });
    const answer = await must({ method: 'GET', path: '/near/large' });
    await putLimits(target, 'bucket:default/near', null);
    expect((await stagesOf(answer)).reserve).toBeGreaterThan(atLeastMs);
  });

  it('count waiting for the answer before it on its connection as stream', async () => {
    const wire = await Wire.open(target);
    proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: waitMs });
    const heads = ['/far/small', '/near/small'].map((at) => {
      const { path: asked, headers } = signMessage(target, { method: 'GET', path: at });
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      return `GET ${asked} HTTP/1.1\r\n${lines.join('')}\r\n`;
    });
    wire.write(heads.join(''));
    const ids = /x-amz-request-id: (\w+)[\s\S]*x-amz-request-id: (\w+)/;
    const [, , second] = ids.exec(await wire.until(ids)) ?? [];
    proxy.choose = () => undefined;
    wire.destroy();
    const line = await findLine(gateway, ({ requestId }) => requestId === second);
    expect(line.stagesMs?.stream).toBeGreaterThan(atLeastMs);
  });

  it('are told to operators and to admins of tenants, and to nobody else', async () => {
    const asked = { method: 'GET', path: '/near/small' };
    const form = /^parse;dur=\d+\.\d{3}, authenticate;dur=.*, store;dur=\d+\.\d{3}/;
    for (const by of [target, boss]) {
      expect((await must(asked, by)).headers['server-timing']).toMatch(form);
      expect((await must({ ...asked, method: 'HEAD' }, by)).headers['server-timing']).toMatch(form);
      expect((await must({ ...asked, path: '/near/large' }, by)).headers['server-timing']).toMatch(
        form,
      );
      const refused = await send(by, { ...asked, path: '/near/nothing' });
      expect([refused.status, refused.headers['server-timing']]).toEqual([
        404,
        expect.stringMatching(/^parse;dur=.*, authenticate;dur=.*decide;dur=/),
      ]);
      const native = await send(by, { method: 'GET', path: '/_/v1/whoami' });
      expect(native.headers['server-timing']).toMatch(
        /^parse;dur=.*authenticate;dur=.*commit;dur=/,
      );
    }
    const scope = { scope: 'storage.read:/near' };
    const { token } = await callNative(target, 'POST', '/_/v1/tokens', scope);
    // What others have, and what nobody has, are the same to an admin, and as fast to be refused.
    const source = { 'x-amz-copy-source': '/nobody:near/small' };
    for (const message of [
      { ...asked, path: '/nobody:near/small' },
      { method: 'PUT', path: '/near/copied', headers: source },
    ]) {
      const ofOthers = await send(boss, message);
      expect(ofOthers.status).toBeGreaterThanOrEqual(400);
      expect(ofOthers.headers).not.toHaveProperty('server-timing');
    }
    const { accessKeyId, secretAccessKey: secret } = boss.keys;
    const url = presignUrl({
      ...{ method: 'GET', origin: boss.endpoint, path: '/near/small', headers: {} },
      ...{ accessKeyId, secret, region, timeMs: Date.now(), expiresSeconds: 60 },
    });
    const signed = signPolicy(boss.keys, [{ bucket: 'near' }, { key: 'form' }]);
    const fields: Fields = [['key', 'form'], ...signed];
    const untold = [
      await send(member, asked),
      await exchange(target, 'GET', '/near/small'),
      await exchange(target, 'GET', '/near/small', { authorization: `Bearer ${token}` }),
      await exchange(target, 'GET', '/near/small', { authorization: 'Bearer x' }),
      await exchange(target, 'GET', '/_/health'),
      // What an admin signed for others.
      await exchange(target, 'GET', url.slice(boss.endpoint.length)),
      await postForm(target, 'near', formBody(fields, { content: 'file' })),
    ];
    expect(untold.map(({ status }) => status)).toEqual([403, 403, 200, 401, 200, 200, 204]);
    for (const { headers } of untold) {
      expect(headers).not.toHaveProperty('server-timing');
      expect(headers).toHaveProperty('x-amz-request-id');
    }
  });
});

function addsUp({ stagesMs = {}, durationMs }: LogLine): boolean {
  const sum = stages.reduce((all, stage) => all + (stagesMs[stage] as number), 0);
  // Each number was rounded to a microsecond.
  return Math.abs(sum - durationMs) < 0.001 * (stages.length + 1);
}
