// How cost grows with the keys that a snapshot has, with the snapshots of a bucket, and how long
// others wait while what a snapshot held is let go of. Buckets are filled by the ledger's code
// alone (openBulkLedger); what is above a thousand keys are copies, which share extents.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { callNative, makeBucket } from '../control.mjs';
import { keyAt, makeBody } from '../load.mjs';
import { count, number, table, times } from '../markdown.mjs';
import { pause, resume, stopAll } from '../processes.mjs';
import { startGateway } from '../servers.mjs';
import { compareInTurns, sizeBytes, withLoadTool } from '../short-turns.mjs';
import { Asker } from '../stalls/asking.mjs';
import { median, quantile, ratiosOf } from '../statistics.mjs';
import { openBulkLedger } from './bulk-ledger.mjs';

const keyPrefix = 'get';
const fewestKeys = 1000;
const connections = 4;
/** In each bucket that is overwritten, for each turn. */
const overwritten = 1000;
const counts = [1, 100, 9800];
const timedCount = 100;
const ofKeys = (keys) => `keys-${keys}`;
const ofCount = (snapshots) => `snapshots-${snapshots}`;
const nameAt = (i) => `at-${i}`;

/**
 * @param {{dir: string, effort: {growthRounds: number, snapshots: {keys: number, most: number,
 *   seconds: number}}, say: (line: string) => void}} options `keys`: of the largest bucket, a power
 *   of ten; `most` snapshots; `seconds` of writes beside a release, and without
 */
export function benchSnapshotGrowth({ dir, effort, say }) {
  const { growthRounds: rounds, snapshots } = effort;
  const { keys: keysMax, most, seconds } = snapshots;
  const sizes = [];
  for (let keys = fewestKeys; keys <= keysMax; keys *= 10) sizes.push(keys);
  const several = counts.filter((one) => one <= most);
  return withLoadTool(async (tool) => {
    const { target } = await startGateway({ dir });
    for (const bucket of [...sizes.map(ofKeys), ...several.map(ofCount)]) {
      await makeBucket(target, bucket);
      const plan = { target, bucket, keyPrefix, keyCount: fewestKeys, sizeBytes };
      const filled = await tool.run({ ...plan, kind: 'fill', connections: 16 });
      if (filled.errors > 0) throw new Error(filled.firstError);
    }
    for (const one of several) {
      const mount = ['tenants', 'default', 'mounts', `${ofCount(one)}-then`];
      const at = nameAt(Math.floor(one / 2));
      const to = { bucketTenant: 'default', bucket: ofCount(one), at };
      await callNative(target, 'PUT', mount, to);
    }
    await stopAll();
    const ledger = await openBulkLedger(join(dir, 'bursar'));
    for (const keys of sizes) await addKeys(ledger, keys);
    for (const one of several) await addSnapshots(ledger, one, rounds);
    await holdAll(ledger, ofKeys(keysMax), keysMax);
    await ledger.close();
    say(`snapshots: up to ${count(keysMax)} keys and ${several.join(', ')} snapshots stored`);
    const server = await startGateway({ dir });
    const madeMs = await timeMaking(server.target, [...sizes.map(ofKeys), ...several.map(ofCount)]);
    pause(server);
    const servers = Object.fromEntries(several.map((one) => [one, server]));
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    resume(server);
    const release = await timeRelease(server.target, { bucket: ofKeys(keysMax), seconds });
    say(`let go of ${release.rows} of ${keysMax} versions in ${seconds} s`);
    return { rounds, sizes, counts: several, madeMs, compared, held: keysMax, seconds, release };
  });
}

async function addKeys(ledger, keys) {
  const changes = await ledger.changesOf(ofKeys(keys));
  const added = keys - fewestKeys;
  await ledger.commit(added, (i) => changes.copyTo(keyAt(keyPrefix, fewestKeys + i), i));
}

/** Between two snapshots one key is overwritten; each has all that the turns will overwrite. */
async function addSnapshots(ledger, snapshots, rounds) {
  const changes = await ledger.changesOf(ofCount(snapshots));
  for (let round = 0; round <= rounds; round++) {
    await ledger.commit(overwritten, (i) => changes.copyTo(keyAt(`put-${round}`, i), i));
  }
  for (let i = 0; i < snapshots; i++) {
    await ledger.commit(1, () => changes.snapshot(nameAt(i)));
    await ledger.commit(1, () => changes.copyTo(keyAt(keyPrefix, i % fewestKeys), i));
  }
}

/** A snapshot that alone has as many versions as the bucket has keys. */
async function holdAll(ledger, bucket, keys) {
  const changes = await ledger.changesOf(bucket);
  await ledger.commit(1, () => changes.snapshot('all'));
  await ledger.commit(keys, (i) => changes.copyTo(keyAt(keyPrefix, i), i + 1));
}

/** Milliseconds by bucket. They take turns. */
async function timeMaking(target, buckets) {
  const asker = new Asker(target, 1);
  const madeMs = Object.fromEntries(buckets.map((bucket) => [bucket, []]));
  // The first round warms up.
  for (let round = 0; round <= timedCount; round++) {
    for (const bucket of buckets) {
      const path = `/_/v1/tenants/default/buckets/${bucket}/snapshots/timed-${round}`;
      const headers = { 'content-type': 'application/json' };
      const sinceMs = performance.now();
      await asker.demand({ method: 'PUT', path, headers, body: '{}' });
      if (round > 0) madeMs[bucket].push(performance.now() - sinceMs);
    }
  }
  asker.close();
  return madeMs;
}

const read = { connections, keyCount: fewestKeys };
const then = ({ server: one }) => ({ bucket: `${ofCount(one)}-then` });
const workloads = [
  {
    ...{ ...read, name: 'get-then', title: 'GET 4 KiB, from the middle snapshot', kind: 'get' },
    planFor: then,
  },
  {
    ...{ ...read, name: 'list-then', title: 'list 1,000 keys, of that snapshot', kind: 'list' },
    planFor: then,
  },
  {
    ...{ ...read, name: 'get', title: 'GET 4 KiB, as it is now', kind: 'get' },
    planFor: ({ server: one }) => ({ bucket: ofCount(one) }),
  },
  {
    ...{ connections, name: 'put', title: 'PUT 4 KiB, over what all have', kind: 'put' },
    planFor: ({ server: one }) => ({ bucket: ofCount(one) }),
  },
];

/**
 * What somebody waits who writes one object after the other, before a snapshot is deleted that
 * alone has very much, and while that is let go of.
 */
async function timeRelease(target, { bucket, seconds }) {
  const asker = new Asker(target, 2);
  const list = `/_/v1/tenants/default/buckets/${bucket}/snapshots`;
  const readHeld = async () =>
    JSON.parse(await asker.demand({ method: 'GET', path: list })).heldVersions;
  const body = makeBody(sizeBytes);
  const write = async (name) => {
    const waitsMs = [];
    const untilMs = performance.now() + seconds * 1000;
    for (let i = 0; performance.now() < untilMs; i++) {
      const sinceMs = performance.now();
      await asker.demand({ method: 'PUT', path: `/${ofKeys(fewestKeys)}/${name}-${i}`, body });
      waitsMs.push(performance.now() - sinceMs);
    }
    return waitsMs;
  };
  // Those that were made to be timed would take over what this one has.
  const others = Array.from({ length: timedCount + 1 }, (_, i) => `timed-${i}`);
  for (const name of others) await asker.demand({ method: 'DELETE', path: `${list}/${name}` });
  await write('first');
  const without = await write('without');
  const before = await readHeld();
  await asker.demand({ method: 'DELETE', path: `${list}/all` });
  while ((await readHeld()) === before) await sleep(100);
  const began = await readHeld();
  const beside = await write('beside');
  const rows = began - (await readHeld());
  asker.close();
  return { without, beside, rows };
}

export function describeSnapshotGrowth(measured) {
  const { rounds, sizes, counts, madeMs, compared, held, seconds, release } = measured;
  const cellsOf = (buckets) => [
    ...[0.5, 0.99].map((part) => [
      `make a snapshot, ${part === 0.5 ? 'median' : 'p99'}`,
      ...buckets.map((bucket) => `${number(quantile(madeMs[bucket], part))} ms`),
    ]),
  ];
  const turnCells = ({ title, turns }) => [
    title,
    ...counts.map((one) => {
      const rate = median(turns[one].map((turn) => turn.perSecond));
      const ratios = ratiosOf(turns[one], turns[counts[0]], 'perSecond');
      return `${number(rate)} /s, ${times(median(ratios))}`;
    }),
  ];
  return [
    'To make a snapshot of a bucket with so many keys, over HTTP, one after another:',
    '',
    ...table({
      head: ['', ...sizes.map((keys) => `${count(keys)} keys`)],
      rows: cellsOf(sizes.map(ofKeys)),
    }),
    '',
    `Buckets of ${count(fewestKeys)} keys with so many snapshots, between two of which one key was`,
    `overwritten, over ${connections} connections; ratios to the fewest, medians of those of`,
    `neighbours in ${rounds} short turns:`,
    '',
    ...table({
      head: ['', ...counts.map((one) => `${count(one)} snapshots`)],
      rows: [...compared.map(turnCells), ...cellsOf(counts.map(ofCount))],
    }),
    '',
    `A PUT of 4 KiB after the other for ${seconds} s, beside nothing, and while the gateway lets`,
    `go of ${count(held)} versions that a deleted snapshot alone had held, of which it came to`,
    `${count(release.rows)} meanwhile:`,
    '',
    ...table({
      head: ['', 'PUTs', 'median', 'p99', 'longest'],
      rows: Object.entries({ 'beside nothing': release.without, 'beside it': release.beside }).map(
        ([what, waitsMs]) => [
          ...[what, count(waitsMs.length)],
          ...[0.5, 0.99, 1].map((part) => `${number(quantile(waitsMs, part))} ms`),
        ],
      ),
    }),
  ];
}
