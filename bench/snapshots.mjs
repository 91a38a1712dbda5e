// What snapshots cost: reading through the mount of one, beside reading the bucket as it is now, of
// objects that are still what they were and of objects that were overwritten since; overwriting
// objects that a hundred snapshots have, beside a bucket without snapshots; and making one, beside
// making a mount, which is one small commit as well, a PUT of 4 KiB, and what the disk takes to
// write and sync as many pages.
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { callNative, makeBucket } from './control.mjs';
import { makeBody } from './load.mjs';
import { count, number, table } from './markdown.mjs';
import { pause, settle } from './processes.mjs';
import { startGateway } from './servers.mjs';
import {
  compareInTurns,
  describeRatios,
  explainTurns,
  goalsOfTurns,
  keyCount,
  sizeBytes,
  smallWorkload,
  withLoadTool,
} from './short-turns.mjs';
import { Asker } from './stalls/asking.mjs';
import { quantile } from './statistics.mjs';

const snapshotsCount = 100;
/** Of which so many are of that bucket, so that a percentile says something. */
const madeCount = 400;
const warmUps = 50;
/** Of a turn of overwrites; a fast machine's last ones are of new keys. */
const overwrittenMax = { 1: 400, 32: 1000 };
const connections = [1, 32];
/** Of SQLite's log that the making of a snapshot writes, and their size. */
const pagesMade = 6;
const pageBytes = 16_384;
const reads = { ours: 'then', other: 'now', goal: 0.8 };
const writes = { ours: 'held', other: 'free', goal: 0.97 };

/** @param {{dir: string, effort: {pairs: number}, say: (line: string) => void}} options */
export function benchSnapshots({ dir, effort: { pairs: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const server = await startGateway({ dir });
    const { target } = server;
    for (const bucket of ['kept', 'overwritten', 'held', 'free', 'made'])
      await makeBucket(target, bucket);
    const fill = (bucket, keyPrefix, keys) =>
      fillKeys(tool, { target, bucket, keyPrefix, keyCount: keys });
    for (const bucket of ['kept', 'overwritten']) {
      await fill(bucket, 'get', keyCount);
      await makeSnapshot(target, bucket, 'before');
      const mount = ['tenants', 'default', 'mounts', `${bucket}-then`];
      await callNative(target, 'PUT', mount, { bucketTenant: 'default', bucket, at: 'before' });
    }
    await fill('overwritten', 'get', keyCount);
    const overwrites = connections.map(overwritesOf);
    for (const { name, connections: over } of overwrites) {
      for (let round = 0; round <= rounds; round++) {
        for (const bucket of ['held', 'free']) {
          await fill(bucket, `${name}-${round}`, overwrittenMax[over]);
        }
      }
    }
    const madeMs = await timeMaking(target, dir);
    await settle(server);
    pause(server);
    const compare = (sides, workloads) => {
      const servers = { [sides.ours]: server, [sides.other]: server };
      return compareInTurns(servers, { workloads, rounds, tool, say });
    };
    const read = await compare(reads, connections.flatMap(readsOf));
    return { rounds, madeMs, read, written: await compare(writes, overwrites) };
  });
}

/** Milliseconds by what is made, each over a connection that is kept; they take turns. */
async function timeMaking(target, dir) {
  const asker = new Asker(target, 1);
  const native = (path, said) =>
    asker.demand({
      ...{ method: 'PUT', path: `/_/v1/tenants/default/${path}`, body: JSON.stringify(said) },
      headers: { 'content-type': 'application/json' },
    });
  const to = { bucketTenant: 'default', bucket: 'held' };
  const makeMount = (i) => native(`mounts/made-${i}`, to);
  // The first ones are slow, whatever is made.
  for (let i = 0; i < warmUps; i++) await makeMount(`first-${i}`);
  const madeMs = { snapshot: [], mount: [], put: [], sync: [] };
  const body = makeBody(sizeBytes);
  const disk = new BareDisk(join(dir, 'synced'));
  for (let i = 0; i < madeCount; i++) {
    const bucket = i < snapshotsCount ? 'held' : 'made';
    const put = { method: 'PUT', path: `/free/made-${i}`, body };
    madeMs.snapshot.push(await timed(() => native(`buckets/${bucket}/snapshots/s${i}`, {})));
    madeMs.mount.push(await timed(() => makeMount(i)));
    madeMs.put.push(await timed(() => asker.demand(put)));
    madeMs.sync.push(await timed(() => disk.sync()));
  }
  disk.close();
  asker.close();
  return madeMs;
}

/** A file on the disk of the data folder, long enough from the beginning. */
class BareDisk {
  #path;
  #file;
  #page = 0;

  constructor(path) {
    this.#path = path;
    this.#file = openSync(path, 'w');
    for (let page = 0; page < pagesMade * madeCount; page++) this.#write();
    fdatasyncSync(this.#file);
    this.#page = 0;
  }

  sync() {
    for (let i = 0; i < pagesMade; i++) this.#write();
    fdatasyncSync(this.#file);
  }

  close() {
    closeSync(this.#file);
    rmSync(this.#path);
  }

  #write() {
    writeSync(this.#file, makeBody(pageBytes), 0, pageBytes, this.#page++ * pageBytes);
  }
}

async function timed(work) {
  const sinceMs = performance.now();
  await work();
  return performance.now() - sinceMs;
}

async function fillKeys(tool, plan) {
  const filled = await tool.run({ ...plan, sizeBytes, kind: 'fill', connections: 16 });
  if (filled.errors > 0) throw new Error(filled.firstError);
}

function makeSnapshot(target, bucket, name) {
  const path = ['tenants', 'default', 'buckets', bucket, 'snapshots', name];
  return callNative(target, 'PUT', path, {});
}

/** The buckets differ, not the servers. */
function readsOf(over) {
  return ['kept', 'overwritten'].map((bucket) => {
    const { name, title, ...workload } = smallWorkload('get', over);
    return {
      ...{ ...workload, name: `${name}-${bucket}`, title: `${title}, ${bucket} since` },
      planFor: ({ server }) => ({ bucket: server === reads.ours ? `${bucket}-then` : bucket }),
    };
  });
}

function overwritesOf(over) {
  const workload = smallWorkload('put', over);
  return { ...workload, planFor: ({ server }) => ({ bucket: server }) };
}

const madeTitles = {
  snapshot: 'make a snapshot',
  mount: 'make a mount',
  put: 'PUT of 4 KiB',
  sync: `write and sync ${pagesMade} pages of 16 KiB, the disk alone`,
};

export const goalsOfSnapshots = ({ read, written }) => [
  ...goalsOfTurns(read, reads),
  ...goalsOfTurns(written, writes),
];

export function describeSnapshots({ rounds, madeMs, read, written }) {
  return [
    'GET through the mount of a snapshot (`then`), beside the same keys of the bucket (`now`); and',
    `PUT over objects that ${count(snapshotsCount)} snapshots have (\`held\`), beside a bucket`,
    `without any (\`free\`). One gateway. ${explainTurns(rounds)}`,
    '',
    ...describeRatios(read, reads),
    '',
    ...describeRatios(written, writes),
    '',
    ...table({
      head: ['', 'median, ms', 'p99, ms'],
      rows: Object.entries(madeMs).map(([what, ms]) => [
        madeTitles[what],
        number(quantile(ms, 0.5)),
        number(quantile(ms, 0.99)),
      ]),
    }),
  ];
}
