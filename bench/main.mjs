// `npm run bench`: measures the gateway and, where their binaries are found, versitygw and MinIO,
// in turns, and writes docs/performance.md.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { checkListing, checkObjects, deleteObjects, makeBucket } from './control.mjs';
import { benchDecisions, describeDecisions } from './decisions.mjs';
import { measureLimits } from './limits.mjs';
import { keyAt, makeBody } from './load.mjs';
import { formatReport, ratioOf, summarize } from './report.mjs';
import {
  cpuSecondsOf,
  findPeers,
  pause,
  peakBytesOf,
  resetPeak,
  resume,
  startGateway,
  startPeer,
} from './servers.mjs';
import { keyCountOf, workloads } from './workloads.mjs';

const help = `Usage: npm run bench -- [options]

Measures the gateway and, where found (VERSITYGW, MINIO or PATH), versitygw and MinIO.

  --seconds N      how long each turn lasts (4)
  --rounds N       turns of each server at each workload (3)
  --only NAMES     workloads to run, separated by commas:
                   ${workloads.map(({ name }) => name).join(', ')}
  --path decisions measure the decisions of authorization alone, without servers
  --list-keys N    keys in the bucket that is listed (100000)
  --dir DIR        data folders are made in here; use a real disk (TMPDIR, or /var/tmp)
  --out FILE       where the report goes; "-" writes none. Without it, a run of the gateway at all
                   workloads writes docs/performance.md, and any other run writes none
  --json           print all measurements as JSON instead of a summary
  --no-peers       measure the gateway alone
  --no-gateway     measure the peers alone
  --profile DIR    write CPU profiles of the gateway's threads here (costs throughput)
  --help`;

const { values } = parseArgs({
  allowNegative: true,
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
    path: { type: 'string' },
    'list-keys': { type: 'string', default: '100000' },
    dir: { type: 'string' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: true },
    gateway: { type: 'boolean', default: true },
    profile: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const say = (line) => void process.stderr.write(`${line}\n`);

if (values.help) {
  process.stdout.write(`${help}\n`);
} else if (values.path !== undefined) {
  if (values.path !== 'decisions') throw new Error(`there is no path ${values.path}; see --help`);
  const measured = benchDecisions();
  const text = values.json ? JSON.stringify(measured, null, 2) : describeDecisions(measured);
  process.stdout.write(`${text}\n`);
} else {
  const dir = mkdtempSync(join(values.dir ?? process.env.TMPDIR ?? '/var/tmp', 'bursar-bench-'));
  try {
    await bench(dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function bench(dir) {
  const chosen = chooseWorkloads();
  const options = {
    seconds: Number(values.seconds),
    rounds: Number(values.rounds),
    listKeys: Number(values['list-keys']),
  };
  say('measuring the limits of the machine');
  const limits = await measureLimits({ dir, runLoad });
  const servers = await startServers(dir);
  const measurements = [];
  try {
    for (const workload of chosen) {
      await inTurn(servers, (server) => prepare(server, workload, options));
      for (let round = 1; round <= options.rounds; round++) {
        await inTurn(servers, async (server) => {
          const measured = await measure(server, workload, { ...options, round });
          say(
            `${workload.name} round ${round} ${server.name}: ${Math.round(measured.perSecond)}/s`,
          );
          measurements.push(measured);
        });
      }
    }
  } finally {
    for (const server of servers) await server.stop();
  }
  report({ options, limits, measurements, servers, dir });
}

function chooseWorkloads() {
  if (values.only === undefined) return workloads;
  return values.only.split(',').map((wanted) => {
    const found = workloads.find(({ name }) => name === wanted);
    if (!found) throw new Error(`there is no workload ${wanted}; see --help`);
    return found;
  });
}

async function startServers(dir) {
  const servers = [];
  if (values.gateway) servers.push(await startGateway({ dir, profileDir: values.profile }));
  for (const peer of values.peers ? findPeers() : []) {
    servers.push(await startPeer({ ...peer, dir }));
  }
  for (const server of servers) {
    for (const bucket of new Set(workloads.map((workload) => workload.bucket))) {
      await makeBucket(server.target, bucket);
    }
    // A profile shall show the workloads only.
    if (values.profile === undefined) await warmUp(server);
    pause(server);
  }
  return servers;
}

/** Untimed writes and reads, so that the first workload meets no colder server than the last. */
async function warmUp({ target }) {
  const plan = { target, bucket: 'bench-small', keyPrefix: 'start', keyCount: 1000 };
  const load = { sizeBytes: 4096, connections: 8, seconds: 1.5, warmupSeconds: 0.5 };
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
    pause(server);
  }
}

/** Stores what the workload reads. */
async function prepare(server, workload, { listKeys }) {
  const keyCount = keyCountOf(workload, listKeys);
  if (keyCount === 0) return;
  const { bucket, keyPrefix, sizeBytes } = workload;
  const filled = await runLoad({
    ...{ target: server.target, kind: 'fill', bucket, keyPrefix, keyCount, sizeBytes },
    connections: sizeBytes > 1024 * 1024 ? 2 : 16,
  });
  if (filled.done !== keyCount || filled.errors > 0) {
    throw new Error(`${server.name} took ${filled.done} of ${keyCount}: ${filled.firstError}`);
  }
  if (workload.kind === 'list') {
    const firstKey = keyAt(keyPrefix, 501);
    const startAfter = keyAt(keyPrefix, 500);
    await checkListing(server.target, { bucket, startAfter, firstKey, count: 1000 });
  } else {
    const keys = [0, keyCount >> 1, keyCount - 1].map((index) => keyAt(keyPrefix, index));
    await checkObjects(server.target, { bucket, keys, body: makeBody(sizeBytes) });
  }
}

/** @returns {Promise<import('./report.mjs').Measurement>} */
async function measure(server, workload, { round, seconds, listKeys }) {
  const keyPrefix =
    workload.kind === 'put' ? `${workload.keyPrefix}-r${round}` : workload.keyPrefix;
  const { bucket, kind, sizeBytes, connections } = workload;
  const keyCount = keyCountOf(workload, listKeys);
  resetPeak(server);
  const cpuBefore = cpuSecondsOf(server);
  const plan = { kind, bucket, keyPrefix, keyCount, sizeBytes, connections, seconds };
  const load = await runLoad({ ...plan, target: server.target, warmupSeconds: 0.7, seed: round });
  if (load.errors > 0) say(`${server.name} ${workload.name}: ${load.errors}× ${load.firstError}`);
  const cpuSeconds = cpuSecondsOf(server) - cpuBefore;
  const peakBytes = peakBytesOf(server);
  if (kind === 'put') await checkAndTidy(server, { bucket, keyPrefix, sizeBytes, load });
  return {
    ...{ workload: workload.name, server: server.name, round },
    perSecond: load.perSecond,
    bytesPerSecond: load.bytesPerSecond,
    p50Ms: load.p50Ms,
    p99Ms: load.p99Ms,
    errors: load.errors,
    loadCpuShare: load.cpuShare,
    serverCpuMs: (cpuSeconds * 1000) / (load.done + load.warmupDone),
    peakBytes,
  };
}

/** Reads a sample of what was put back, then removes large objects to spare the disk. */
async function checkAndTidy(server, { bucket, keyPrefix, sizeBytes, load }) {
  const large = sizeBytes > 1024 * 1024;
  const count = large ? 2 : 20;
  const sample = Array.from({ length: count }, (_, n) => Math.floor((n * load.done) / count));
  const keys = sample.map((index) => keyAt(keyPrefix, index));
  await checkObjects(server.target, { bucket, keys, body: makeBody(sizeBytes) });
  if (!large) return;
  const stored = [
    ...Array.from({ length: load.done }, (_, index) => keyAt(keyPrefix, index)),
    ...Array.from({ length: load.warmupDone }, (_, index) => keyAt(`${keyPrefix}-warm`, index)),
  ];
  await deleteObjects(server.target, { bucket, keys: stored });
}

/** Runs one plan in a load tool of its own. */
async function runLoad(plan) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'load.mjs')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.end(JSON.stringify(plan));
  const output = await text(child.stdout);
  if (output === '') throw new Error('the load tool failed');
  return JSON.parse(output);
}

function report({ options, limits, measurements, servers, dir }) {
  const results = {
    machine: describeMachine(dir),
    options,
    servers: servers.map(({ name, version }) => ({ name, version })),
    limits,
    measurements,
  };
  const whole = values.gateway && values.only === undefined && values.profile === undefined;
  const docs = resolve(import.meta.dirname, '../docs/performance.md');
  const out = values.out ?? (whole ? docs : '-');
  if (out !== '-') {
    mkdirSync(dirname(out), { recursive: true });
    writeFileSync(out, formatReport({ results, workloads, notesDir: import.meta.dirname }));
    say(`wrote ${out}`);
  }
  const print = values.json ? JSON.stringify(results, null, 2) : summaryText(results);
  process.stdout.write(`${print}\n`);
}

function summaryText({ measurements }) {
  return summarize(measurements)
    .map((row) => {
      const ratio = ratioOf(measurements, { workload: row.workload, peer: row.server });
      const beside = row.server === 'bursar' || !ratio ? '' : `  ratio ${ratio.median.toFixed(2)}`;
      const rates = `${row.perSecond.toFixed(1)}/s  p50 ${row.p50Ms.toFixed(2)} ms`;
      const peak = `peak ${Math.round(row.peakBytes / 1e6)} MB`;
      return `${row.workload.padEnd(12)} ${row.server.padEnd(10)} ${rates}  ${peak}${beside}`;
    })
    .join('\n');
}

function describeMachine(dir) {
  const mount = execFileSync('df', ['--output=source,fstype', dir], { encoding: 'utf8' });
  const [device, fileSystem] = mount.trim().split('\n')[1].split(/\s+/);
  return {
    date: new Date().toISOString().slice(0, 10),
    cpus: availableParallelism(),
    cpu: cpus()[0].model.trim(),
    memoryBytes: totalmem(),
    ...{ device, fileSystem },
    system: `Linux ${release()}`,
    node: process.version,
  };
}
