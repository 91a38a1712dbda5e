// Several HTTP threads are one gateway: a change holds from the next request on, whichever thread
// gets it; what is passed on is answered as if it had come to the main thread; and what is measured
// of all is one number. Each request here has a connection of its own, which the system gives to
// any of the threads: of a few dozen each has some. BURSAR_FULL=1 changes rights a thousand times.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  exchange,
  findRecords,
  type Message,
  newPrincipal,
  send,
  signMessage,
  type Target,
} from '../../protocol/target.ts';
import {
  environmentWithoutSettings,
  metricsToken,
  type ServedGateway,
  startServedGateway,
} from '../../tooling/served-gateway.ts';
import { setLimits, targetOf } from './threads-rig.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const rounds = process.env.BURSAR_FULL === '1' ? 1000 : 10;
const connections = 32;

let gateway: ServedGateway;
let target: Target;
let bob: Target;

beforeAll(async () => {
  gateway = await startServedGateway({ args: ['--http-threads', '3'] });
  target = targetOf(gateway);
  bob = as(target, await newPrincipal(target, { name: 'bob' }));
  await expectAll(200, target, { method: 'PUT', path: '/shared' }, 1);
  await expectAll(200, target, { method: 'PUT', path: '/shared/small', body: 'small' }, 1);
});

afterAll(() => gateway?.stop());

/** The same from many connections at once. */
function ask(who: Target, message: Message, count = connections): Promise<Answer[]> {
  return Promise.all(Array.from({ length: count }, () => send(who, message)));
}

async function expectAll(status: number, ...asked: Parameters<typeof ask>): Promise<Answer[]> {
  const answers = await ask(...asked);
  expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => status));
  return answers;
}

const small = { method: 'GET', path: '/shared/small' };
const grants = '/_/v1/tenants/default/grants';

it('a right that is given or taken away is so for the next request of each thread', async () => {
  const grant = {
    subjects: ['principal:default/bob'],
    actions: ['s3:GetObject'],
    bucket: 'shared',
  };
  for (let round = 0; round < rounds; round++) {
    await callNative(target, 'PUT', `${grants}/reads`, { ...grant, effect: 'allow' });
    await expectAll(200, bob, small);
    await callNative(target, 'DELETE', `${grants}/reads`);
    await expectAll(403, bob, small);
  }
});

it('what was written last is read, whichever thread wrote it', async () => {
  for (let round = 0; round < rounds; round++) {
    const body = `small of round ${round}`;
    await expectAll(200, target, { method: 'PUT', path: '/shared/small', body }, 1);
    const answers = await expectAll(200, target, small);
    expect(new Set(answers.map(({ text }) => text))).toEqual(new Set([body]));
  }
});

it('large bodies are the same both ways', async () => {
  const body = Buffer.alloc(3 * 1024 * 1024, 'large');
  await expectAll(200, target, { method: 'PUT', path: '/shared/large', body }, 4);
  const answers = await expectAll(200, target, { method: 'GET', path: '/shared/large' }, 8);
  for (const answer of answers) expect(answer.body.equals(body)).toBe(true);
});

it('what is passed on has the address of its client, which it cannot choose', async () => {
  const { path, headers } = signMessage(target, { method: 'GET', path: grants });
  const claimed = { ...headers, 'bursar-peer': '192.0.2.1 192.0.2.2' };
  const all = Array.from({ length: connections }, () => exchange(target, 'GET', path, claimed));
  for (const { text } of await Promise.all(all)) expect(text).toContain('"grants"');
  const find = () => findRecords(target, [['action', 'bursar:ListGrants']]);
  await expect.poll(find, { timeout: 30_000 }).toHaveLength(connections);
  const records = await find();
  expect(new Set(records.map(({ source }) => source))).toEqual(new Set(['127.0.0.1']));
});

it('what is passed on has the bytes that were sent, also those that are not ASCII', async () => {
  const place = Buffer.from('Zürich ☃').toString('latin1');
  const headers = { 'x-amz-meta-place': place };
  await expectAll(200, target, { method: 'GET', path: grants, headers }, 8);
});

it('a limit is used to its last unit on all threads together, and not beyond', async () => {
  const carol = await newReader('carol');
  await setLimits(target, 'principal:default/carol', { requests: { total: 3 * connections } });
  // Each thread has leased some that the others lack.
  await expectAll(200, carol, small, connections);
  const answers = await ask(carol, small, 3 * connections);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(2 * connections);
  // What is raised is so for the next request of each.
  await setLimits(target, 'principal:default/carol', { requests: { total: 3 * connections + 1 } });
  const more = (await ask(carol, small)).map(({ status }) => status);
  expect(more.filter((status) => status === 200)).toHaveLength(1);
  await setLimits(target, 'principal:default/carol', { requests: { total: 10 * connections } });
  await expectAll(200, carol, small);
});

it('a rate is that of all threads together', async () => {
  const dave = await newReader('dave');
  await setLimits(target, 'principal:default/dave', { rate: { requests: 4 } });
  const [begunMs, statuses] = [performance.now(), [] as number[]];
  while (statuses.length < 5 * connections) {
    statuses.push(...(await ask(dave, small)).map(({ status }) => status));
  }
  const servedMax = 4 + 4 * ((performance.now() - begunMs) / 1000 + 0.01);
  const served = statuses.filter((status) => status === 200).length;
  expect(served).toBeGreaterThanOrEqual(4);
  expect(served).toBeLessThanOrEqual(servedMax);
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
});

it('who bears a token is served by each thread, until it is revoked', async () => {
  for (let round = 0; round < rounds; round++) {
    const issued = await callNative(target, 'POST', '/_/v1/tokens', {
      ...{ scope: 'storage.read:/shared', expiresIn: 3600, limits: { requests: { total: 200 } } },
    });
    const authorization = `Bearer ${issued.token}`;
    const asked = () => exchange(target, 'GET', small.path, { authorization });
    const askAll = () => Promise.all(Array.from({ length: connections }, asked));
    expect((await askAll()).map(({ status }) => status)).toEqual(all(200));
    await callNative(target, 'DELETE', `/_/v1/tokens/${issued.jti}`);
    expect((await askAll()).map(({ status }) => status)).toEqual(all(403));
  }
});

function all(status: number): number[] {
  return Array.from({ length: connections }, () => status);
}

/** A principal that may read what is shared. */
async function newReader(name: string): Promise<Target> {
  const reader = as(target, await newPrincipal(target, { name }));
  await callNative(target, 'PUT', `${grants}/${name}-reads`, {
    ...{ subjects: [`principal:default/${name}`], effect: 'allow' },
    ...{ actions: ['s3:GetObject'], bucket: 'shared' },
  });
  return reader;
}

it('a root key that is added is in use on each thread', async () => {
  await callNative(target, 'POST', '/_/v1/keys/rotations');
  await expectAll(200, target, { method: 'PUT', path: '/shared/rotated', body: 'new key' });
  await expectAll(200, target, { method: 'GET', path: '/shared/rotated' });
});

it('the metrics are of all threads', async () => {
  const before = await countOf('HeadBucket');
  await expectAll(200, target, { method: 'HEAD', path: '/shared' });
  await expect.poll(() => countOf('HeadBucket'), { timeout: 30_000 }).toBe(before + connections);
});

async function countOf(operation: string): Promise<number> {
  const headers = { authorization: `Bearer ${metricsToken}` };
  const text = await (await fetch(`${gateway.endpoint}/_/metrics`, { headers })).text();
  const lines = text.split('\n').filter((line) => line.startsWith('bursar_requests_total{'));
  const one = lines.find((line) => line.includes(`"${operation}"`) && line.includes('"2xx"'));
  return Number(one?.split(' ').at(-1) ?? 0);
}

it('no second gateway listens on its port', async () => {
  const { port } = new URL(gateway.endpoint);
  const main = resolve(import.meta.dirname, '../../../app/main.js');
  const args = ['serve', '--data', join(gateway.dataDir, 'second'), '--http-threads', '2'];
  const second = spawn(process.execPath, [main, ...args, '--listen', `127.0.0.1:${port}`], {
    env: environmentWithoutSettings() as NodeJS.ProcessEnv,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  second.stderr.on('data', (text) => {
    said += text;
  });
  const [code] = await once(second, 'exit');
  expect([code, said]).toEqual([1, expect.stringContaining('EADDRINUSE')]);
});

it('starts again where it was killed, and stops when it is asked to', async () => {
  const { dataDir } = gateway;
  await gateway.kill();
  expect(existsSync(join(dataDir, 'http.sock'))).toBe(true);
  gateway = await startServedGateway({ dataDir, args: ['--http-threads', '3'] });
  target = targetOf(gateway);
  await expectAll(200, target, small);
});
