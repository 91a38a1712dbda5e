// Samples of real traffic stand for all of it, and cost it nothing: what cannot be written is
// dropped.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ObservedRequest } from '#bursar/instruments/observed-request.js';
import type { Sample } from '#bursar/instruments/sample.js';
import { parseSample, renderSample } from '#bursar/instruments/sample-line.js';
import { StageClock } from '#bursar/instruments/stage-clock.js';
import { TrafficSampler } from '#bursar/instruments/traffic-sampler.js';

function requestOf(more: Partial<ObservedRequest> = {}): ObservedRequest {
  return {
    ...{ id: '1', way: 's3', method: 'GET', operation: 'GetObject', tenant: 'cms' },
    ...{ principal: 'alice', bucket: 'raw', store: 'archive', status: 200, error: null },
    ...{ bytesIn: 0, bytesOut: 4096, index: 7, source: '192.0.2.1' },
    ...{ clock: new StageClock(), durationMs: 20, budget: { cost: 400_000n } },
    ...more,
  } as ObservedRequest;
}

class Disk {
  readonly samples: Sample[] = [];
  appendSoon = async (samples: readonly Sample[]): Promise<void> => {
    this.samples.push(...samples);
  };
  close = async (): Promise<void> => {};
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a sampler of traffic', () => {
  it('keeps what moved bytes and succeeded, or failed for the server’s sake', async () => {
    const disk = new Disk();
    const sampler = new TrafficSampler(disk);
    sampler.observe(requestOf());
    sampler.observe(
      requestOf({ operation: 'UploadPart', bytesIn: 7, store: null, budget: { cost: 0n } }),
    );
    sampler.observe(requestOf({ status: 503, error: 'SlowDown', bytesOut: 0 }));
    for (const passed of [
      { operation: 'ListBuckets' },
      { operation: null },
      { status: 404, error: 'NoSuchKey' },
      { status: 304 },
      { status: 0 },
    ]) {
      sampler.observe(requestOf(passed));
    }
    await sampler.close();
    expect(disk.samples).toMatchObject([
      {
        ...{ kind: 'read', sizeBytes: 4096, target: 'gateway, store archive', error: null },
        costPicodollars: '400000',
      },
      { kind: 'write', sizeBytes: 7, target: 'gateway', error: null },
      { kind: 'read', sizeBytes: 0, error: 'SlowDown' },
    ]);
    // What is free has no cost to report.
    expect(disk.samples[1]).not.toHaveProperty('costPicodollars');
    for (const sample of disk.samples) expect(parseSample(renderSample(sample))).toBeDefined();
  });

  it('passes over the gateway’s own probe', async () => {
    const disk = new Disk();
    const sampler = new TrafficSampler(disk, { tenant: 'default', principal: 'probe' });
    sampler.observe(requestOf({ tenant: 'default', principal: 'probe' }));
    sampler.observe(requestOf({ tenant: 'cms', principal: 'probe', bytesOut: 3 }));
    await sampler.close();
    expect(disk.samples).toMatchObject([{ sizeBytes: 3 }]);
  });

  it('names nobody, and no bucket', async () => {
    const disk = new Disk();
    const sampler = new TrafficSampler(disk);
    sampler.observe(requestOf());
    await sampler.close();
    expect(disk.samples.map(renderSample).join('')).not.toMatch(/cms|alice|raw|192\.0\.2/);
  });

  it('keeps at most 50 of a second, which stand for all', async () => {
    const disk = new Disk();
    const sampler = new TrafficSampler(disk);
    for (let i = 0; i < 1000; i++) sampler.observe(requestOf({ bytesOut: i }));
    await vi.advanceTimersByTimeAsync(1000);
    expect(disk.samples).toHaveLength(50);
    expect(disk.samples.reduce((sum, { weight = 1 }) => sum + weight, 0)).toBe(1000);
    // They are drawn from all of the second, not taken from its begin.
    expect(Math.max(...disk.samples.map(({ sizeBytes }) => sizeBytes))).toBeGreaterThan(500);
    expect(new Set(disk.samples.map(({ sizeBytes }) => sizeBytes)).size).toBe(50);
    await sampler.close();
  });

  it('keeps one of a second in the long run, so that a week fits on the disk', async () => {
    const disk = new Disk();
    const sampler = new TrafficSampler(disk);
    const seconds = 200;
    for (let second = 0; second < seconds; second++) {
      for (let i = 0; i < 60; i++) sampler.observe(requestOf());
      await vi.advanceTimersByTimeAsync(1000);
    }
    await sampler.close();
    // What was saved up before comes on top.
    expect(disk.samples.length).toBeLessThanOrEqual(seconds + 3600 + 50);
    const stoodFor = disk.samples.reduce((sum, { weight = 1 }) => sum + weight, 0);
    expect(Math.round(stoodFor)).toBe(seconds * 60);
  });

  it('drops and counts what a full disk refuses, or a stuck one does not take', async () => {
    const disk = new Disk();
    const sampler = new TrafficSampler(disk);
    disk.appendSoon = () => Promise.reject(new Error('ENOSPC'));
    sampler.observe(requestOf());
    await vi.advanceTimersByTimeAsync(1000);
    expect(sampler.counts).toMatchObject({ requests: 1, samples: 0, dropped: 1 });
    let free = (): void => {};
    disk.appendSoon = () => new Promise<void>((resolve) => (free = resolve));
    for (let second = 0; second < 3; second++) {
      sampler.observe(requestOf());
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect(sampler.counts).toMatchObject({ samples: 0, dropped: 3 });
    free();
    await vi.advanceTimersByTimeAsync(0);
    expect(sampler.counts).toMatchObject({ requests: 4, samples: 1, dropped: 3 });
    await sampler.close();
  });
});
