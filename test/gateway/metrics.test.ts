// The metrics of a served gateway after requests of all kinds: that they are what was asked for,
// who is told of whom, and that the documentation lists them all.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stages } from '#bursar/instruments/stage-clock.js';
import {
  as,
  callNative,
  exchange,
  type Keys,
  newPrincipal,
  send,
  signMessage,
  type Target,
} from '../protocol/target.ts';
import { Wire } from '../protocol/wire.ts';
import { type Family, parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';

type Families = ReadonlyMap<string, Family>;

const token = 'metrics-token-of-the-test';
const MiB = 2 ** 20;
/** More than sockets hold, so that a reader who stops can be seen. */
const largeBytes = 24 * MiB;

let target: Target;
let alice: Target;
let before: Families;

beforeAll(async () => {
  const gateway = await startServedGateway({ env: { BURSAR_METRICS_TOKEN: token } });
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  target = { endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [], stop };
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'hidden-tenant' });
  const keys = await newPrincipal(target, {
    ...{ tenant: 'hidden-tenant', name: 'hidden-person', role: 'admin' },
  });
  alice = as(target, keys as Keys);
  await put('/hidden-bucket');
  await put('/hidden-bucket/large', Buffer.alloc(largeBytes));
  before = await read();
}, 60_000);

afterAll(() => target?.stop());

async function put(path: string, body: Buffer = Buffer.alloc(0)): Promise<void> {
  const { status, text } = await send(alice, { method: 'PUT', path, body });
  if (status !== 200) throw new Error(`PUT ${path}: ${status} ${text}`);
}

function get(path: string, headers: Record<string, string> = {}) {
  return send(alice, { method: 'GET', path, headers });
}

function ask(authorization?: string) {
  const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
  return exchange(target, 'GET', '/_/metrics', headers);
}

async function read(): Promise<Families> {
  return parseMetrics((await ask(`Bearer ${token}`)).text);
}

/** The metrics once all requests but the reading itself have ended. */
async function settled(): Promise<Families> {
  let families: Families = new Map();
  const underWay = async () => {
    families = await read();
    return totalOf(families, 'bursar_requests_under_way');
  };
  await expect.poll(underWay).toBe(1);
  return families;
}

/** How much more there is of it than before `ask`. */
async function growthOf(ask: () => Promise<unknown>) {
  const [first, , last] = [await settled(), await ask(), await settled()];
  return (name: string, labels: Record<string, string> = {}): number =>
    totalOf(last, name, labels) - totalOf(first, name, labels);
}

const requests = 'bursar_requests_total';
const durations = 'bursar_request_duration_seconds';
const firstBytes = 'bursar_request_first_byte_seconds';
const throughput = 'bursar_transfer_bytes_per_second';
const bodies = 'bursar_request_body_bytes_total';
const local = { store: 'local' };

test('a PUT and a GET are counted, timed and measured by their size and store', async () => {
  const growth = await growthOf(async () => {
    await put('/hidden-bucket/small', Buffer.alloc(1));
    await put('/hidden-bucket/medium', Buffer.alloc(MiB));
    expect((await get('/hidden-bucket/medium')).body).toHaveLength(MiB);
    await get('/hidden-bucket/medium', { range: 'bytes=0-1023' });
  });
  const tenant = { tenant: 'hidden-tenant', status: '2xx' };
  expect(growth(requests, { operation: 'PutObject', ...tenant })).toBe(2);
  expect(growth(requests, { operation: 'GetObject', ...tenant })).toBe(2);
  for (const [operation, size] of [
    ['PutObject', '1B'],
    ['PutObject', '1MB'],
    ['GetObject', '1MB'],
    ['GetObject', '1KB'],
  ] as const) {
    const of = { operation, size, ...local };
    for (const name of [durations, firstBytes, throughput]) {
      expect([name, of, growth(`${name}_count`, of)]).toEqual([name, of, 1]);
      expect(growth(`${name}_sum`, of)).toBeGreaterThan(0);
    }
    expect(growth(`${firstBytes}_sum`, of)).toBeLessThanOrEqual(growth(`${durations}_sum`, of));
  }
  expect(growth(bodies, { operation: 'PutObject', direction: 'in' })).toBe(MiB + 1);
  expect(growth(bodies, { operation: 'GetObject', direction: 'out' })).toBe(MiB + 1024);
});

test('what a bucket configured is counted by itself, of the requests that fit', async () => {
  await put('/counted-bucket');
  const configured = async (id: string, filter: string) => {
    const query = [
      ['metrics', ''],
      ['id', id],
    ] as const;
    const content = `<Id>${id}</Id>${filter}`;
    const body = `<MetricsConfiguration>${content}</MetricsConfiguration>`;
    const put = { method: 'PUT', path: '/counted-bucket', query, body };
    expect((await send(as(target, alice.keys), put)).status).toBe(204);
  };
  await configured('all', '');
  await configured('logs', '<Filter><Prefix>logs/</Prefix></Filter>');
  const growth = await growthOf(async () => {
    await put('/counted-bucket/logs/one', Buffer.alloc(10));
    await put('/counted-bucket/other', Buffer.alloc(5));
    await get('/counted-bucket/logs/one');
    await get('/counted-bucket/logs/none');
  });
  const counted = (configuration: string, kind: string, status: string) =>
    growth('bursar_bucket_requests_total', { configuration, kind, status });
  const of = { tenant: 'hidden-tenant', bucket: 'counted-bucket' };
  for (const [id, puts, bytes] of [
    ['all', 2, 15],
    ['logs', 1, 10],
  ] as const) {
    expect([id, counted(id, 'Put', '2xx')]).toEqual([id, puts]);
    expect([id, counted(id, 'Get', '2xx'), counted(id, 'Get', '4xx')]).toEqual([id, 1, 1]);
    const own = { ...of, configuration: id };
    expect(growth('bursar_bucket_body_bytes_total', { ...own, direction: 'in' })).toBe(bytes);
    for (const name of ['request_duration', 'request_first_byte']) {
      expect(growth(`bursar_bucket_${name}_seconds_count`, own)).toBe(puts + 2);
    }
  }
});

test('the stages of each operation add up to the durations of its requests', async () => {
  const growth = await growthOf(async () => {
    await put('/hidden-bucket/staged', Buffer.alloc(MiB));
    await get('/hidden-bucket/staged');
    await get('/hidden-bucket/none');
  });
  for (const operation of ['PutObject', 'GetObject']) {
    const inStages = growth('bursar_request_stage_seconds_total', { operation });
    expect(inStages).toBeGreaterThan(0);
    expect(inStages).toBeCloseTo(growth(`${durations}_sum`, { operation }), 6);
  }
  const inStage = (stage: string) => growth('bursar_request_stage_seconds_total', { stage });
  for (const stage of ['parse', 'authenticate', 'store', 'stream', 'commit']) {
    expect([stage, inStage(stage) > 0]).toEqual([stage, true]);
  }
  expect(stages.reduce((sum, stage) => sum + inStage(stage), 0)).toBeCloseTo(
    growth('bursar_request_stage_seconds_total'),
    9,
  );
});

test('what is refused, or nobody sent, counts by its status, without size and store', async () => {
  const stranger = as(target, { ...alice.keys, secretAccessKey: 'none-that-anybody-has' });
  const growth = await growthOf(async () => {
    expect((await get('/hidden-bucket/none')).status).toBe(404);
    expect((await send(stranger, { method: 'GET', path: '/hidden-bucket' })).status).toBe(403);
    expect((await send(target, { method: 'GET', path: '/hidden-bucket/large' })).status).toBe(404);
  });
  const refused = { status: '4xx' };
  expect(growth(requests, { ...refused, operation: 'GetObject', tenant: 'hidden-tenant' })).toBe(1);
  expect(growth(requests, { ...refused, operation: 'GetObject', tenant: 'default' })).toBe(1);
  expect(growth(requests, { ...refused, tenant: '' })).toBe(1);
  expect(growth(`${durations}_count`, { operation: 'GetObject', size: '', store: '' })).toBe(2);
  expect(growth(`${throughput}_count`)).toBe(0);
});

test('a client that goes away half-way ends its request, which is no transfer', async () => {
  const growth = await growthOf(async () => {
    const { path, headers } = signMessage(alice, { method: 'GET', path: '/hidden-bucket/large' });
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    const wire = await Wire.open(target);
    wire.write([`GET ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n'));
    await wire.until(/\r\n\r\n/);
    wire.stopReading();
    const underWay = async () => totalOf(await read(), 'bursar_requests_under_way');
    await expect.poll(underWay).toBe(2);
    wire.destroy();
  });
  expect(growth(requests, { operation: 'GetObject', tenant: 'hidden-tenant' })).toBe(1);
  expect(growth(`${durations}_count`, { operation: 'GetObject' })).toBe(1);
  expect(growth(`${throughput}_count`, { operation: 'GetObject' })).toBe(0);
  const sent = growth(bodies, { operation: 'GetObject', direction: 'out' });
  expect(sent).toBeGreaterThan(0);
  expect(sent).toBeLessThan(largeBytes);
});

test('calls of the native API are operations too', async () => {
  const growth = await growthOf(() => callNative(target, 'GET', '/_/v1/tenants'));
  const of = { operation: 'ListTenants' };
  expect(growth(requests, { ...of, status: '2xx', tenant: 'default' })).toBe(1);
  expect(growth(`${durations}_count`, of)).toBe(1);
});

test('without credentials nobody is told anything', async () => {
  const { status, text, headers } = await ask();
  expect([status, headers['www-authenticate']]).toEqual([401, expect.stringMatching(/^Bearer /)]);
  expect(text).toContain('urn:bursar:error:InvalidBearerToken');
});

test('with the token, tenants are named, and what they store is not', async () => {
  const { text } = await ask(`Bearer ${token}`);
  expect(text).toContain('tenant="hidden-tenant"');
  expect(text).not.toMatch(/hidden-bucket|hidden-person(?!")/);
});

test('credentials that are not the token are refused, not taken for none', async () => {
  const wrong = [
    `Bearer ${token}x`,
    `Bearer ${token.slice(1)}`,
    'Bearer',
    'Bearer ',
    'Basic eDp5',
    '',
  ];
  for (const authorization of wrong) {
    const { status, text } = await ask(authorization);
    expect([authorization, status]).toEqual([authorization, 401]);
    expect(text).toContain('urn:bursar:error:InvalidBearerToken');
  }
});

test('an operator is told all, at the native API; nobody else is', async () => {
  const answer = await send(target, { method: 'GET', path: '/_/v1/metrics' });
  expect(answer.status).toBe(200);
  expect(totalOf(parseMetrics(answer.text), requests, { tenant: 'hidden-tenant' })).toBeGreaterThan(
    0,
  );
  expect((await send(alice, { method: 'GET', path: '/_/v1/metrics' })).status).toBe(403);
});

test('counters and histograms never go down', async () => {
  const after = await settled();
  for (const [name, { type, samples }] of before) {
    if (type === 'gauge') continue;
    const now = new Map(after.get(name)?.samples.map((one) => [keyOf(one), one.value]));
    for (const one of samples) expect(now.get(keyOf(one))).toBeGreaterThanOrEqual(one.value);
  }
});

function keyOf({ name, labels }: { name: string; labels: Record<string, string> }): string {
  return `${name} ${JSON.stringify(labels)}`;
}

test('the documentation lists just these metrics, with their types and labels', async () => {
  const documented = readDocumented();
  const families = await read();
  expect([...families.keys()].sort()).toEqual([...documented.keys()].sort());
  for (const [name, { type, samples }] of families) {
    const row = documented.get(name);
    expect([name, type]).toEqual([name, row?.type]);
    const labels = new Set(samples.flatMap((one) => Object.keys(one.labels)));
    labels.delete('le');
    for (const label of labels)
      expect([name, row?.labels]).toEqual([name, expect.arrayContaining([label])]);
  }
});

/** The rows of tables that begin with a metric's name and its type. */
function readDocumented(): Map<string, { type: string; labels: string[] }> {
  const path = resolve(import.meta.dirname, '../../docs/admin/metrics.md');
  const found = new Map<string, { type: string; labels: string[] }>();
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const [, name, type, labels = ''] =
      /^\| `(bursar_\w+)` \| (counter|gauge|histogram) \| ([^|]*)\|/.exec(line) ?? [];
    if (name === undefined || type === undefined) continue;
    if (found.has(name)) throw new Error(`${name} is documented twice`);
    found.set(name, {
      type,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, one]) => String(one)),
    });
  }
  return found;
}
