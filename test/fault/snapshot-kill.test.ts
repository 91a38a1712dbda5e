// Kills a served gateway under random writes, in a bucket with versioning and in one without, while
// snapshots are made, deleted and let go of, and sweeps come often: whatever a living snapshot
// showed when it was made its mount shows after each kill, versions, tags and bytes; and on an S3
// store also when the database is lost with the kill. BURSAR_KILL_SEED gives other writes and
// moments.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { serveArguments } from './kill-run.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { buckets, isFull, SnapshotRun, seed } from './snapshot-run.ts';

const kills = isFull ? 60 : 3;
const rebuilds = isFull ? 20 : 2;

async function freezeAll(run: SnapshotRun): Promise<void> {
  for (const bucket of buckets) {
    await run.load();
    await run.freeze(bucket);
  }
}

it(
  `what snapshots show survives ${kills} kills (BURSAR_KILL_SEED=${seed})`,
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-snapshot-kill-'));
    const run = new SnapshotRun();
    let gateway: ServedGateway | undefined;
    const serve = async (): Promise<void> => {
      gateway = await startServedGateway({ dataDir, args: serveArguments });
      run.aim(gateway);
    };
    const stop = async (): Promise<void> => {
      run.close();
      const stopping = gateway;
      gateway = undefined;
      await stopping?.stop();
    };
    try {
      await serve();
      await run.prepare();
      for (let round = 0; round < kills; round++) {
        await freezeAll(run);
        await run.loadAndKill(async () => gateway?.kill());
        await serve();
        await run.compare();
      }
      expect(run.wrong).toEqual([]);
      await run.letGo();
      await stop();
      const found: string[] = [];
      await verifyDeep(loadConfig({ data: dataDir }, {}), {
        ...{ checkpointFiles: [], keys: [], withData: true },
        onDifference: ({ where, what }) => found.push(`${where}: ${what}`),
        onProgress: () => {},
      });
      expect(found).toEqual([]);
    } finally {
      await stop();
      rmSync(dataDir, { recursive: true, force: true });
    }
  },
  120_000 + kills * 20_000,
);

describeWithTool(versitygw, 'on an S3 store', (path) => {
  it(
    `what snapshots show survives ${rebuilds} losses of the database`,
    async () => {
      const rig = await RebuildRig.start(path);
      const run = new SnapshotRun();
      try {
        await rig.serve(serveArguments);
        run.aim(rig.gateway);
        await run.prepare();
        for (let round = 0; round < rebuilds; round++) {
          await freezeAll(run);
          await run.loadAndKill(() => rig.kill());
          rig.loseDatabase();
          const { code, stderr, report } = await rig.rebuild();
          expect([code, report?.lost.count], stderr).toEqual([0, 0]);
          const deep = await rig.run(['verify', 'deep']);
          expect(deep.code, deep.stdout + deep.stderr).toBe(0);
          await rig.serve(serveArguments);
          run.aim(rig.gateway);
          await run.compare();
        }
        expect(run.wrong).toEqual([]);
        await run.letGo();
      } finally {
        run.close();
        await rig.stop();
      }
    },
    120_000 + rebuilds * 30_000,
  );
});
