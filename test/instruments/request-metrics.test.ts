// What is counted of requests, of ends that the test makes up.
import { beforeEach, expect, test } from 'vitest';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import type { ObservedRequest } from '#bursar/instruments/observed-request.js';
import { namedTenantsMax, RequestMetrics } from '#bursar/instruments/request-metrics.js';
import { probeSizes } from '#bursar/instruments/sample.js';
import { bandOf, sizeBands } from '#bursar/instruments/size-band.js';
import { StageClock, stages } from '#bursar/instruments/stage-clock.js';
import { type Family, labelValues, parseMetrics, totalOf } from '../tooling/metrics-text.ts';

let registry: MetricRegistry;
let metrics: RequestMetrics;

beforeEach(() => {
  registry = new MetricRegistry();
  metrics = new RequestMetrics(registry);
});

function end(given: Partial<ObservedRequest> = {}): void {
  const clock = new StageClock();
  clock.end();
  metrics.observe({
    ...{ id: '1', way: 's3', method: 'GET', operation: 'GetObject', tenant: 'cms' },
    ...{ principal: 'alice', bucket: 'raw', store: 'local', status: 200, error: null },
    message: null,
    ...{ rule: null, ruleTenant: null },
    ...{ bytesIn: 0, bytesOut: 0, index: null, source: '192.0.2.1', trace: null, durationMs: 2 },
    budget: null,
    clock,
    ...given,
  });
}

async function read(audience: 'everybody' | 'operator' = 'operator') {
  return parseMetrics((await registry.read(audience)).toString());
}

function seriesIn(families: ReadonlyMap<string, Family>): number {
  return [...families.values()].reduce((sum, { samples }) => sum + samples.length, 0);
}

test('each size that probes measure is in a band of its own, and all others in the nearest', () => {
  expect(probeSizes.map(bandOf)).toEqual([0, 1, 2, 3, 4]);
  const borders = [0, 31, 32, 32 * 1024 - 1, 32 * 1024, 4 * 2 ** 20, 40 * 2 ** 20 - 1, 2 ** 40];
  expect(borders.map((bytes) => sizeBands[bandOf(bytes)])).toEqual([
    ...['1B', '1B', '1KB', '1KB', '1MB', '16MB', '16MB', '100MB'],
  ]);
});

test('everybody is told the same requests as the operator, and no tenant', async () => {
  for (const tenant of ['cms', 'atlas', null]) end({ tenant });
  end({ status: 403, error: 'AccessDenied' });
  const [open, all] = [await read('everybody'), await read('operator')];
  const name = 'bursar_requests_total';
  expect(totalOf(open, name, { status: '2xx' })).toBe(3);
  expect(totalOf(all, name, { status: '2xx' })).toBe(3);
  expect(totalOf(all, name, { status: '4xx', tenant: 'cms' })).toBe(1);
  expect(labelValues(all, name, 'tenant')).toEqual(['', 'atlas', 'cms']);
  expect((await registry.read('everybody')).toString()).not.toMatch(/tenant=|cms|atlas/);
});

test('a thousand tenants and unknown names make no more series than promised', async () => {
  for (let i = 0; i < 1000; i++) end({ tenant: `tenant-${i}`, bucket: `bucket-${i}` });
  // One that is really called so is not told from the others.
  end({ tenant: 'other' });
  const before = await read();
  const named = labelValues(before, 'bursar_requests_total', 'tenant');
  expect(named.length).toBe(namedTenantsMax + 1);
  expect(totalOf(before, 'bursar_requests_total', { tenant: 'other' })).toBe(
    1001 - namedTenantsMax,
  );
  for (let i = 0; i < 2000; i++) end({ operation: `Made-up-${i}`, bucket: `other-${i}` });
  const full = await read();
  const operations = labelValues(full, 'bursar_requests_total', 'operation');
  expect(operations.length).toBeLessThan(500);
  for (let i = 2000; i < 4000; i++) end({ operation: `Made-up-${i}` });
  expect(seriesIn(await read())).toBe(seriesIn(full));
});

test('strangers who are refused for tenants that are none take no tenant’s place', async () => {
  for (let i = 0; i < 1000; i++) end({ tenant: `none-${i}`, status: 403, error: 'AccessDenied' });
  end({ tenant: 'cms' });
  expect(labelValues(await read(), 'bursar_requests_total', 'tenant')).toEqual(['cms', 'other']);
});

test('statuses are told by class, also that there was none, or one that nobody knows', async () => {
  for (const status of [0, 100, 200, 299, 304, 404, 503, 999]) end({ status });
  const families = await read();
  const counts = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'].map((status) =>
    totalOf(families, 'bursar_requests_total', { status }),
  );
  expect(counts).toEqual([1, 1, 2, 1, 1, 2]);
});

test('only what moved an object has a size and a store', async () => {
  end({ operation: 'PutObject', bytesIn: 1024, store: 'archive' });
  end({ operation: 'UploadPart', bytesIn: 16 * 2 ** 20, store: 'archive' });
  end({ bytesOut: 1 });
  const others: Partial<ObservedRequest>[] = [
    { operation: 'HeadObject', method: 'HEAD' },
    { status: 304 },
    { status: 404, error: 'NoSuchKey' },
    { error: 'BursarIntegrityError', bytesOut: 4096 },
    { status: 0 },
    { operation: 'CopyObject', method: 'PUT' },
    { operation: 'ListObjects', bytesOut: 9000 },
    { operation: null, store: null, tenant: null, status: 403, error: 'InvalidAccessKeyId' },
  ];
  for (const one of others) end(one);
  const families = await read();
  const count = (labels: Record<string, string>) =>
    totalOf(families, 'bursar_request_duration_seconds_count', labels);
  expect(count({ operation: 'PutObject', size: '1KB', store: 'archive' })).toBe(1);
  expect(count({ operation: 'UploadPart', size: '16MB', store: 'archive' })).toBe(1);
  expect(count({ operation: 'GetObject', size: '1B', store: 'local' })).toBe(1);
  expect(count({ size: '', store: '' })).toBe(others.length);
  expect(count({ operation: 'unknown' })).toBe(1);
  expect(count({})).toBe(totalOf(families, 'bursar_requests_total'));
});

test('durations are seconds, throughput is bytes by them, and nothing by nothing', async () => {
  const clock = new StageClock();
  clock.answer();
  clock.end();
  end({ bytesOut: 2 ** 20, durationMs: 250, clock });
  end({ bytesOut: 0, durationMs: 1 });
  const families = await read();
  const size = { size: '1MB' };
  expect(totalOf(families, 'bursar_request_duration_seconds_sum', size)).toBe(0.25);
  expect(totalOf(families, 'bursar_transfer_bytes_per_second_sum', size)).toBe(4 * 2 ** 20);
  expect(totalOf(families, 'bursar_transfer_bytes_per_second_count')).toBe(1);
  expect(totalOf(families, 'bursar_request_first_byte_seconds_sum', size)).toBe(
    clock.firstByteMs / 1000,
  );
});

test('stages add up to what clocks measured, and bodies to what moved', async () => {
  let measuredMs = 0;
  for (const operation of ['GetObject', 'PutObject']) {
    const clock = new StageClock();
    for (const stage of stages) clock.enter(stage);
    measuredMs += clock.end();
    end({ operation, clock, bytesIn: 3, bytesOut: 5 });
  }
  const families = await read();
  const staged = totalOf(families, 'bursar_request_stage_seconds_total');
  expect(staged).toBeCloseTo(measuredMs / 1000, 9);
  expect(labelValues(families, 'bursar_request_stage_seconds_total', 'stage')).toEqual(
    [...stages].sort(),
  );
  expect(totalOf(families, 'bursar_request_body_bytes_total', { direction: 'in' })).toBe(6);
  expect(totalOf(families, 'bursar_request_body_bytes_total', { direction: 'out' })).toBe(10);
});
