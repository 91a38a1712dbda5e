// Power cuts on a real file system: what was synced is there, and what was not is gone, files and
// names alike. Each round serves the same folder under load, cuts the power at a moment of its
// kind, and holds what is served then to what was acknowledged. BURSAR_FULL=1: it needs root and a
// disk of its own.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededRandom } from '../fuzz/seeded-random.ts';
import { environmentWithoutSettings } from '../tooling/served-gateway.ts';
import { describeWithTool } from '../tooling/tools.ts';
import { CutDisk, findCutDisks } from './cut-disk.ts';
import { KillRun, killKinds } from './kill-run.ts';
import { killWhileStarting, servePlainly } from './plain-start.ts';
import { S3Client } from './s3-client.ts';

const main = resolve(import.meta.dirname, '../../app/main.js');
const isFull = process.env.BURSAR_FULL === '1';
const seed = Number(process.env.BURSAR_KILL_SEED ?? 20260702);
const cutsMin = Number(process.env.BURSAR_CUTS ?? 12);
const timeoutMs = 60_000 + cutsMin * 12_000;

if (!isFull)
  describe.skip('a gateway whose power is cut (BURSAR_FULL=1)', () => it('waits', () => {}));
else whenFull();

function whenFull(): void {
  const root = mkdtempSync(join(tmpdir(), 'bursar-cut-'));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const disks = findCutDisks(join(root, 'trial'));

  describeWithTool(disks, `a gateway whose power is cut ${cutsMin} times (seed ${seed})`, () => {
    let disk: CutDisk;
    let run: KillRun;

    beforeAll(async () => {
      disk = new CutDisk(root);
      run = new KillRun(join(disk.folder, 'data'), seededRandom(seed), () => disk.cut());
      await run.serve();
      await run.prepare();
      while (run.kills < cutsMin) {
        for (const kind of killKinds) {
          const { acknowledged } = run.model;
          await run.loadAndKill(kind);
          const told = `${run.model.acknowledged - acknowledged} acknowledged`;
          await run.serve();
          await run.check();
          console.info(`cut ${run.kills} (${kind}): ${told}, ${run.model.doubts.size} in doubt`);
        }
      }
      await run.gateway.stop();
      // What was written last is what is compared.
      disk.cut();
    }, timeoutMs);
    afterAll(() => disk.unmount());

    it('has what it acknowledged, and nothing half', () => {
      expect(run.model.acknowledged).toBeGreaterThan(cutsMin * 5);
      expect(run.findings).toEqual({
        wrongAnswers: [],
        wrongValues: [],
        listings: [],
        counters: [],
        extents: [],
      });
    });

    it('has records, catalog and bytes that agree', () => {
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [main, 'verify', 'deep', '--data', join(disk.folder, 'data')],
        { encoding: 'utf8', env: environmentWithoutSettings() },
      );
      expect(status, stdout + stderr).toBe(0);
    });

    it('in a first start ends the next with credentials that work, and keep working', async () => {
      const random = seededRandom(seed);
      const starts = 6;
      for (let i = 0; i < starts; i++) {
        const folder = join(disk.folder, `first-${i}`, 'data');
        const afterMs = 80 + Math.floor((900 * (i + random())) / starts);
        await killWhileStarting(folder, afterMs);
        disk.cut();
        const keys: string[] = [];
        // Once more after a cut right after the answer: what it was answered by is still there.
        for (const method of ['PUT', 'HEAD']) {
          let status = 0;
          const use = async (endpoint: string) => {
            const file = readFileSync(join(folder, 'credentials'), 'utf8');
            const [accessKeyId = '', secretAccessKey = ''] = ['id', 'access_key'].map(
              (name) => /= *(.+)/.exec(file.slice(file.search(`aws_\\w*${name} `)))?.[1] as string,
            );
            keys.push(secretAccessKey);
            const client = new S3Client({ endpoint, accessKeyId, secretAccessKey });
            status = (await client.send(method, '/first')).status;
            client.close();
          };
          await servePlainly(folder, use);
          disk.cut();
          expect(`${method} ${afterMs} ms: ${status}`).toBe(`${method} ${afterMs} ms: 200`);
        }
        expect(keys[0]).toBe(keys[1]);
      }
    }, 120_000);
  });
}
