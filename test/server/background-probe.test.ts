// A gateway that probes itself: as somebody without rights, within a limit, and only while it
// lives; and the command, as a user runs it.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Sample } from '#bursar/instruments/sample.js';
import { readSamples } from '#bursar/instruments/sample-log.js';
import { type Served, Workplace } from '../cli/command.ts';
import { childrenOf } from '../tooling/child-processes.ts';
import { readMetrics } from '../tooling/served-gateway.ts';

const probing = ['--probe', '--probe-interval', '1s', '--probe-spend-max', '0.01'];
const place = new Workplace();
let gateway: Served;

beforeAll(async () => {
  gateway = await place.serve(probing);
});
afterAll(() => place.remove());

async function readAll(dir: string): Promise<Sample[]> {
  const samples: Sample[] = [];
  for await (const sample of readSamples(dir)) samples.push(sample);
  return samples;
}

const json = async (...args: string[]) => {
  const { code, stdout, stderr } = await place.run([...args, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
};

describe('a gateway that probes itself', () => {
  it('keeps samples, tells the last of them, and records them as anybody’s requests', async () => {
    const probed = async () => {
      const samples = await readAll(join(place.data, 'samples'));
      return samples.filter(({ series }) => series === 'sizes');
    };
    await vi.waitFor(async () => expect((await probed()).length).toBeGreaterThan(3), 25_000);
    const [first] = await probed();
    expect(first).toMatchObject({ target: 'gateway, store local', error: null, sizeBytes: 1 });
    const text = await readMetrics(gateway);
    const sample = 'store="local",kind="read",size="1B"';
    expect(text).toContain(`bursar_probe_transfers_total{${sample},result="first_try"}`);
    expect(text).toContain(`bursar_probe_last_seconds{${sample}}`);
    const { stdout } = await place.run(['records', '--principal', 'default/probe', '--json']);
    const records = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const moved = records.filter(({ action }) => /:(Put|Get)Object$/.test(action));
    expect(moved.length).toBeGreaterThan(3);
    expect(new Set(moved.map(({ bucket }) => bucket))).toEqual(new Set(['bursar-probe-1']));
  }, 60_000);

  it('is somebody with a limit of its own, and no rights but in its bucket', async () => {
    const principals = await json('principal', 'list', 'default');
    const probe = principals.find(({ name }: { name: string }) => name === 'probe');
    expect(probe).toMatchObject({ kind: 'robot', role: 'member' });
    const limit = await json('limit', 'show', 'principal:default/probe');
    expect(limit.limits).toEqual({ spend: { month: '0.01' } });
  });

  it('is probed by the command as well, whose samples are in a folder of their own', async () => {
    const samples = join(place.folder, 'own');
    const flags = ['--samples', samples, '--sizes', '1B,1KiB', '--count', '2'];
    const where = ['--bucket', 'bursar-probe-1', '--mean-interval', '0s'];
    const { code, stdout } = await place.run(['probe', ...where, ...flags, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ count: 24, failed: 0, ended: 'done', samples });
    expect(await readAll(samples)).toHaveLength(24);
  });

  it('has its clients’ requests sampled, and not those of its probe', async () => {
    const samples = async () => {
      const all = await readAll(join(place.data, 'samples'));
      return all.filter(({ series }) => series === 'traffic');
    };
    await vi.waitFor(async () => expect((await samples()).length).toBeGreaterThan(0), 20_000);
    const [first] = await samples();
    expect(first?.stages?.commit).toBeGreaterThan(0);
    expect((await samples()).length).toBeLessThanOrEqual(24);
  });

  it('ends its probe with itself, also when it is killed', async () => {
    const pid = gateway.process.pid as number;
    const children = childrenOf(pid, 'probe-supervised');
    expect(children).toHaveLength(1);
    await gateway.stop('SIGKILL');
    await vi.waitFor(() => expect(existsSync(`/proc/${children[0]}`)).toBe(false), 20_000);
  });

  it('pauses its probe when the month’s money is spent, and says until when', async () => {
    gateway = await place.serve([...probing.slice(0, -1), '0']);
    const said = /the probe: the gateway's limit is used up until \d{4}-\d\d-01T00:00:00/;
    await vi.waitFor(() => expect(gateway.stderr()).toMatch(said), 20_000);
    const children = childrenOf(gateway.process.pid as number, 'probe-supervised');
    expect(children).toEqual([]);
    await gateway.stop('SIGKILL');
  });
});
