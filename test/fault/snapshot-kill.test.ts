// Kills a served gateway under random writes, in a bucket with versioning and in one without, while
// snapshots are made, deleted and let go of, lifecycle rules move what was written a second ago
// into another store, and sweeps come often: whatever a living snapshot showed when it was made its
// mount shows after each kill, versions, tags and bytes; and on an S3 store also when the database
// is lost with the kill, whether there is a backup or not. BURSAR_KILL_SEED gives other writes and
// moments.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { serveArguments } from './kill-run.ts';
import { RebuildRig } from './rebuild-rig.ts';
import { buckets, isFull, movingSettings, SnapshotRun, seed } from './snapshot-run.ts';

const kills = 3;
const losses = 2;
/** At full length both tests go on until this time has passed: an hour together. */
const runMs = isFull ? 30 * 60_000 : 0;

/** So many rounds, and more until the time has passed. */
function* rounds(atLeast: number): Generator<number> {
  const untilMs = performance.now() + runMs;
  for (let round = 0; round < atLeast || performance.now() < untilMs; round++) yield round;
}

/** A store in a folder, to which objects move. */
function elsewhere(): { BURSAR_STORES: string; folder: string } {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-snapshot-store-'));
  return { BURSAR_STORES: JSON.stringify({ cool: { url: pathToFileURL(folder).href } }), folder };
}

async function freezeAll(run: SnapshotRun): Promise<void> {
  for (const bucket of buckets) {
    await run.load();
    await run.freeze(bucket);
  }
}

it(
  `what snapshots show survives kills (BURSAR_KILL_SEED=${seed})`,
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bursar-snapshot-kill-'));
    const { BURSAR_STORES, folder } = elsewhere();
    const run = new SnapshotRun();
    let gateway: ServedGateway | undefined;
    const serve = async (): Promise<void> => {
      const env = { BURSAR_STORES, ...movingSettings };
      gateway = await startServedGateway({ dataDir, args: serveArguments, env });
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
      await run.prepare('cool');
      for (const _ of rounds(kills)) {
        await freezeAll(run);
        await run.loadAndKill(async () => {
          await gateway?.kill();
          gateway = undefined;
        });
        await serve();
        await run.compare();
      }
      expect(run.wrong).toEqual([]);
      expect(run.moved).toBeGreaterThan(0);
      await run.letGo();
      await stop();
      const found: string[] = [];
      await verifyDeep(loadConfig({ data: dataDir }, { BURSAR_STORES }), {
        ...{ checkpointFiles: [], keys: [], withData: true },
        onDifference: ({ where, what }) => found.push(`${where}: ${what}`),
        onProgress: () => {},
      });
      expect(found).toEqual([]);
    } finally {
      await stop();
      for (const one of [dataDir, folder]) rmSync(one, { recursive: true, force: true });
    }
  },
  runMs + 300_000,
);

describeWithTool(versitygw, 'on an S3 store', (path) => {
  it(
    `what snapshots show survives losses of the database (BURSAR_KILL_SEED=${seed})`,
    async () => {
      const rig = await RebuildRig.start(path);
      const { BURSAR_STORES, folder } = elsewhere();
      rig.environment = { BURSAR_STORES, ...movingSettings };
      const run = new SnapshotRun();
      const place = mkdtempSync(join(tmpdir(), 'bursar-snapshot-backup-'));
      try {
        await rig.serve(serveArguments);
        run.aim(rig.gateway);
        await run.prepare('cool');
        for (const round of rounds(losses)) {
          await freezeAll(run);
          // By turns it is restored from a backup, of now or of a while ago, or from nothing.
          const isRestored = round % 2 === 0;
          if (isRestored && round % 6 !== 4) {
            const [backup] = await Promise.all([rig.backUp(place), run.load()]);
            expect(backup.code, backup.stderr).toBe(0);
            await freezeAll(run);
          }
          await run.loadAndKill(() => rig.kill());
          if (isRestored) await restore(rig, place);
          else await rebuild(rig);
          const deep = await rig.run(['verify', 'deep']);
          expect(deep.code, deep.stdout + deep.stderr).toBe(0);
          await rig.serve(serveArguments);
          run.aim(rig.gateway);
          await run.compare();
          expect(run.wrong, `round ${round}`).toEqual([]);
        }
        expect(run.moved).toBeGreaterThan(0);
        await run.letGo();
      } finally {
        run.close();
        await rig.stop();
        for (const one of [place, folder]) rmSync(one, { recursive: true, force: true });
      }
    },
    runMs + 300_000,
  );
});

async function rebuild(rig: RebuildRig): Promise<void> {
  rig.loseDatabase();
  const { code, stderr, report } = await rig.rebuild();
  expect([code, report?.lost.count], stderr).toEqual([0, 0]);
}

async function restore(rig: RebuildRig, place: string): Promise<void> {
  rig.loseFolder();
  const { code, stdout, stderr } = await rig.run(['restore', place]);
  expect(code, stdout + stderr).toBe(0);
}
