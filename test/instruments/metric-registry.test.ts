// The text that Prometheus reads, of metrics of the test's own.
import { expect, test } from 'vitest';
import { Histogram } from '#bursar/instruments/histogram.js';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import { Paced } from '#bursar/instruments/paced.js';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';

type Audience = 'everybody' | 'operator';

async function read(registry: MetricRegistry, audience: Audience = 'everybody') {
  return parseMetrics((await registry.read(audience)).toString());
}

test('a value is what it is when somebody reads, not before', async () => {
  const registry = new MetricRegistry();
  let asked = 0;
  registry.gauge({ name: 'bursar_depth', help: 'Depth.', collect: () => ++asked });
  expect(asked).toBe(0);
  expect(totalOf(await read(registry), 'bursar_depth')).toBe(1);
  expect(totalOf(await read(registry), 'bursar_depth')).toBe(2);
});

test("a histogram's buckets are cumulative, and a value on a bound is below it", async () => {
  const registry = new MetricRegistry();
  const histogram = new Histogram([1, 10]);
  for (const value of [0, 1, 2, 10, 11]) histogram.record(value);
  registry.histogram({
    name: 'bursar_try_seconds',
    help: 'Tries.',
    collect: () => [[{ kind: 'get' }, histogram]],
  });
  const { samples } = (await read(registry)).get('bursar_try_seconds') ?? {};
  expect(samples?.map(({ name, labels: { le }, value }) => [name, le, value])).toEqual([
    ['bursar_try_seconds_bucket', '1', 2],
    ['bursar_try_seconds_bucket', '10', 4],
    ['bursar_try_seconds_bucket', '+Inf', 5],
    ['bursar_try_seconds_sum', undefined, 24],
    ['bursar_try_seconds_count', undefined, 5],
  ]);
});

test('what names somebody is told to the operator alone', async () => {
  const registry = new MetricRegistry();
  const asked: Audience[] = [];
  registry.gauge({
    name: 'bursar_share_ratio',
    help: 'Shares.',
    isPrivate: true,
    collect: (audience) => {
      asked.push(audience);
      return [[{ account: 'tenant:cms' }, 0.5]];
    },
  });
  expect((await registry.read('everybody')).toString()).not.toMatch(/share|cms/);
  expect(totalOf(await read(registry, 'operator'), 'bursar_share_ratio')).toBe(0.5);
  expect(asked).toEqual(['operator']);
});

test('a metric that cannot be told takes no other from the text, and is counted', async () => {
  const registry = new MetricRegistry();
  let isBroken = true;
  registry.gauge({
    name: 'bursar_broken',
    help: 'Broken.',
    collect: () => {
      if (isBroken) throw new Error('cannot be told');
      return 1;
    },
  });
  registry.gauge({ name: 'bursar_whole', help: 'Whole.', collect: async () => 7 });
  const first = await read(registry);
  expect([...first.keys()]).toEqual(['bursar_metric_failures_total', 'bursar_whole']);
  isBroken = false;
  const next = await read(registry);
  expect(totalOf(next, 'bursar_metric_failures_total')).toBe(1);
  expect([totalOf(next, 'bursar_broken'), totalOf(next, 'bursar_whole')]).toEqual([1, 7]);
});

test('ten thousand series are told as one metric', async () => {
  const registry = new MetricRegistry();
  const all = Array.from({ length: 10_000 }, (_, i) => [{ series: `s${i}` }, i] as const);
  registry.gauge({ name: 'bursar_many', help: 'Many.', collect: () => all });
  registry.gauge({ name: 'bursar_next', help: 'Next.', collect: () => 1 });
  const { samples } = (await read(registry)).get('bursar_many') ?? {};
  expect(samples).toHaveLength(10_000);
  expect(samples?.[9999]).toEqual({
    name: 'bursar_many',
    labels: { series: 's9999' },
    value: 9999,
  });
});

test('labels may be any text', async () => {
  const registry = new MetricRegistry();
  const store = 'a "quoted\\name"\n{x="y"} 1';
  registry.gauge({ name: 'bursar_ready', help: 'Ready.', collect: () => [[{ store }, 1]] });
  expect((await read(registry)).get('bursar_ready')?.samples).toEqual([
    { name: 'bursar_ready', labels: { store }, value: 1 },
  ]);
});

test('names are as they are promised, and unique', () => {
  const registry = new MetricRegistry();
  const measure = { help: 'Some.', collect: () => 1 };
  const names = ['requests', 'bursar_Requests', 'bursar_requests{', 'bursar_'];
  for (const name of names) expect(() => registry.gauge({ ...measure, name })).toThrow(name);
  expect(() => registry.counter({ ...measure, name: 'bursar_tries' })).toThrow('bursar_tries');
  registry.gauge({ ...measure, name: 'bursar_tries' });
  expect(() => registry.gauge({ ...measure, name: 'bursar_tries' })).toThrow('bursar_tries');
});

test('thousands of readers have few texts made, each after its reader asked', async () => {
  let made = 0;
  const paced = new Paced(async () => {
    const began = ++made;
    await new Promise((resolve) => setTimeout(resolve, 5));
    return began;
  });
  const ask = async () => {
    const begunBefore = made;
    return (await paced.read()) > begunBefore;
  };
  const first = Array.from({ length: 1000 }, ask);
  // While the first text is being made, it is too old for who comes now.
  await expect.poll(() => made).toBe(1);
  const second = Array.from({ length: 1000 }, ask);
  expect((await Promise.all([...first, ...second])).every(Boolean)).toBe(true);
  expect(made).toBe(2);
});

test('a making that fails fails who waited for it, and none after them', async () => {
  let fails = true;
  const paced = new Paced(async () => {
    if (fails) throw new Error('not now');
    return 'made';
  });
  await expect(paced.read()).rejects.toThrow('not now');
  fails = false;
  await expect(paced.read()).resolves.toBe('made');
});
