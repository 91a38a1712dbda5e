// `npm run bench`: measures the gateway beside its peers, on a local disk and with its bytes in S3,
// in turns, and writes docs/performance.md.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { benchDecisions, describeDecisions } from './decisions.mjs';
import { measureLimits } from './limits.mjs';
import { benchLimits, describeLimits } from './limits-path.mjs';
import { benchLog, describeLog } from './log-path.mjs';
import { stopAll } from './processes.mjs';
import { formatReport, ratioOf, summarize } from './report.mjs';
import { findBinary, startServers } from './servers.mjs';
import { benchTokens, describeTokens } from './tokens.mjs';
import { measureInTurns, readyServers, runLoad } from './turns.mjs';
import { workloadsOf } from './workloads.mjs';

const pathNames = Object.keys(workloadsOf);
const workloadNames = [...new Set(Object.values(workloadsOf).flatMap(namesOf))];

const help = `Usage: npm run bench -- [options]

Measures the gateway and, where found (VERSITYGW, MINIO or PATH), versitygw and MinIO. On the path
"embedded" the gateway keeps its bytes on the local disk. On the path "s3" it keeps them in a
versitygw, which is also measured directly and behind versitygw's own S3 proxy.

  --path NAME      embedded, s3 or all (all); "decisions" measures authorization alone, without
                   servers; "tokens" compares the gateway with itself: signatures, tokens, proofs;
                   "limits" the same: with limits on every account, and without; "log": with
                   the audit log's tree, and with records alone
  --seconds N      how long each turn lasts (4)
  --rounds N       turns of each server at each workload (3)
  --only NAMES     workloads to run, separated by commas:
                   ${workloadNames.join(', ')}
  --list-keys N    keys in the bucket that is listed (100000)
  --dir DIR        data folders are made in here; use a real disk (TMPDIR, or /var/tmp)
  --out FILE       where the report goes; "-" writes none. Without it, a run of the gateway at all
                   workloads of both paths writes docs/performance.md, and any other writes none
  --json           print all measurements as JSON instead of a summary
  --no-peers       measure the gateway alone
  --no-gateway     measure the peers alone
  --profile DIR    write CPU profiles of the gateway's threads to DIR/embedded and DIR/s3 (costs
                   throughput)
  --help`;

const { values } = parseArgs({
  allowNegative: true,
  options: {
    path: { type: 'string', default: 'all' },
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string' },
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
} else if (values.path === 'decisions') {
  print(benchDecisions(), describeDecisions);
} else {
  const dir = mkdtempSync(join(values.dir ?? process.env.TMPDIR ?? '/var/tmp', 'bursar-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
  const rounds = Number(values.rounds);
  const seconds = Number(values.seconds);
  if (values.path === 'tokens')
    print(await benchTokens({ dir, rounds, seconds, say }), describeTokens);
  else if (values.path === 'limits')
    print(await benchLimits({ dir, rounds, seconds, say }), describeLimits);
  else if (values.path === 'log') print(await benchLog({ dir, rounds, seconds, say }), describeLog);
  else await bench(dir);
}

function print(measured, describe) {
  const text = values.json ? JSON.stringify(measured, null, 2) : describe(measured);
  process.stdout.write(`${text}\n`);
}

async function bench(dir) {
  const options = {
    seconds: Number(values.seconds),
    rounds: Number(values.rounds),
    listKeys: Number(values['list-keys']),
  };
  const chosen = choosePaths();
  if (chosen.length === 0) throw new Error('there is nothing to measure; see --help');
  say('measuring the limits of the machine');
  const limits = await measureLimits({ dir, runLoad });
  const paths = [];
  for (const [name, workloads] of chosen) {
    say(`path ${name}`);
    paths.push(await measurePath(name, { dir: join(dir, name), workloads, options }));
  }
  report({ machine: describeMachine(dir), options, limits, paths });
}

/** The workloads that were asked for, by path. */
function choosePaths() {
  const only = values.only?.split(',');
  const unknown = only?.find((name) => !workloadNames.includes(name));
  if (unknown !== undefined) throw new Error(`there is no workload ${unknown}; see --help`);
  if (values.path !== 'all' && !pathNames.includes(values.path)) {
    throw new Error(`there is no path ${values.path}; see --help`);
  }
  return Object.entries(workloadsOf)
    .filter(([path]) => values.path === 'all' || values.path === path)
    .map(([path, workloads]) => [
      path,
      workloads.filter(({ name }) => only?.includes(name) ?? true),
    ])
    .filter(([path, workloads]) => workloads.length > 0 && canMeasure(path));
}

function canMeasure(path) {
  if (path !== 's3' || findBinary('versitygw')) return true;
  if (values.path === 's3') throw new Error('the path s3 needs versitygw (VERSITYGW, or on PATH)');
  say('NOT MEASURED: the path s3, because versitygw was not found (VERSITYGW, or on PATH)');
  return false;
}

/** @returns {Promise<import('./report.mjs').Path>} */
async function measurePath(name, { dir, workloads, options }) {
  const { gateway, peers, profile } = values;
  const profileDir = profile === undefined ? undefined : resolve(profile, name);
  try {
    const servers = await startServers(name, { dir, gateway, peers, profileDir });
    // A profile shall show the workloads only.
    const warm = profile === undefined;
    await readyServers(servers, { workloads: workloadsOf[name], warm });
    const measurements = await measureInTurns(servers, { workloads, ...options, say });
    const versions = servers.map((server) => ({ name: server.name, version: server.version }));
    return { name, servers: versions, measurements };
  } finally {
    await stopAll();
    rmSync(dir, { recursive: true, force: true });
  }
}

function report(results) {
  const whole =
    values.gateway &&
    values.only === undefined &&
    values.profile === undefined &&
    results.paths.length === pathNames.length;
  const docs = resolve(import.meta.dirname, '../docs/performance.md');
  const out = values.out ?? (whole ? docs : '-');
  if (out !== '-') {
    mkdirSync(dirname(out), { recursive: true });
    writeFileSync(out, formatReport({ results, workloadsOf, notesDir: import.meta.dirname }));
    say(`wrote ${out}`);
  }
  print(results, ({ paths: measured }) => measured.map(summaryText).join('\n\n'));
}

function summaryText({ name, measurements }) {
  const lines = summarize(measurements).map((row) => {
    const { workload, server } = row;
    const ratio = ratioOf(measurements, { workload, peer: server, of: 'perSecond' });
    const p50 = ratioOf(measurements, { workload, peer: server, of: 'p50Ms' });
    const ratios = `  bursar/this: rate ${ratio?.median.toFixed(2)} p50 ${p50?.median.toFixed(2)}`;
    const rates = `${row.perSecond.toFixed(1)}/s  p50 ${row.p50Ms.toFixed(2)} ms`;
    const peak = `peak ${Math.round(row.peakBytes / 1e6)} MB`;
    const beside = server === 'bursar' || !ratio ? '' : ratios;
    return `${workload.padEnd(12)} ${server.padEnd(16)} ${rates}  ${peak}${beside}`;
  });
  return [`path ${name}`, ...lines].join('\n');
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

function namesOf(workloads) {
  return workloads.map(({ name }) => name);
}
