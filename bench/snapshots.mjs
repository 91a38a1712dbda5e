// What snapshots cost: reading through the mount of one, beside reading the bucket as it is now, of
// objects that are still what they were and of objects that were overwritten since; overwriting
// objects that a hundred snapshots have, beside a bucket without snapshots; and making one, beside
// making a mount, which is one small commit as well.
import { callNative, makeBucket } from './control.mjs';
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
import { quantile } from './statistics.mjs';

const snapshotsCount = 100;
const warmUps = 50;
/** Of a turn of overwrites; a fast machine's last ones are of new keys. */
const overwrittenMax = { 1: 400, 32: 1000 };
const connections = [1, 32];
const reads = { ours: 'then', other: 'now', goal: 0.8 };
const writes = { ours: 'held', other: 'free', goal: 0.97 };

/** @param {{dir: string, effort: {pairs: number}, say: (line: string) => void}} options */
export function benchSnapshots({ dir, effort: { pairs: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const server = await startGateway({ dir });
    const { target } = server;
    for (const bucket of ['kept', 'overwritten', 'held', 'free']) await makeBucket(target, bucket);
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
    const mounts = ['tenants', 'default', 'mounts'];
    const to = { bucketTenant: 'default', bucket: 'held' };
    const makeMount = (i) => callNative(target, 'PUT', [...mounts, `made-${i}`], to);
    // The first ones are slow, whatever is made.
    for (let i = 0; i < warmUps; i++) await makeMount(`first-${i}`);
    const madeMs = { snapshot: [], mount: [] };
    for (let i = 0; i < snapshotsCount; i++) {
      madeMs.snapshot.push(await timed(() => makeSnapshot(target, 'held', `s${i}`)));
      madeMs.mount.push(await timed(() => makeMount(i)));
    }
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
        `make a ${what}`,
        number(quantile(ms, 0.5)),
        number(quantile(ms, 0.99)),
      ]),
    }),
  ];
}
