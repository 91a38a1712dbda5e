// The probe against a real S3 server that is not ours, through a proxy that fails on request, and
// against servers that only pretend. Each series makes the samples it says; nothing of it stays
// behind.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createSilent } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { latencyBytes } from '#bursar/instruments/probe/probe.js';
import type { Sample } from '#bursar/instruments/sample.js';
import { readSamples } from '#bursar/instruments/sample-log.js';
import {
  type ProbeJob,
  removeProbeObjects,
  runProbeJob,
} from '#bursar/server/processes/probe-job.js';
import { FaultProxy } from '../../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../../tooling/versitygw.ts';

const root = mkdtempSync(join(tmpdir(), 'bursar-probe-'));
const never = new AbortController().signal;
let runs = 0;

afterAll(() => rmSync(root, { recursive: true, force: true }));

function jobFor(endpoint: string, more: Partial<ProbeJob> = {}): ProbeJob {
  return {
    endpoint,
    region: 'us-east-1',
    isPathStyle: true,
    credentials: { accessKeyId: 'NOBODY', secretAccessKey: 'nothing-of-value' },
    places: [{ bucket: 'lab', name: 'lab', prices: null }],
    series: ['latency'],
    sizesBytes: [1, 1024],
    surge: { threadsMin: 1, threadsMax: 3, eachMs: 100, sizeBytes: 2000 },
    parts: { parallel: [1, 2], partBytes: 5 * 1024 * 1024 },
    count: 1,
    forMs: null,
    meanIntervalMs: 0,
    line: { isFresh: false, silenceMsMax: 10_000 },
    retryPauseMs: { min: 1, max: 5 },
    prefix: 'probes/',
    isKept: false,
    samples: join(root, String(runs++)),
    spendMax: null,
    ...more,
  };
}

async function run(job: ProbeJob, stop = never, abandon = never, mayBegin?: () => Promise<void>) {
  const told: Sample[] = [];
  const notices: string[] = [];
  const outcome = await runProbeJob(job, {
    ...{ stop, abandon, ...(mayBegin && { mayBegin }) },
    onSample: (sample) => told.push(sample),
    onNotice: (text) => notices.push(text),
  });
  const kept: Sample[] = [];
  for await (const sample of readSamples(job.samples)) kept.push(sample);
  expect(kept.slice(-told.length)).toEqual(
    told.map((sample) => expect.objectContaining({ timeMs: sample.timeMs })),
  );
  return { ...outcome, samples: kept, notices };
}

describeWithTool(versitygw, 'a probe of an S3 server', (path) => {
  let server: S3Backend;
  let proxy: FaultProxy;
  let job: (more?: Partial<ProbeJob>) => ProbeJob;

  beforeAll(async () => {
    server = await startVersitygw(path);
    server.makeBucket('lab');
    proxy = await FaultProxy.start(server.port);
    const { credentials } = server;
    job = (more = {}) => jobFor(proxy.endpoint, { credentials, ...more });
  });
  afterAll(async () => {
    await proxy.stop();
    await server.stop();
  });
  beforeEach(() => {
    proxy.choose = () => undefined;
  });

  const left = (): string[] =>
    readdirSync(join(server.dataDir, 'lab'), { recursive: true })
      .map(String)
      .filter((name) => name.includes('bursar-probe-'));

  it('writes and reads pairs of objects of each size, each read another object', async () => {
    const targets: string[] = [];
    proxy.choose = ({ method, target }) => {
      if (method === 'GET' && target.includes('bursar-probe-') && !target.includes('?')) {
        targets.push(target);
      }
      return undefined;
    };
    const { samples, reason } = await run(job({ series: ['sizes', 'latency'], count: 2 }));
    expect(reason).toBe('done');
    expect(samples).toHaveLength(2 * 3 * 4);
    expect(samples.every(({ error, retries }) => error === null && retries === 0)).toBe(true);
    expect(new Set(targets).size).toBe(targets.length);
    expect(targets).toHaveLength(2 * 3 * 2);
    const pairs = groupByPair(samples);
    expect([...pairs.values()].map((two) => two.map(({ pair }) => pair?.of))).toEqual(
      Array.from({ length: 12 }, () => [1, 2]),
    );
    const sizes = samples.filter(({ series }) => series === 'sizes').map((one) => one.sizeBytes);
    expect(new Set(sizes)).toEqual(new Set([1, 1024]));
    const latency = samples.filter(({ series }) => series === 'latency');
    expect(new Set(latency.map(({ sizeBytes }) => sizeBytes))).toEqual(new Set([latencyBytes]));
    for (const { durationMs, firstByteMs } of samples) {
      expect(firstByteMs).toBeGreaterThan(0);
      expect(durationMs).toBeGreaterThanOrEqual(firstByteMs);
    }
    expect(left()).toEqual([]);
  });

  it('has more and more threads, each reading and writing', async () => {
    const { samples } = await run(job({ series: ['surge'] }));
    for (const threads of [1, 2, 3]) {
      for (const kind of ['read', 'write']) {
        const found = samples.filter((one) => one.threads === threads && one.kind === kind);
        // Each thread has two objects at least.
        expect(found.length).toBeGreaterThanOrEqual(2 * threads);
      }
    }
    expect(new Set(samples.map(({ error }) => error))).toEqual(new Set([null]));
    expect(left()).toEqual([]);
  });

  it('uploads the same object with more and more parts side by side', async () => {
    const { samples } = await run(job({ series: ['parts'] }));
    const sizeBytes = 2 * 5 * 1024 * 1024;
    expect(samples).toMatchObject([
      { series: 'parts', kind: 'write', parallelParts: 1, sizeBytes, error: null },
      { series: 'parts', kind: 'write', parallelParts: 2, sizeBytes, error: null },
    ]);
    expect(left()).toEqual([]);
  });

  it.each([1, 5])('counts %i retries of a server that fails so often', async (failures) => {
    let failed = 0;
    proxy.choose = ({ method }) => {
      if (method !== 'PUT' || failed === failures) return undefined;
      failed++;
      return { kind: 'status', status: 503, code: 'SlowDown' };
    };
    const { samples } = await run(job());
    expect(samples[0]).toMatchObject({ kind: 'write', retries: failures, error: null });
    expect(samples.slice(1).every(({ retries }) => retries === 0)).toBe(true);
  });

  it('gives a write up after five retries, and reads nothing that was not written', async () => {
    proxy.choose = ({ method }) =>
      method === 'PUT' ? { kind: 'status', status: 500, code: 'InternalError' } : undefined;
    const { samples, reason } = await run(job());
    expect(reason).toBe('done');
    const failed = { kind: 'write', retries: 5, error: 'HTTP 500 InternalError' };
    expect(samples).toMatchObject([failed, failed]);
  });

  it('takes altered bytes, missing ones and a cut for failures, and reads again', async () => {
    const faults = [
      { kind: 'flip', at: 'download' },
      { kind: 'shorten', byBytes: 1 },
      { kind: 'truncate', afterBytes: 100 },
    ] as const;
    let next = 0;
    proxy.choose = ({ method, target }) =>
      method === 'GET' && !target.includes('?') ? faults[next++] : undefined;
    const { samples } = await run(job());
    const reads = samples.filter(({ kind }) => kind === 'read');
    expect(reads.map(({ retries, error }) => [retries, error])).toEqual([
      [3, null],
      [0, null],
    ]);
  });

  it('gives a try up when nothing moves any more, either way', async () => {
    const stalled = new Set<string>();
    proxy.choose = ({ method, target }) => {
      if (target.includes('?') || stalled.has(method) || method === 'DELETE') return undefined;
      stalled.add(method);
      return method === 'PUT'
        ? { kind: 'stall', at: 'answer' }
        : { kind: 'stall', at: 'download', afterBytes: 10 };
    };
    const line = { isFresh: false, silenceMsMax: 300 };
    const { samples } = await run(job({ line }));
    expect(samples.map(({ retries, error }) => [retries, error])).toEqual([
      [1, null],
      [0, null],
      [1, null],
      [0, null],
    ]);
  });

  it('aborts an upload whose parts fail', async () => {
    proxy.choose = ({ method, target }) =>
      method === 'PUT' && target.includes('partNumber=2')
        ? { kind: 'status', status: 400, code: 'InvalidRequest' }
        : undefined;
    const { samples } = await run(job({ series: ['parts'] }));
    expect(samples.map(({ error }) => error)).toEqual(
      Array.from({ length: 2 }, () => 'HTTP 400 InvalidRequest'),
    );
    expect(left()).toEqual([]);
  });

  it('ends before it would spend more than it may, tries that failed included', async () => {
    const prices = { perPut: '5', perGet: '1', perGbIn: '0', perGbOut: '0' };
    let puts = 0;
    proxy.choose = ({ method }) =>
      method === 'PUT' && puts++ === 0
        ? { kind: 'status', status: 503, code: 'SlowDown' }
        : undefined;
    const { samples, reason, spent } = await run(
      job({ places: [{ bucket: 'lab', name: 'lab', prices }], spendMax: '17', count: 9 }),
    );
    expect(reason).toBe('spent');
    expect(spent).toBe(17n);
    expect(samples.map((one) => one.costPicodollars)).toEqual(['10', '5', '1', '1']);
    expect(left()).toEqual([]);
  });

  it('is not measured where it refuses, and says why', async () => {
    const { reason, message, samples } = await run(
      job({ places: [{ bucket: 'nowhere', name: 'nowhere', prices: null }] }),
    );
    expect([reason, message]).toEqual(['refused', 'HTTP 404 NoSuchBucket']);
    // Nothing was measured: a wrong name says nothing of the server's availability.
    expect(samples).toEqual([]);
  });

  it('ends when it is asked to, keeps what it measured, and cleans up', async () => {
    const stop = new AbortController();
    let asked = 0;
    const mayBegin = async (): Promise<void> => {
      if (++asked === 3) stop.abort();
    };
    const { reason, samples } = await run(job({ count: 99 }), stop.signal, never, mayBegin);
    expect(reason).toBe('stopped');
    expect(samples).toHaveLength(8);
    expect(left()).toEqual([]);
  });

  it('leaves nothing for good when it dies: its next run removes what it left', async () => {
    const abandon = new AbortController();
    const { samples } = { samples: join(root, 'dies') };
    // Dies in the middle of an upload, and in the middle of a pair.
    for (const series of ['parts', 'latency'] as const) {
      const dying = new AbortController();
      proxy.choose = ({ method, target }) => {
        const isThere = series === 'parts' ? target.includes('partNumber=2') : method === 'GET';
        if (isThere && target.includes('/bursar-probe-')) dying.abort();
        return undefined;
      };
      await run(job({ series: [series], samples }), never, dying.signal);
    }
    proxy.choose = () => undefined;
    expect(left().length).toBeGreaterThan(0);
    const other = await run(job({ count: 1 }));
    expect(other.samples).toHaveLength(4);
    // Another folder's probe may be running: its objects are its own.
    expect(left().length).toBeGreaterThan(0);
    await run(job({ samples }), never, abandon.signal);
    expect(left()).toEqual([]);
  });

  it('removes what was left on another machine, where the buckets are its own', async () => {
    const owner = '0'.repeat(16);
    const dying = new AbortController();
    proxy.choose = ({ method, target }) => {
      if (method === 'GET' && target.includes('/bursar-probe-')) dying.abort();
      return undefined;
    };
    await run(job({ owner }), never, dying.signal);
    expect(left().length).toBeGreaterThan(0);
    await run(job({ owner }));
    expect(left()).toEqual([]);
  });

  it('removes what anybody’s probes left, and nothing else, when told to clean', async () => {
    await run(job({ isKept: true }));
    expect(left().length).toBeGreaterThan(0);
    expect(await removeProbeObjects(job(), never)).toBe(2);
    expect(left()).toEqual([]);
  });
});

describe('a hostile server', () => {
  let server: Server;
  let endpoint = '';
  /** What it does with a request after the first listings. */
  let answer: Parameters<typeof createServer>[1] = () => {};

  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume();
      (answer as NonNullable<typeof answer>)(request as never, response as never);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  /** Its pauses are of no interest here: the first failure is. */
  async function firstError(more: Partial<ProbeJob> = {}): Promise<unknown> {
    const stop = new AbortController();
    const job = jobFor(endpoint, { line: { isFresh: false, silenceMsMax: 200 }, ...more });
    const { samples } = await run(job, stop.signal);
    return samples[0]?.error;
  }

  it('that sends it elsewhere is not followed', async () => {
    const asked: (string | undefined)[] = [];
    answer = (request, response) => {
      asked.push(request.headers.host);
      response.writeHead(307, { location: 'http://127.0.0.1:1/elsewhere' }).end();
    };
    expect(await firstError()).toBe('HTTP 307');
    expect(new Set(asked)).toEqual(new Set([new URL(endpoint).host]));
  });

  it('that never ends a body is read up to a bound', async () => {
    let sent = 0;
    answer = (_request, response) => {
      response.writeHead(404, { 'content-type': 'application/xml' });
      const piece = Buffer.alloc(64 * 1024, 'x');
      const more = (): void => {
        while (!response.destroyed && response.write(piece)) sent += piece.length;
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    };
    expect(await firstError()).toBe('too many bytes came');
    expect(sent).toBeLessThan(256 * 1024 * 1024);
  });

  it('that drips bytes for ever is given up all the same', async () => {
    const dripping: NodeJS.Timeout[] = [];
    answer = (request, response) => {
      if (request.method !== 'PUT') return void response.end();
      response.writeHead(200);
      dripping.push(setInterval(() => response.write('x'), 20));
    };
    // Its money ends with the first transfer.
    const prices = { perPut: '1', perGet: '0', perGbIn: '0', perGbOut: '0' };
    expect(
      await firstError({ places: [{ bucket: 'lab', name: 'lab', prices }], spendMax: '6' }),
    ).toBe('took too long');
    for (const timer of dripping) clearInterval(timer);
  });

  it.each([true, false])(
    'that never greets is left when it is asked to (kept: %s)',
    async (isKept) => {
      const [stop, abandon] = [new AbortController(), new AbortController()];
      // What is kept is not looked for first, so one waits where connections are made beforehand.
      const silent = createSilent(() => {
        stop.abort();
        abandon.abort();
      });
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
      const { port } = silent.address() as AddressInfo;
      const line = { isFresh: false, silenceMsMax: 600_000 };
      const job = jobFor(`https://127.0.0.1:${port}`, { line, isKept });
      expect((await run(job, stop.signal, abandon.signal)).reason).toBe('stopped');
      silent.close();
    },
  );

  it('that lists what never ends holds nothing up', async () => {
    const endless = '<Upload><Version>'.repeat(200_000);
    answer = (request, response) => {
      if (request.method === 'GET') response.end(endless);
      else response.writeHead(403).end();
    };
    expect(await firstError()).toBe('HTTP 403');
  });

  it('that lists what is not a probe’s has nothing removed', async () => {
    const removed: unknown[] = [];
    answer = (request, response) => {
      if (request.method === 'DELETE') removed.push(request.url);
      const keys = [
        'probes/precious',
        'bursar-probe-1',
        '../bursar-probe-x',
        'probes/bursar-probe-',
      ];
      const contents = keys.map((key) => `<Version><Key>${key}</Key></Version>`).join('');
      response.end(request.url?.includes('versions') ? contents : '');
    };
    await run(jobFor(endpoint));
    const own = /^\/lab\/probes\/bursar-probe-[0-9a-f]{16}-[0-9a-f]{12}-\d+$/;
    expect(removed.filter((url) => !own.test(String(url)))).toEqual([]);
    expect(removed).toHaveLength(2);
  });
});

function groupByPair(samples: readonly Sample[]): Map<number | undefined, Sample[]> {
  const pairs = new Map<number | undefined, Sample[]>();
  for (const sample of samples) {
    const found = pairs.get(sample.pair?.id) ?? [];
    pairs.set(sample.pair?.id, [...found, sample]);
  }
  return pairs;
}
