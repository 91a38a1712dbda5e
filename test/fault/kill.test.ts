// Kills a served gateway again and again on one data folder, and holds what it then serves to what
// it had acknowledged. Kill moments are seeded; BURSAR_KILL_SEED gives others, BURSAR_KILLS more of
// them, BURSAR_FULL=1 more of those in a first start.
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededRandom } from '../fuzz/seeded-random.ts';
import { startServedGateway } from '../tooling/served-gateway.ts';
import { digestOf, KiB, MiB, makePieces } from './content.ts';
import { KillRun, killKinds } from './kill-run.ts';
import { killWhileStarting, servePlainly, sleep } from './plain-start.ts';
import { S3Client } from './s3-client.ts';

const seed = Number(process.env.BURSAR_KILL_SEED ?? 20260701);
const isFull = process.env.BURSAR_FULL === '1';
const killsMin = Number(process.env.BURSAR_KILLS ?? 50);
const timeoutMs = 60_000 + killsMin * 12_000;

describe(`a gateway killed ${killsMin} times under load (seed ${seed})`, () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-kill-'));
  const run = new KillRun(dataDir, seededRandom(seed));

  beforeAll(async () => {
    await run.serve();
    await run.prepare();
    while (run.kills < killsMin) {
      for (const kind of killKinds) {
        const { acknowledged } = run.model;
        await run.loadAndKill(kind);
        const doubts = run.model.doubts.size;
        const told = `${run.model.acknowledged - acknowledged} acknowledged, ${doubts} in doubt`;
        await run.serve();
        await run.check();
        console.info(`kill ${run.kills} (${kind}): ${told}`);
      }
    }
    await run.gateway.stop();
    const { kept, lost } = run.doubts;
    console.info(`${run.records.count} records; of the doubts ${kept} were kept, ${lost} were not`);
  }, timeoutMs);

  afterAll(async () => {
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('was killed under a load that stored something each time', () => {
    expect(run.kills).toBeGreaterThanOrEqual(killsMin);
    expect(run.model.acknowledged).toBeGreaterThan(killsMin * 10);
  });

  it('answered every request rightly until it was killed', () => {
    expect(run.findings.wrongAnswers).toEqual([]);
  });

  it('reads back every acknowledged write, no acknowledged delete, and nothing half', () => {
    expect(run.findings.wrongValues).toEqual([]);
  });

  it('lists exactly what it reads back, and counts what it lists', () => {
    expect(run.findings.listings).toEqual([]);
  });

  it('has counters that are the sum of its records, which have no gap', () => {
    expect(run.findings.counters).toEqual([]);
  });

  it('sweeps what is orphaned, and nothing that lives', () => {
    expect(run.findings.extents).toEqual([]);
  });
});

describe('a gateway killed during its first start', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-first-'));
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  it('ends the next start with credentials that work', async () => {
    const random = seededRandom(seed);
    const starts = isFull ? 8 : 2;
    for (let i = 0; i < starts; i++) {
      const folder = join(dataDir, String(i));
      // Early and late ones.
      const afterMs = 80 + Math.floor((700 * (i + random())) / starts);
      await killWhileStarting(folder, afterMs);
      let status = 0;
      await servePlainly(folder, async (endpoint) => {
        const file = join(folder, 'credentials');
        expect(statSync(file).mode & 0o777).toBe(0o600);
        const client = new S3Client({ endpoint, ...readProfile(file) });
        status = (await client.send('PUT', '/first')).status;
        client.close();
      });
      expect(`killed after ${afterMs} ms: ${status}`).toBe(`killed after ${afterMs} ms: 200`);
    }
  }, 120_000);
});

describe('a gateway asked to stop under load', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'bursar-stop-'));
  afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

  it('lets an upload finish, exits with 0 and has lost nothing', async () => {
    const run = new KillRun(dataDir, seededRandom(seed));
    await run.serve();
    await run.prepare();
    const client = new S3Client(run.gateway);
    const load = run.startLoad();
    await sleep(500);
    const sizeBytes = 20 * MiB;
    let halfWay: () => void = () => {};
    const reached = new Promise<void>((resolve) => {
      halfWay = resolve;
    });
    async function* chunks() {
      let sentBytes = 0;
      for (const piece of makePieces(1, sizeBytes, 256 * KiB)) {
        yield piece;
        sentBytes += piece.length;
        if (sentBytes !== sizeBytes / 2) continue;
        halfWay();
        await sleep(1000);
      }
    }
    let status = 0;
    const upload = run.model.change([['ours/stopped', digestOf(1, sizeBytes)]], async () => {
      const body = { sizeBytes, chunks: chunks() };
      status = (await client.send('PUT', '/ours/stopped', { body })).status;
    });
    await reached;
    load.expectKill();
    await run.gateway.stop();
    await upload;
    await load.stop();
    client.close();
    expect(status).toBe(200);

    await run.serve();
    await run.check();
    await run.gateway.stop();
    expect(run.findings).toEqual({
      wrongAnswers: [],
      wrongValues: [],
      listings: [],
      counters: [],
      extents: [],
    });
  }, 60_000);

  it('cuts an upload that does not finish in time, and still exits with 0', async () => {
    const args = ['--shutdown-timeout', '500ms'];
    const gateway = await startServedGateway({ args });
    const client = new S3Client(gateway);
    await client.send('PUT', '/cut');
    const upload = client.begin('PUT', '/cut/never', { body: { sizeBytes: MiB, chunks: [] } });
    const failed = new Promise((resolve) => upload.once('error', resolve));
    await new Promise((resolve) => upload.write(Buffer.alloc(100 * KiB), resolve));
    await sleep(200);
    await gateway.stop();
    await failed;
    client.close();
  });
});

/** The two values of the profile that a first start writes. */
function readProfile(file: string): { accessKeyId: string; secretAccessKey: string } {
  const text = readFileSync(file, 'utf8');
  const value = (name: string): string =>
    new RegExp(`^${name} *= *(.+)$`, 'm').exec(text)?.[1] ?? '';
  return {
    accessKeyId: value('aws_access_key_id'),
    secretAccessKey: value('aws_secret_access_key'),
  };
}
