// The newest requests are kept, in memory that does not grow, whoever asks for what.
import { expect, it } from 'vitest';
import type { ObservedRequest } from '#bursar/instruments/observed-request.js';
import { RecentEverywhere, RecentRequests } from '#bursar/instruments/recent-requests.js';
import { StageClock } from '#bursar/instruments/stage-clock.js';

function requestOf(id: string, more: Partial<ObservedRequest> = {}): ObservedRequest {
  return {
    ...{ id, way: 's3', method: 'GET', operation: 'GetObject', tenant: 'cms' },
    ...{ principal: 'alice', bucket: 'raw', store: 'local', status: 200, error: null },
    ...{ message: null, bytesIn: 0, bytesOut: 4096, index: 7, source: '192.0.2.1' },
    ...{ clock: new StageClock(), durationMs: 20, budget: null, trace: null },
    ...more,
  } as ObservedRequest;
}

it('forgets the oldest of those who are known, and no more', () => {
  const recent = new RecentRequests({ known: 3, strangers: 2 });
  for (const id of ['1', '2', '3', '4']) recent.observe(requestOf(id));
  expect(['1', '2', '3', '4'].map((id) => recent.find(id)?.id)).toEqual([
    ...[undefined, '2', '3', '4'],
  ]);
});

it('lets strangers push out strangers only', () => {
  const recent = new RecentRequests({ known: 1, strangers: 2, anonymousName: 'anonymous' });
  recent.observe(requestOf('own'));
  for (let i = 0; i < 100; i++) recent.observe(requestOf(`${i}`, { principal: null }));
  recent.observe(requestOf('nobody', { principal: 'anonymous' }));
  expect(recent.find('own')).toMatchObject({ principal: 'alice' });
  expect(recent.find('98')).toBeUndefined();
  expect(recent.find('99')).toMatchObject({ principal: null });
});

it('gives what does not change any more, and nothing of the request before in its place', () => {
  const recent = new RecentRequests({ known: 1, nowMs: () => 5 });
  const refused = { status: 403, error: 'AccessDenied', message: 'm'.repeat(5000), index: null };
  recent.observe(requestOf('1', refused));
  const story = recent.find('1');
  recent.observe(requestOf('2'));
  expect(story).toMatchObject({ id: '1', error: 'AccessDenied', endedMs: 5, record: null });
  expect(story?.message).toHaveLength(1024);
  expect(recent.find('2')).toMatchObject({ error: null, message: null, status: 200, record: 7 });
});

it('asks other threads for what it has not', async () => {
  const all = new RecentEverywhere(new RecentRequests());
  expect(await all.find('1')).toBeUndefined();
  const other = new RecentRequests();
  other.observe(requestOf('1'));
  all.addOthers(async (id) => other.find(id));
  expect(await all.find('1')).toMatchObject({ id: '1' });
});
