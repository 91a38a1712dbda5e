// A system's clock that steps, under a served gateway: records and limits do not follow it before
// it was confirmed, and go on meanwhile; those that are in the future already come to be past.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { signRequest } from '#bursar/core/sigv4.js';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { compiler } from './compiler.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-clock-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const dayS = 86_400;

describeWithTool(compiler, 'a clock that steps', (cc) => {
  const library = join(root, 'clock-step.so');
  const stepFile = join(root, 'step');
  const dataDir = join(root, 'data');
  let gateway: ServedGateway;
  /** Of the gateway's clock, from this process's. */
  let stepS = 0;

  beforeAll(async () => {
    const source = join(import.meta.dirname, 'clock-step.c');
    execFileSync(cc, ['-shared', '-fPIC', '-O1', '-o', library, source]);
    step(0);
    gateway = await serve();
  });
  afterAll(() => gateway.stop());

  function step(seconds: number): void {
    stepS = seconds;
    writeFileSync(stepFile, String(seconds));
  }

  const serve = () =>
    startServedGateway({ dataDir, env: { LD_PRELOAD: library, CLOCK_STEP: stepFile } });

  /** A request of a client whose clock goes like the gateway's. */
  async function send(method: string, path: string, body?: string) {
    const [plain = '', search = ''] = path.split('?');
    const query = [...new URLSearchParams(search)] as [string, string][];
    const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(body ?? ''));
    const headers = signRequest({
      ...{ method, path: plain, query, region: 'us-east-1', service: 's3' },
      headers: { host: new URL(gateway.endpoint).host },
      accessKeyId: gateway.accessKeyId,
      secret: gateway.secretAccessKey,
      payloadHash: Buffer.from(hash).toString('hex'),
      timeMs: Date.now() + stepS * 1000,
    });
    const init = { method, headers, ...(body === undefined ? {} : { body }) };
    const answer = await fetch(`${gateway.endpoint}${path}`, init);
    return { status: answer.status, text: await answer.text() };
  }

  const native = async <T>(method: string, path: string): Promise<T> => {
    const { status, text } = await send(method, `/_/v1/${path}`);
    expect([status, text]).toEqual([200, expect.any(String)]);
    return JSON.parse(text) as T;
  };

  /** How far the time of the record of a new write is from this process's clock, seconds. */
  async function recordAheadS(): Promise<number> {
    expect((await send('PUT', '/clock/object', 'text')).status).toBe(200);
    const path = 'records?action=s3:PutObject&limit=1000';
    const { records } = await native<{ records: { time: string }[] }>('GET', path);
    return (Date.parse(String(records.at(-1)?.time)) - Date.now()) / 1000;
  }

  const clock = () => native<{ stepMs: number }>('GET', 'clock');
  /** By a command, whose clock goes like the gateway's. */
  function setLimit(requests: string): void {
    const args = ['limit', 'set', 'tenant:default', '--requests', requests];
    execFileSync(process.execPath, [resolve('app/main.js'), ...args], {
      env: {
        ...{ ...bareEnvironment(), LD_PRELOAD: library, CLOCK_STEP: stepFile },
        BURSAR_ENDPOINT: gateway.endpoint,
        BURSAR_ACCESS_KEY_ID: gateway.accessKeyId,
        BURSAR_SECRET_ACCESS_KEY: gateway.secretAccessKey,
      },
    });
  }

  /** Asks until the limit of ten requests a day is reached. */
  async function useUp(): Promise<void> {
    setLimit('day=10');
    const statuses = new Set<number>();
    for (let i = 0; i < 11; i++) statuses.add((await send('GET', '/clock/object')).status);
    expect(statuses).toContain(403);
  }

  it('is not followed by records and limits, and nothing stops', async () => {
    expect((await send('PUT', '/clock')).status).toBe(200);
    expect(Math.abs(await recordAheadS())).toBeLessThan(60);
    await useUp();
    step(3 * dayS);
    // Another day would be another ten requests.
    expect((await send('GET', '/clock/object')).status).toBe(403);
    setLimit('day=none');
    expect(Math.abs(await recordAheadS())).toBeLessThan(60);
    expect(Math.abs((await clock()).stepMs / 1000 - 3 * dayS)).toBeLessThan(60);
    await expect.poll(() => gateway.output()).toMatch(/clock stepped by 259\d{3} s/);
    const problems = ['The clock has stepped, and is not followed.'];
    const health = { ready: true, problems, clock: { stepMs: expect.any(Number) } };
    expect(await native('GET', 'health')).toMatchObject(health);
    step(0);
    expect(await clock()).toMatchObject({ stepMs: 0 });
    expect(Math.abs(await recordAheadS())).toBeLessThan(60);
  });

  it('is followed when an operator has confirmed it, which is recorded', async () => {
    step(2 * dayS);
    expect((await clock()).stepMs).toBeGreaterThan(0);
    expect(await native('POST', 'clock/confirmations')).toMatchObject({ stepMs: 0 });
    expect(Math.abs((await recordAheadS()) - 2 * dayS)).toBeLessThan(60);
    const { records } = await native<{ records: { change: object }[] }>(
      'GET',
      'records?action=bursar:ConfirmClock',
    );
    expect(records.at(-1)?.change).toMatchObject({ stepMs: expect.any(Number) });
  });

  it('that is set back later leaves records in order, and limits hold from now on', async () => {
    await useUp();
    await gateway.stop();
    step(0);
    gateway = await serve();
    // Of the day that was in the future: what was used then counts today.
    expect((await send('GET', '/clock/object')).status).toBe(403);
    // And tomorrow is another day.
    await gateway.stop();
    step(dayS);
    gateway = await serve();
    expect((await send('GET', '/clock/object')).status).toBe(200);
  });
});
