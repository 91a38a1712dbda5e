// Measures the servers of a path in turns: workload by workload, round by round, one server at a
// time while the others are paused.
import { execFileSync, fork } from 'node:child_process';
import { join } from 'node:path';
import { checkListing, checkObjects, deleteObjects, makeBucket } from './control.mjs';
import { keyAt, makeBody } from './load.mjs';
import { cpuSecondsOf, pause, peakBytesOf, resetPeak, resume, settle } from './processes.mjs';
import { keyCountOf } from './workloads.mjs';

/** Makes the buckets that the workloads use, warms each server up if wanted, and pauses it. */
export async function readyServers(servers, { workloads, warm }) {
  for (const server of servers) {
    const buckets = new Set(workloads.map((workload) => bucketOf(server, workload)));
    for (const bucket of buckets) await makeBucket(server.target, bucket);
    if (warm) await warmUp(server, workloads[0]);
    await settle(server);
  }
  for (const server of servers) pause(server);
}

/**
 * @param {import('./processes.mjs').Server[]} servers all paused
 * @param {{workloads: import('./workloads.mjs').Workload[], rounds: number, seconds: number,
 *   warmupSeconds: number, listKeys: number, say: (line: string) => void}} options
 * @returns {Promise<import('./peers-report.mjs').Measurement[]>}
 */
export async function measureInTurns(servers, { workloads, rounds, say, ...options }) {
  const measurements = [];
  for (const workload of workloads) {
    await inTurn(servers, (server) => prepare(server, workload, options));
    for (let round = 1; round <= rounds; round++) {
      await inTurn(servers, async (server) => {
        const { firstError, ...measured } = await measure(server, workload, { ...options, round });
        const told = `${workload.name} round ${round} ${server.name}`;
        say(`${told}: ${Math.round(measured.perSecond)}/s`);
        if (measured.errors > 0) say(`${told}: ${measured.errors}× ${firstError}`);
        measurements.push(measured);
      });
    }
  }
  return measurements;
}

/** A load tool. `run` has it drive a server by a plan, `end` ends it. */
export function startLoadTool() {
  const child = fork(join(import.meta.dirname, 'load.mjs'), { stdio: 'inherit' });
  const failed = new Promise((_resolve, reject) => {
    child.once('exit', () => reject(new Error('the load tool failed')));
  });
  failed.catch(() => {});
  return {
    run: (plan) => {
      child.send(plan);
      return Promise.race([new Promise((resolve) => child.once('message', resolve)), failed]);
    },
    end: () => child.kill(),
  };
}

/** Runs one plan in a load tool of its own. */
export async function runLoad(plan) {
  const tool = startLoadTool();
  try {
    return await tool.run(plan);
  } finally {
    tool.end();
  }
}

function bucketOf(server, { bucket }) {
  return `${server.bucketPrefix ?? ''}${bucket}`;
}

/** Untimed writes and reads, so that the first workload meets no colder server than the last. */
async function warmUp(server, workload) {
  const plan = { target: server.target, bucket: bucketOf(server, workload), keyPrefix: 'start' };
  const load = {
    keyCount: 1000,
    sizeBytes: 4096,
    connections: 8,
    seconds: 1.5,
    warmupSeconds: 0.5,
  };
  await runLoad({ ...plan, ...load, kind: 'fill' });
  await runLoad({ ...plan, ...load, kind: 'put', keyPrefix: 'start-put' });
  await runLoad({ ...plan, ...load, kind: 'get' });
}

/** Lets one server run at a time, from a synced disk. */
async function inTurn(servers, use) {
  for (const server of servers) {
    execFileSync('sync');
    resume(server);
    await use(server);
    await settle(server);
    pause(server);
  }
}

/** Stores what the workload reads. */
async function prepare(server, workload, { listKeys }) {
  const keyCount = keyCountOf(workload, listKeys);
  if (keyCount === 0) return;
  const bucket = bucketOf(server, workload);
  const { target } = server;
  const { keyPrefix, sizeBytes } = workload;
  const filled = await runLoad({
    ...{ target, kind: 'fill', bucket, keyPrefix, keyCount, sizeBytes },
    connections: sizeBytes > 1024 * 1024 ? 2 : 16,
  });
  if (filled.done !== keyCount || filled.errors > 0) {
    throw new Error(`${server.name} took ${filled.done} of ${keyCount}: ${filled.firstError}`);
  }
  if (workload.kind === 'list') {
    const firstKey = keyAt(keyPrefix, 501);
    const startAfter = keyAt(keyPrefix, 500);
    await checkListing(target, { bucket, startAfter, firstKey, count: 1000 });
  } else {
    const keys = [0, keyCount >> 1, keyCount - 1].map((index) => keyAt(keyPrefix, index));
    await checkObjects(target, { bucket, keys, body: makeBody(sizeBytes) });
  }
}

/** @returns {Promise<import('./peers-report.mjs').Measurement & {firstError: string}>} */
async function measure(server, workload, { round, seconds, warmupSeconds, listKeys }) {
  const { kind, sizeBytes, connections } = workload;
  const keyPrefix = kind === 'put' ? `${workload.keyPrefix}-r${round}` : workload.keyPrefix;
  const bucket = bucketOf(server, workload);
  const keyCount = keyCountOf(workload, listKeys);
  const { target, pid, backend } = server;
  resetPeak(pid);
  const cpuBefore = cpuSecondsOf(pid);
  const backendCpuBefore = backend && cpuSecondsOf(backend.pid);
  const plan = { kind, bucket, keyPrefix, keyCount, sizeBytes, connections, seconds };
  const load = await runLoad({ ...plan, target, warmupSeconds, seed: round });
  const perRequestMs = (cpuSeconds) => (cpuSeconds * 1000) / (load.done + load.warmupDone);
  const measured = {
    ...{ workload: workload.name, server: server.name, round },
    perSecond: load.perSecond,
    bytesPerSecond: load.bytesPerSecond,
    p50Ms: load.p50Ms,
    p99Ms: load.p99Ms,
    errors: load.errors,
    firstError: load.firstError,
    loadCpuShare: load.cpuShare,
    serverCpuMs: perRequestMs(cpuSecondsOf(pid) - cpuBefore),
    backendCpuMs: backend && perRequestMs(cpuSecondsOf(backend.pid) - backendCpuBefore),
    peakBytes: peakBytesOf(pid),
  };
  if (kind === 'put') await checkAndTidy(target, { bucket, keyPrefix, sizeBytes, load });
  return measured;
}

/** Reads a sample of what was put back, then removes large objects to spare the disk. */
async function checkAndTidy(target, { bucket, keyPrefix, sizeBytes, load }) {
  const large = sizeBytes > 1024 * 1024;
  const count = large ? 2 : 20;
  const sample = Array.from({ length: count }, (_, n) => Math.floor((n * load.done) / count));
  const keys = sample.map((index) => keyAt(keyPrefix, index));
  await checkObjects(target, { bucket, keys, body: makeBody(sizeBytes) });
  if (!large) return;
  const stored = [
    ...Array.from({ length: load.done }, (_, index) => keyAt(keyPrefix, index)),
    ...Array.from({ length: load.warmupDone }, (_, index) => keyAt(`${keyPrefix}-warm`, index)),
  ];
  await deleteObjects(target, { bucket, keys: stored });
}
