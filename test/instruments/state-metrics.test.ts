// What rooms tell, with rooms of the test's own: the numbers follow them, and who may read what.
import { describe, expect, it } from 'vitest';
import { LedgerMeter } from '#bursar/instruments/ledger-meter.js';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import {
  type Backlog,
  watchBacklogs,
  watchBudgets,
  watchCaches,
  watchLedger,
  watchQueues,
  watchStores,
} from '#bursar/instruments/state-metrics.js';
import { watchTargets } from '#bursar/instruments/target-metrics.js';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';

async function read(registry: MetricRegistry, audience: 'everybody' | 'operator' = 'everybody') {
  return parseMetrics((await registry.read(audience)).toString());
}

describe('the ledger', () => {
  it('tells how long batches and signatures took, and how many shared a batch', async () => {
    const meter = new LedgerMeter();
    const registry = new MetricRegistry();
    const load = { underWay: 7, busyMs: 1500 };
    watchLedger(registry, { meter, load });
    for (const requests of [3, 1]) meter.batchRequests.record(requests);
    for (const seconds of [0.02, 0.01]) meter.batchSeconds.record(seconds);
    for (const seconds of [0.015, 0.005]) meter.commitSeconds.record(seconds);
    meter.signedSeconds.record(0.03);
    const families = await read(registry);
    const of = (name: string, labels = {}) => totalOf(families, name, labels);
    expect(of('bursar_ledger_batch_requests_sum')).toBe(4);
    expect(of('bursar_ledger_batch_requests_bucket', { le: '1' })).toBe(1);
    expect(of('bursar_ledger_batch_seconds_sum')).toBeCloseTo(0.03);
    expect(of('bursar_ledger_commit_seconds_sum')).toBeCloseTo(0.02);
    expect(of('bursar_ledger_commit_seconds_bucket', { le: '0.01' })).toBe(1);
    expect(of('bursar_log_signing_seconds_sum')).toBeCloseTo(0.03);
    expect(of('bursar_ledger_requests_under_way')).toBe(7);
    expect(of('bursar_ledger_busy_seconds_total')).toBe(1.5);
  });
});

describe('queues and caches', () => {
  it('are asked each time that somebody reads', async () => {
    const registry = new MetricRegistry();
    const cache = { hits: 1, misses: 2, entries: 3 };
    let waiting = 4;
    watchQueues(registry, { ledger: () => waiting });
    watchCaches(registry, { buckets: cache });
    await read(registry);
    cache.hits = 10;
    waiting = 0;
    const families = await read(registry);
    expect(totalOf(families, 'bursar_cache_hits_total', { cache: 'buckets' })).toBe(10);
    expect(totalOf(families, 'bursar_cache_misses_total', { cache: 'buckets' })).toBe(2);
    expect(totalOf(families, 'bursar_cache_entries', { cache: 'buckets' })).toBe(3);
    expect(totalOf(families, 'bursar_queue_length', { queue: 'ledger' })).toBe(0);
  });
});

describe('stores', () => {
  it('are in one state of their breaker, and those that have none in no state', async () => {
    const registry = new MetricRegistry();
    watchStores(registry, () => [
      { name: 'local', ready: true, health: { freeBytes: 1 }, detail: {} },
      { name: 'far', ready: false, health: { breaker: 'half-open' }, detail: { waiting: 5 } },
    ]);
    const families = await read(registry);
    const { samples = [] } = families.get('bursar_store_breaker') ?? {};
    expect(samples.map(({ labels, value }) => [labels.store, labels.state, value])).toEqual([
      ['far', 'closed', 0],
      ['far', 'half-open', 1],
      ['far', 'open', 0],
    ]);
    expect(totalOf(families, 'bursar_store_ready', { store: 'local' })).toBe(1);
    expect(totalOf(families, 'bursar_store_ready', { store: 'far' })).toBe(0);
    expect(totalOf(families, 'bursar_store_requests_waiting', { store: 'far' })).toBe(5);
  });
});

describe('a backlog', () => {
  it('is as old as its oldest work, and of no age when there is none or nobody knows', async () => {
    const registry = new MetricRegistry();
    const backlogs: Backlog[] = [
      { store: 'far', work: 'journal', count: 2, oldestMs: Date.now() - 60_000 },
      { store: 'far', work: 'sweep', count: 0, oldestMs: null },
      // A clock that was set back.
      { store: 'far', work: 'intents', count: 1, oldestMs: Date.now() + 60_000 },
      { store: 'catalog', work: 'purge', count: 3 },
    ];
    watchBacklogs(registry, async () => backlogs);
    const families = await read(registry);
    const ageOf = (work: string) => totalOf(families, 'bursar_backlog_age_seconds', { work });
    expect(totalOf(families, 'bursar_backlog_items')).toBe(6);
    expect(ageOf('journal')).toBeGreaterThanOrEqual(60);
    expect([ageOf('sweep'), ageOf('intents')]).toEqual([0, 0]);
    expect(families.get('bursar_backlog_age_seconds')?.samples).toHaveLength(3);
  });
});

describe('budgets', () => {
  it('are told to the operator alone, and looked at for nobody else', async () => {
    const registry = new MetricRegistry();
    let asked = 0;
    watchBudgets(registry, async () => {
      asked += 1;
      return [{ account: 'tenant:cms', meter: 'spend', window: 'month', ratio: 0.5 }];
    });
    const text = (await registry.read('everybody')).toString();
    expect([text.includes('cms'), asked]).toEqual([false, 0]);
    const told = await read(registry, 'operator');
    const labels = { account: 'tenant:cms', meter: 'spend', window: 'month' };
    expect(totalOf(told, 'bursar_budget_used_ratio', labels)).toBe(0.5);
  });
});

describe('targets', () => {
  it('are counted once for all that a text says of them', async () => {
    const registry = new MetricRegistry();
    const one = { tenant: 'cms', target: 'ingest', sent: 3, failed: 2, isStuck: true };
    let counted = 0;
    const list = async () => {
      counted += 1;
      return [{ ...one, deadLetters: 4, behind: 5, lagMs: 6000 }];
    };
    watchTargets(registry, { list, followers: () => 7 });
    const families = await read(registry, 'operator');
    const names = ['messages_total', 'failures_total', 'stuck', 'dead_letters', 'lag_seconds'];
    const told = names.map((name) => totalOf(families, `bursar_target_${name}`));
    expect([told, counted]).toEqual([[3, 2, 1, 4, 6], 1]);
  });
});
