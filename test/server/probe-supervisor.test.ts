// The probe's process and whoever keeps it: it measures while little else is done, and is begun
// again.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Sample } from '#bursar/instruments/sample.js';
import { ProbeSupervisor } from '#bursar/server/probe-supervisor.js';
import type { ProbeJob } from '#bursar/server/processes/probe-job.js';
import { childrenOf } from '../tooling/child-processes.ts';

const root = mkdtempSync(join(tmpdir(), 'bursar-supervisor-'));
/** Takes every write, and has nothing. */
let server: Server;
let puts = 0;
let job: ProbeJob;

beforeAll(async () => {
  server = createServer((request, response) => {
    if (request.method === 'PUT') puts++;
    request
      .resume()
      .once('end', () => response.writeHead(request.method === 'GET' ? 404 : 200).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  job = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ...{ region: 'us-east-1', isPathStyle: true },
    credentials: { accessKeyId: 'NOBODY', secretAccessKey: 'nothing-of-value' },
    places: [{ bucket: 'lab', name: 'lab', prices: null }],
    ...{ series: ['sizes'], sizesBytes: [1], prefix: '', isKept: true },
    surge: { threadsMin: 1, threadsMax: 1, eachMs: 0, sizeBytes: 0 },
    parts: { parallel: [1], partBytes: 0 },
    ...{ count: null, forMs: null, meanIntervalMs: 1, spendMax: null },
    line: { isFresh: false, silenceMsMax: 5000 },
    retryPauseMs: { min: 1, max: 1 },
    samples: join(root, 'samples'),
  };
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(root, { recursive: true, force: true });
});

describe('the probe’s process', () => {
  it('waits while the gateway is busy, begins again when it dies, ends when told to', async () => {
    let underWay = 5;
    const samples: Sample[] = [];
    const problems: string[] = [];
    const begun = vi.fn(async () => job);
    const supervisor = new ProbeSupervisor({
      prepare: begun,
      underWay: () => underWay,
      onSample: (sample) => samples.push(sample),
      onProblem: (text) => problems.push(text),
      pauseMs: { min: 1, max: 10 },
    });
    supervisor.start();
    const pid = await vi.waitFor(() => {
      const [found = 0] = children();
      expect(readFileSync(`/proc/${found}/stat`, 'utf8')).toMatch(
        /^\d+ \(.*\) S( -?\d+){14} 39 19 /,
      );
      return found;
    }, 20_000);
    // Nothing begins while there is more to do; then it does.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(puts).toBe(0);
    underWay = 4;
    await vi.waitFor(() => expect(samples.length).toBeGreaterThan(0), 20_000);
    process.kill(pid, 'SIGKILL');
    await vi.waitFor(() => expect(problems).toContain('its process died'), 20_000);
    const sofar = samples.length;
    await vi.waitFor(() => expect(samples.length).toBeGreaterThan(sofar), 20_000);
    expect(begun.mock.calls.length).toBeGreaterThan(1);
    await supervisor.close();
    expect(children()).toEqual([]);
  }, 90_000);
});

const children = (): number[] => childrenOf(process.pid, 'probe-supervised');
