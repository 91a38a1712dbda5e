// When reads are recorded, over HTTP: who can say so, and what is durable when a client has all of
// an answer, though the gateway is killed at that moment.
import { mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { Workplace } from '../cli/command.ts';
import {
  as,
  callNative,
  exchange,
  newPrincipal,
  send,
  signMessage,
  type Target,
} from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'bursar-reads-'));
const large = Buffer.alloc(3 * 1024 * 1024 + 17, 'x');
const publicPolicy = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::open/*' },
  ],
});

let gateway: ServedGateway;
let target: Target;
let member: Target;
let auditor: Target;
const tenant = '/_/v1/tenants/default';

beforeAll(async () => {
  await serve();
  member = as(target, await newPrincipal(target, { name: 'mia' }));
  auditor = as(target, await newPrincipal(target, { name: 'anna', role: 'auditor' }));
  for (const name of ['strict', 'open', 'plain']) {
    await put(`/${name}`);
    await put(`/${name}/small`, 'small');
    await put(`/${name}/large`, large);
  }
  await send(target, { method: 'DELETE', path: '/open', query: [['publicAccessBlock', '']] });
  await put('/open', publicPolicy, [['policy', '']]);
  await setReads('strict', 'strict');
  await setReads('open', 'aggregate');
}, 60_000);

afterAll(async () => {
  await gateway?.stop();
  rmSync(dataDir, { recursive: true, force: true });
}, 60_000);

async function serve(): Promise<void> {
  gateway = await startServedGateway({ dataDir });
  const { endpoint, accessKeyId, secretAccessKey } = gateway;
  const keys = { accessKeyId, secretAccessKey };
  target = { endpoint, keys, strayNames: () => [], stop: async () => {} };
  if (member) {
    member = as(target, member.keys);
    auditor = as(target, auditor.keys);
  }
}

async function put(
  path: string,
  body: string | Buffer = '',
  query: [string, string][] = [],
): Promise<void> {
  const answer = await send(target, { method: 'PUT', path, body, query });
  expect(answer.status, answer.text).toBeLessThan(300);
}

const setReads = (bucket: string, recordReads: string | null) =>
  callNative(target, 'PATCH', `${tenant}/buckets/${bucket}`, { recordReads });

interface Found {
  action: string;
  requestId: string;
  [member: string]: unknown;
}

/** As they are in the file, whoever serves it. */
async function stored(): Promise<Found[]> {
  const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  const rows = await db.tx.all<{ record: string }>('SELECT record FROM records ORDER BY idx');
  db.close();
  return rows.map(({ record }) => JSON.parse(record) as Found);
}

describe('how reads are recorded', () => {
  test('is said of a tenant and of a bucket, by admins, and recorded', async () => {
    const shown = await callNative(auditor, 'GET', `${tenant}/buckets/strict`);
    expect(shown).toMatchObject({ name: 'strict', tenant: 'default', recordReads: 'strict' });
    expect(await callNative(target, 'GET', tenant)).toMatchObject({ recordReads: 'prompt' });
    await callNative(target, 'PATCH', tenant, { recordReads: 'strict' });
    expect(await callNative(target, 'GET', tenant)).toMatchObject({ recordReads: 'strict' });
    await callNative(target, 'PATCH', tenant, { recordReads: 'prompt' });
    const changes = (await stored()).filter(({ action }) => action === 'bursar:UpdateBucket');
    expect(changes).toContainEqual(
      expect.objectContaining({
        ...{ target: 'tenants/default/buckets/strict', change: { recordReads: 'strict' } },
      }),
    );
  });

  test('is not said by members and auditors, nor in other words', async () => {
    const path = `${tenant}/buckets/strict`;
    for (const [who, status, body] of [
      [member, 403, { recordReads: 'prompt' }],
      [auditor, 403, { recordReads: 'prompt' }],
      [target, 400, { recordReads: 'never' }],
      [target, 400, {}],
    ] as const) {
      const headers = { 'content-type': 'application/json' };
      const message = { method: 'PATCH', path, headers, body: JSON.stringify(body) };
      expect((await send(who, message)).status).toBe(status);
    }
    const missing = { method: 'GET', path: `${tenant}/buckets/nothing` };
    expect(await send(target, missing)).toMatchObject({ status: 404 });
    expect(await send(member, missing)).toMatchObject({ status: 403 });
  });

  test('is said with the command too', async () => {
    const place = new Workplace();
    const environment = {
      BURSAR_ENDPOINT: target.endpoint,
      BURSAR_ACCESS_KEY_ID: target.keys.accessKeyId,
      BURSAR_SECRET_ACCESS_KEY: target.keys.secretAccessKey,
    };
    const reads = ['--record-reads', 'aggregate'];
    const run = (...args: string[]) => place.run(args, environment);
    try {
      expect((await run('bucket', 'set', 'default/plain', ...reads)).stdout).toContain('aggregate');
      expect((await run('bucket', 'show', 'default/plain')).stdout).toContain('aggregate');
      const own = await run('bucket', 'set', 'default/plain', '--record-reads', 'tenant');
      expect(own.stdout).toContain('tenant');
      expect((await run('tenant', 'set', 'default', ...reads)).stdout).toContain('aggregate');
      expect(await run('tenant', 'set', 'default', '--record-reads', 'prompt')).toMatchObject({
        code: 0,
      });
      const wrong = await run('bucket', 'set', 'default/plain', '--record-reads', 'never');
      expect(wrong.code).toBe(2);
    } finally {
      await place.remove();
    }
  }, 60_000);
});

describe('strict', () => {
  test('a small answer has its receipt, and so have a listing, a HEAD and a refusal', async () => {
    for (const message of [
      { method: 'GET', path: '/strict/small' },
      { method: 'HEAD', path: '/strict/large' },
      { method: 'GET', path: '/strict', query: [['list-type', '2']] as const },
      { method: 'GET', path: '/strict/nothing' },
    ]) {
      const answer = await send(target, message);
      const index = Number(answer.headers['x-bursar-receipt']);
      const record = (await stored()).find((one) => one.index === index);
      expect(record, message.path).toMatchObject({
        requestId: answer.headers['x-amz-request-id'],
        ...{ status: answer.status, bytesOut: answer.status === 404 ? 0 : answer.body.length },
      });
    }
    expect(
      (await send(target, { method: 'GET', path: '/plain/small' })).headers,
    ).not.toHaveProperty('x-bursar-receipt');
  });

  test('a read whose last byte a client has is recorded, though a kill follows', async () => {
    const asked = [
      { method: 'GET', path: '/strict/small' },
      { method: 'GET', path: '/strict/large' },
      { method: 'HEAD', path: '/strict/large' },
      { method: 'GET', path: '/strict' },
    ];
    for (const message of asked) {
      const id = await readAndKill(message);
      const record = (await stored()).find(({ requestId }) => requestId === id);
      expect(record, `${message.method} ${message.path}`).toMatchObject({ status: 200 });
      if (message.path === '/strict/large') {
        expect(record?.bytesOut).toBe(message.method === 'HEAD' ? 0 : large.length);
      }
      await serve();
    }
  }, 60_000);

  test('who leaves before the end is recorded as what they were', async () => {
    const id = await readSome('/strict/large');
    await expect
      .poll(async () => (await stored()).find((one) => one.requestId === id))
      .toMatchObject({
        error: 'RequestTimeout',
      });
  });
});

describe('aggregate', () => {
  test('reads by anybody are one record a minute, also after a kill; others are not', async () => {
    const asked = 7;
    for (let i = 0; i < asked; i++) {
      expect((await exchange(target, 'GET', '/open/small')).status).toBe(200);
    }
    await send(target, { method: 'GET', path: '/open/small' });
    const folds = async () => {
      const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
      const rows = await db.tx.all<{ fold: string }>('SELECT fold FROM read_folds');
      db.close();
      return rows.reduce((sum, { fold }) => sum + (JSON.parse(fold) as { reads: number }).reads, 0);
    };
    const isOpen = ({ bucket, action }: Found) => bucket === 'open' && action === 's3:GetObject';
    const recorded = async () => (await stored()).filter(isOpen);
    const counted = async () => {
      const own = (await recorded()).filter(({ principal }) => principal === 'anonymous');
      return own.reduce((sum, { reads }) => sum + Number(reads), await folds());
    };
    const named = async () =>
      (await recorded()).filter(({ principal }) => principal !== 'anonymous');
    await expect.poll(counted).toBe(asked);
    await expect.poll(named).toHaveLength(1);
    await gateway.kill();
    expect(await counted()).toBe(asked);
    const db = openDatabase(join(dataDir, 'bursar.db'), { readonly: false, cacheKib: 1024 });
    db.exec('UPDATE OR REPLACE read_folds SET minute_ms = minute_ms - 120000');
    db.close();
    await serve();
    await expect.poll(folds).toBe(0);
    expect(await counted()).toBe(asked);
    const [one] = (await recorded()).filter(({ principal }) => principal === 'anonymous');
    expect(one).toMatchObject({ key: 'small', sources: ['127.0.0.1'], evidence: 'none' });
    expect(await named()).toEqual([expect.not.objectContaining({ reads: expect.anything() })]);
  }, 60_000);
});

/** Kills the gateway as soon as the client has the whole answer; gives the request's id. */
async function readAndKill(message: { method: string; path: string }): Promise<string> {
  const { hostname, port } = new URL(target.endpoint);
  const { path, headers } = signMessage(target, message);
  const id = await new Promise<string>((resolve, reject) => {
    const asked = request({ hostname, port, path, headers, method: message.method }, (answer) => {
      const whole = Number(answer.headers['content-length'] ?? 0);
      const requestId = String(answer.headers['x-amz-request-id']);
      let bytes = 0;
      const finish = () => {
        if (gateway.pid !== undefined) process.kill(gateway.pid, 'SIGKILL');
        resolve(requestId);
      };
      if (message.method === 'HEAD') finish();
      answer.on('data', (piece: Buffer) => {
        bytes += piece.length;
        if (bytes === whole) finish();
      });
      answer.on('error', () => {});
    });
    asked.on('error', reject);
    asked.end();
  });
  await gateway.kill();
  return id;
}

/** Reads the beginning, and goes. */
function readSome(of: string): Promise<string> {
  const { hostname, port } = new URL(target.endpoint);
  const { path, headers } = signMessage(target, { method: 'GET', path: of });
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path, headers, method: 'GET' }, (answer) => {
      answer.once('data', () => {
        answer.destroy();
        resolve(String(answer.headers['x-amz-request-id']));
      });
    });
    asked.on('error', reject);
    asked.end();
  });
}
