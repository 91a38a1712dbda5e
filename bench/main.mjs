// `npm run bench`: measures the gateway, beside its peers and by itself, and writes
// docs/performance.md.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { formatPage, formatSection, keepRun, mergeRuns } from './report.mjs';
import { efforts, runSections, sections } from './sections.mjs';
import { formatSummary } from './summary.mjs';
import { workloadsOf } from './workloads.mjs';

const sectionNames = sections.map(({ name }) => name);
const workloadNames = [...new Set(Object.values(workloadsOf).flatMap(namesOf))];
/** Of the page. */
const regular = sections.filter(({ wantsOther }) => !wantsOther);
const minutes = Math.ceil(regular.reduce((sum, { seconds }) => sum + seconds.whole, 0) / 60);

const help = `Usage: npm run bench -- [options]

Measures the gateway, beside versitygw and MinIO where they are found (VERSITYGW, MINIO or PATH) and
by itself. Without options it writes docs/performance.md, in some ${minutes} minutes on two cores.

  --path NAMES     what to measure, separated by commas, or "all" (all):
                   ${sectionNames.join(', ')}
  --quick          shows in two minutes that all of it works; its numbers mean nothing
  --seconds N      how long each turn beside peers lasts (${efforts.whole.seconds})
  --rounds N       turns of each server at each workload, beside peers (${efforts.whole.rounds})
  --pairs N        short turns of gateways that differ in little (${efforts.whole.pairs}; for the
                   instruments ${efforts.whole.instrumentPairs})
  --only NAMES     workloads to run beside peers, separated by commas:
                   ${workloadNames.join(', ')}
  --beside DIR     for the path "release": the tree of another release, built (npm run build),
                   beside which this one is measured
  --list-keys N    keys in the bucket that is listed (${efforts.whole.listKeys})
  --snapshot-keys N  keys of the largest bucket of which snapshots are made, a power of ten
                   (${efforts.whole.snapshots.keys}; of 10000000 it takes hours)
  --dir DIR        data folders are made in here; use a real disk (TMPDIR, or /var/tmp)
  --out FILE       where the page goes; "-" writes none. Without it, a run of everything writes
                   docs/performance.md, and any other none
  --json           print all measurements as JSON instead of Markdown
  --page FILES     measures nothing: writes the page from what earlier runs printed with --json,
                   separated by commas; each section comes from the last of them that has it
  --no-peers       measure the gateway alone
  --no-gateway     measure the peers alone
  --profile DIR    write CPU profiles of the gateway's threads to DIR/embedded and DIR/s3 (costs
                   throughput)
  --help

The exit code is 1 where something could not be measured; the rest is written.`;

const { values } = parsed({
  allowNegative: true,
  options: {
    path: { type: 'string', default: 'all' },
    quick: { type: 'boolean', default: false },
    seconds: { type: 'string' },
    rounds: { type: 'string' },
    pairs: { type: 'string' },
    only: { type: 'string' },
    beside: { type: 'string' },
    'list-keys': { type: 'string' },
    'snapshot-keys': { type: 'string' },
    dir: { type: 'string' },
    out: { type: 'string' },
    json: { type: 'boolean', default: false },
    page: { type: 'string' },
    peers: { type: 'boolean', default: true },
    gateway: { type: 'boolean', default: true },
    profile: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

function parsed(config) {
  try {
    return parseArgs(config);
  } catch (error) {
    return refuse(`${error.message.split('. ', 1)[0]}; see --help`);
  }
}

function refuse(reason) {
  process.stderr.write(`bench: ${reason}\n`);
  return process.exit(2);
}

const say = (line) => void process.stderr.write(`${line}\n`);

const docs = resolve(import.meta.dirname, '../docs/performance.md');

if (values.help) process.stdout.write(`${help}\n`);
else if (values.page !== undefined) writePage(values.page.split(','));
else await bench();

function writePage(files) {
  const run = { ...mergeRuns(files.map(readRun), sections), notesDir: import.meta.dirname };
  writeTo(values.out ?? docs, formatPage(run));
}

function readRun(file) {
  try {
    const run = JSON.parse(readFileSync(file, 'utf8'));
    if (Array.isArray(run.machines) && Array.isArray(run.sections)) return run;
  } catch (error) {
    return refuse(`${file}: ${error.message}`);
  }
  return refuse(`${file} is not what a run printed with --json`);
}

function writeTo(out, page) {
  if (out === '-') return;
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, page);
  say(`wrote ${out}`);
}

async function bench() {
  const chosen = chooseSections();
  const choice = chooseServers();
  const dir = mkdtempSync(join(values.dir ?? process.env.TMPDIR ?? '/var/tmp', 'bursar-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));
  const machine = describeMachine(dir);
  const beganMs = performance.now();
  const effort = chooseEffort();
  const outcomes = await runSections(chosen, { dir, isQuick: values.quick, effort, choice, say });
  const tookMinutes = (performance.now() - beganMs) / 60_000;
  if (outcomes.some(({ failure }) => failure)) process.exitCode = 1;
  const { quick: isQuick } = values;
  const machines = [machine];
  write({ machines, isQuick, tookMinutes, outcomes, notesDir: import.meta.dirname });
}

function chooseSections() {
  const { path, only, gateway, profile, beside } = values;
  const unknown = path.split(',').find((name) => name !== 'all' && !sectionNames.includes(name));
  if (unknown !== undefined) refuse(`there is no path ${unknown}; see --help`);
  if (path.split(',').includes('release') && !beside) refuse('release wants --beside DIR');
  // Without the gateway, or of some workloads, there is nothing else.
  const isBesidePeers = only !== undefined || profile !== undefined || !gateway;
  return sections
    .filter(({ name }) => path === 'all' || path.split(',').includes(name))
    .filter(({ wantsOther }) => !wantsOther || beside)
    .filter(({ name }) => !isBesidePeers || hasWorkload(name, only));
}

function hasWorkload(path, only) {
  const names = namesOf(workloadsOf[path] ?? []);
  return names.some((name) => only?.split(',').includes(name) ?? true);
}

/** What is asked of the sections beside peers. */
function chooseServers() {
  const { gateway, peers, profile, beside } = values;
  const only = values.only?.split(',');
  const unknown = only?.find((name) => !workloadNames.includes(name));
  if (unknown !== undefined) refuse(`there is no workload ${unknown}; see --help`);
  return { only, gateway, peers, profile, beside };
}

function chooseEffort() {
  const { seconds, rounds, pairs, 'list-keys': listKeys, 'snapshot-keys': keys } = values;
  const asked = { seconds, rounds, pairs, instrumentPairs: pairs, listKeys };
  const set = Object.entries(asked).filter(([, value]) => value !== undefined);
  const numbers = set.map(([name, value]) => [name, Number(value)]);
  const effort = { ...efforts[values.quick ? 'quick' : 'whole'], ...Object.fromEntries(numbers) };
  if (keys === undefined) return effort;
  if (!/^10{3,8}$/.test(keys)) refuse('--snapshot-keys is a power of ten, from 1000');
  return { ...effort, snapshots: { ...effort.snapshots, keys: Number(keys) } };
}

function write(run) {
  const { outcomes } = run;
  const { quick, only, profile, gateway, peers } = values;
  const isMeasured = (section) => outcomes.some((outcome) => outcome.section === section);
  const isWhole = regular.every(isMeasured) && !quick && !only && !profile;
  writeTo(values.out ?? (isWhole && gateway && peers ? docs : '-'), formatPage(run));
  const text = values.json
    ? JSON.stringify(keepRun(run), null, 2)
    : [...formatSummary(outcomes), ...outcomes.flatMap(formatSection)].join('\n');
  process.stdout.write(`${text}\n`);
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
