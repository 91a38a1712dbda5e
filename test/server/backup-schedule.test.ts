// Backups that `serve` makes by itself: made at once, again after a while, and told when they fail.
import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { BackupSchedule } from '#bursar/server/backup-schedule.js';
import { Workplace } from '../cli/command.ts';
import { S3Client } from '../fault/s3-client.ts';
import { readMetrics, type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const token = 'a-token-of-more-than-sixteen';
const work = new Workplace();
const place = join(work.folder, 'place');
const made = () => (existsSync(join(place, 'backups')) ? readdirSync(join(place, 'backups')) : []);
let gateway: ServedGateway;
let client: S3Client;

beforeAll(async () => {
  gateway = await startServedGateway({
    args: ['--backup-to', place, '--backup-keep', '2'],
    env: { BURSAR_METRICS_TOKEN: token },
  });
  client = new S3Client(gateway);
});
afterAll(async () => {
  client.close();
  await gateway.stop();
  work.remove();
});

async function health() {
  return JSON.parse((await client.send('GET', '/_/v1/health')).body.toString());
}

describe('a gateway with --backup-to', () => {
  it('makes a backup by itself, and says when', async () => {
    await vi.waitUntil(async () => (await health()).backups.last !== null, 30_000);
    expect(made()).toHaveLength(1);
    expect((await health()).backups).toMatchObject({ isLate: false, problem: null });
    const headers = { authorization: `Bearer ${token}` };
    const metrics = await (await fetch(`${gateway.endpoint}/_/metrics`, { headers })).text();
    expect(metrics).toMatch(/^bursar_backup_last_timestamp_seconds 1\d{9}/m);
    expect(metrics).toContain('bursar_backup_late 0');
  });

  it('refuses an interval without a place', async () => {
    const { code, stderr } = await work.run(['serve', '--data', work.data, '--backup-every', '1h']);
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--backup-to'),
    });
  });

  it('refuses settings of an S3 server for a folder', async () => {
    const words = ['serve', '--data', work.data, '--backup-to', place, '--backup-path-style'];
    const { code, stderr } = await work.run(words);
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('go with --backup-to s3://BUCKET/PREFIX'),
    });
  });
});

describe('a gateway whose backups fail', () => {
  it('tells it in metrics and in health, and serves on', async () => {
    const taken = join(work.folder, 'taken');
    writeFileSync(taken, '');
    const other = await startServedGateway({
      args: ['--backup-to', taken, '--backup-ship-every', '200ms'],
    });
    const itsClient = new S3Client(other);
    const told = async () =>
      JSON.parse((await itsClient.send('GET', '/_/v1/health')).body.toString());
    try {
      await vi.waitUntil(async () => (await told()).backups.problem !== null, 60_000);
      await vi.waitUntil(async () => (await told()).shipping.problem !== null, 60_000);
      const text = await readMetrics(other);
      expect(text).toMatch(/^bursar_backup_late 1$/m);
      expect(text).toMatch(/^bursar_backup_failures_total [1-9]/m);
      expect(text).toMatch(/^bursar_shipping_failures_total [1-9]/m);
      const answer = await fetch(`${other.endpoint}/_/health`);
      expect(answer.status).toBe(200);
      expect(await answer.text()).toContain('No backup was made in time.');
      expect((await itsClient.send('PUT', '/bucket')).status).toBe(200);
      expect(other.output().match(/^bursar: changes are not shipped/gm)).toHaveLength(1);
    } finally {
      itsClient.close();
      await other.stop();
    }
  });
});

describe('a schedule of backups', () => {
  it('goes on after failures, tells each, and prunes', async () => {
    const flags = [place, '--data', gateway.dataDir, '--json'];
    const problems: string[] = [];
    // What tests are told is no setting of the commands that it starts.
    for (const name of ['BURSAR_FULL', 'BURSAR_KILLS']) vi.stubEnv(name, undefined);
    const schedule = new BackupSchedule({
      createArgs: ['backup', 'create', ...flags, '--keep', '2'],
      listArgs: ['backup', 'list', ...flags],
      everyMs: 1000,
      retryMs: 200,
      onProblem: (text) => problems.push(text),
    });
    // Somebody's files are where the backups were.
    const away = join(work.folder, 'away');
    renameSync(place, away);
    writeFileSync(place, '');
    schedule.start();
    await vi.waitUntil(() => schedule.state().failures >= 2, 30_000);
    expect(schedule.state()).toMatchObject({ isLate: true, problem: expect.any(String) });
    expect(problems.length).toBe(schedule.state().failures);
    rmSync(place);
    renameSync(away, place);
    await vi.waitUntil(() => schedule.state().problem === null, 30_000);
    const first = made();
    await vi.waitUntil(() => made().length === 2 && !made().includes(first[0] as string), 30_000);
    await schedule.close();
    expect(schedule.state().isRunning).toBe(false);
    vi.unstubAllEnvs();
  });
});
