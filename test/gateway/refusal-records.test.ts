// What changes nothing is cheap to ask for, so it must not fill the log: beyond a rate, refusals
// and deletes of what is absent are one record a minute for each kind, with exact counts.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { openDatabase } from '#bursar/core/database.js';
import { as, callNative, newPrincipal, send, type Target } from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const perPrincipal = 300;

let gateway: ServedGateway;
let target: Target;
let alice: Target;
let mallory: Target;

beforeAll(async () => {
  gateway = await startServedGateway({ args: ['--refusal-records', String(perPrincipal)] });
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  target = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'cms' });
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  mallory = as(target, await newPrincipal(target, { tenant: 'cms', name: 'mallory' }));
  await send(alice, { method: 'PUT', path: '/raw' });
  await send(mallory, { method: 'PUT', path: '/own' });
});
afterAll(() => target?.stop());

interface Told {
  /** Records of one request each. */
  single: number;
  /** Requests that have, or will have, a record in common with others. */
  folded: number;
  /** Kinds of those. */
  kinds: number;
}

/**
 * What the database says of mallory's requests of one action and outcome, as the ledger has it now.
 */
async function told(action: string, error: string | null): Promise<Told> {
  const path = join(gateway.dataDir, 'bursar.db');
  const db = openDatabase(path, { readonly: true, cacheKib: 1024 });
  try {
    const records = (await db.tx.all<{ record: string }>('SELECT record FROM records'))
      .map(({ record }) => JSON.parse(record))
      .filter((one) => isAsked(one, action, error));
    const waiting = (await db.tx.all<Row>('SELECT same, fold FROM read_folds'))
      .map(({ same, fold }) => ({ ...JSON.parse(same), ...JSON.parse(fold) }))
      .filter((one) => isAsked(one, action, error));
    const folds = [...records.filter(({ reads }) => reads !== undefined), ...waiting];
    return {
      single: records.filter(({ reads }) => reads === undefined).length,
      folded: folds.reduce((sum, { reads }) => sum + reads, 0),
      kinds: folds.length,
    };
  } finally {
    db.close();
  }
}

interface Row {
  same: string;
  fold: string;
}

function isAsked(
  one: { principal: string; action: string; error?: string },
  action: string,
  error: string | null,
): boolean {
  return one.principal === 'mallory' && one.action === action && (one.error ?? null) === error;
}

/** Sends so many, twenty at a time. */
async function flood(count: number, ask: (i: number) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < count; from += 20) {
    await Promise.all(Array.from({ length: Math.min(20, count - from) }, (_, i) => ask(from + i)));
  }
}

/**
 * A minute that ends in the midst of it makes one more of each kind, and lets as many singles in.
 */
const minutesMax = 3;

it('counts refusals of S3 exactly, and keeps a bounded number of records of them', async () => {
  const count = 2 * perPrincipal + 40;
  await flood(count, async (i) => {
    // Whatever the client can choose makes no kind of its own.
    const path = `/raw/${i}`;
    const answer = await send(mallory, { method: 'GET', path });
    expect(answer.status, answer.text).toBe(403);
  });
  const found = () => told('s3:GetObject', 'AccessDenied');
  const sum = async () => found().then(({ single, folded }) => single + folded);
  await expect.poll(sum).toBe(count);
  const { kinds, folded } = await found();
  expect(kinds).toBeLessThanOrEqual(minutesMax);
  expect(folded).toBeGreaterThan(0);
});

it('counts deletes of what is absent exactly, and each of what is there by itself', async () => {
  for (const key of ['there', 'too']) {
    const put = await send(mallory, { method: 'PUT', path: `/own/${key}`, body: 'x' });
    expect(put.status, put.text).toBe(200);
  }
  const absent = Array.from({ length: 998 }, (_, i) => `absent-${i}`);
  const asked = ['there', ...absent, 'too'];
  const objects = asked.map((key) => `<Object><Key>${key}</Key></Object>`).join('');
  const body = `<Delete>${objects}</Delete>`;
  const before = await told('s3:DeleteObject', null);
  const answer = await send(mallory, {
    method: 'POST',
    path: '/own',
    query: [['delete', '']],
    body,
    headers: { 'content-md5': createHash('md5').update(body).digest('base64') },
  });
  expect(answer.status, answer.text).toBe(200);
  expect(answer.text.match(/<Deleted>/g)).toHaveLength(1000);
  const after = await told('s3:DeleteObject', null);
  expect(after.single + after.folded - before.single - before.folded).toBe(1000);
  expect(after.kinds - before.kinds).toBeLessThanOrEqual(minutesMax);
  const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
    ['principal', 'mallory'],
    ['tenant', 'cms'],
    ['action', 's3:DeleteObject'],
    ['limit', '1000'],
  ]);
  const keys = new Set(records.map(({ key }: { key?: string }) => key));
  expect(keys.has('there') && keys.has('too')).toBe(true);
});

it('counts refusals of the native API likewise', async () => {
  const count = perPrincipal + 40;
  await flood(count, async (i) => {
    const answer = await send(mallory, { method: 'GET', path: `/_/v1/tenants/t${i}` });
    expect(answer.status, answer.text).toBe(404);
  });
  const { single, folded } = await told('bursar:GetTenant', 'NoSuchTenant');
  expect(single + folded).toBe(count);
  expect(folded).toBeGreaterThan(0);
});

it('has refused calls, deletes and administration meet the rate of who asks', async () => {
  await putLimits(target, 'principal:cms/mallory', { rate: { requests: 20 } });
  const denied = await Promise.all(
    Array.from({ length: 60 }, () => send(mallory, { method: 'GET', path: '/raw/denied' })),
  );
  expect(denied.filter(({ status }) => status === 503).length).toBeGreaterThan(10);
  // These wait instead: sixty at twenty a second, of which one second's worth is there at once.
  const beganMs = performance.now();
  const paced = await Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      i % 2 === 0
        ? send(mallory, { method: 'DELETE', path: `/own/gone-${i}` })
        : send(mallory, { method: 'GET', path: '/_/v1/whoami' }),
    ),
  );
  expect(new Set(paced.map(({ status }) => status))).toEqual(new Set([204, 200]));
  expect(performance.now() - beganMs).toBeGreaterThan(1900);
  // What would have to wait for more than ten seconds is told so.
  const many = await Promise.all(
    Array.from({ length: 300 }, () => send(mallory, { method: 'DELETE', path: '/own/gone' })),
  );
  expect(many.filter(({ code }) => code === 'SlowDown').length).toBeGreaterThan(20);
  expect((await send(alice, { method: 'GET', path: '/' })).status).toBe(200);
});

it('gives who reads changes again and again one record with others, beyond the rate', async () => {
  const asked = 400;
  for (let i = 0; i < asked; i++) {
    await callNative(mallory, 'GET', '/_/v1/tenants/cms/changes', undefined, [['after', 'now']]);
  }
  const { single, folded } = await told('bursar:ReadChanges', null);
  expect(single + folded).toBe(asked);
  // Another minute may have begun.
  expect(folded).toBeGreaterThan(0);
});
