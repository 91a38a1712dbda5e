// What the instruments cost, twofold: their share of the time of requests that are served, by a
// profile; and the throughput of a gateway that now measures its requests and now does not.
import { mkdirSync } from 'node:fs';
import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { profileInstruments, profileMicros } from './instruments-profile.mjs';
import { count, interval, percent, table } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { metricsToken, startGateway } from './servers.mjs';
import {
  bucket,
  describeRatios,
  keyCount,
  missed,
  ratioBetween,
  sizeBytes,
  smallWorkload,
  storeSmallObjects,
  verdict,
  withLoadTool,
} from './short-turns.mjs';
import { median, medianInterval } from './statistics.mjs';
import { modes, periodMs, settleMs } from './switched-instruments/periods.mjs';

/**
 * The largest share of the throughput, and of a request's CPU, that stages and metrics may take.
 */
const shareMax = 0.02;
const preload = new URL('./switched-instruments/preload.mjs', import.meta.url).href;
const workloads = [smallWorkload('get', 32), smallWorkload('put', 32)];

/**
 * Two processes of one code differ by some percent for as long as they run: each is compared with
 * itself.
 */
const instancesMax = 3;
/** A gateway is driven for so long at a time; where few periods are wanted, shorter. */
const sliceSecondsMax = 4;
const sliceSecondsMin = 1.5;
const profileSecondsMax = 24;
/** Of a machine that is too busy for a whole period. */
const emptySlicesMax = 20;
/** Of what is profiled. */
const measuredParts = ['stages', 'metrics'];

/**
 * @param {{dir: string, effort: {instrumentPairs: number}, say: (line: string) => void}} options
 */
export function benchInstruments({ dir, effort: { instrumentPairs }, say }) {
  const instances = Math.min(instancesMax, instrumentPairs);
  const rounds = Math.ceil(instrumentPairs / instances);
  const profileSeconds = Math.min(profileSecondsMax, instrumentPairs);
  return withLoadTool(async (tool) => {
    const profiled = await profileInstruments({
      dir: `${dir}/profiled`,
      ...{ workloads, seconds: profileSeconds, tool },
    });
    const runs = [];
    for (let i = 0; i < instances; i++) {
      runs.push(await runSwitched(`${dir}/${i}`, { rounds, tool, say }));
      await stopAll();
    }
    return { rounds, instances, profileSeconds, profiled, compared: joinTurns(runs) };
  });
}

/** One gateway, which changes all the time how far it measures its requests. */
async function runSwitched(dir, { rounds, tool, say }) {
  mkdirSync(dir, { recursive: true });
  const socketPath = `${dir}/periods`;
  const { target } = await startGateway({
    ...{ dir, nodeArgs: ['--import', preload] },
    env: { BENCH_PERIODS_SOCKET: socketPath },
  });
  await storeSmallObjects(target, tool);
  const seconds = Math.min(sliceSecondsMax, sliceSecondsMin * rounds);
  const compared = [];
  for (const { name, title, ...workload } of workloads) {
    const plan = { ...workload, target, bucket, keyCount, sizeBytes, seconds };
    const found = [];
    // The first slice warms up.
    for (let slice = 0; found.length < rounds; slice++) {
      if (slice > rounds + emptySlicesMax) throw new Error(`${name}: there are no whole periods`);
      const keyPrefix = workload.kind === 'put' ? `slice-${slice}` : 'get';
      const sliced = { ...plan, keyPrefix, seed: slice, warmupSeconds: 0.2 };
      const own = await runSlice(socketPath, { plan: sliced, tool, target });
      if (slice > 0) found.push(...own);
    }
    const kept = found.slice(0, rounds);
    const turns = Object.fromEntries(modes.map((mode) => [mode, kept.map((one) => one[mode])]));
    compared.push({ name, title, turns });
    say(`${name}: ${rounds} periods of each`);
  }
  return compared;
}

/**
 * @returns {Promise<Record<string, {perSecond: number, cpuMs: number}>[]>} by mode, of each round
 */
async function runSlice(socketPath, { plan, tool, target }) {
  const countedBefore = await countRequests(target);
  await ask(socketPath, '/begin');
  const load = await tool.run(plan);
  const { periods, measured } = await ask(socketPath, '/end');
  if (load.errors > 0) throw new Error(load.firstError);
  // So that one that is not measured is not.
  const counted = (await countRequests(target)) - countedBefore;
  if (counted !== measured) throw new Error(`${counted} requests were counted, not ${measured}`);
  const rounds = [];
  for (let i = 0; i + modes.length <= periods.length; i += modes.length) {
    const round = periods.slice(i, i + modes.length);
    if (round.every(({ requests }) => requests > 0)) rounds.push(round);
  }
  // The load comes in the first of them, and goes in the last.
  return rounds.slice(1, -1).map((round) => Object.fromEntries(round.map(toTurn)));
}

function toTurn({ mode, ms, requests, cpuMs }) {
  return [mode, { perSecond: (requests * 1000) / ms, cpuMs: cpuMs / requests }];
}

function ask(socketPath, path) {
  return new Promise((resolve, reject) => {
    request({ socketPath, path }, async (answer) => resolve(await json(answer)))
      .once('error', reject)
      .end();
  });
}

/** GETs and PUTs of objects that its metrics have counted. */
async function countRequests({ host, port }) {
  const headers = { authorization: `Bearer ${metricsToken}` };
  const text = await (await fetch(`http://${host}:${port}/_/metrics`, { headers })).text();
  const counts = text.matchAll(
    /^bursar_requests_total\{.*operation="(?:Get|Put)Object".*\} (\d+)$/gm,
  );
  return Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
}

function joinTurns([first, ...others]) {
  return first.map(({ name, title, turns }, i) => {
    const joined = Object.entries(turns).map(([mode, own]) => [
      mode,
      [...own, ...others.flatMap((run) => run[i].turns[mode])],
    ]);
    return { name, title, turns: Object.fromEntries(joined) };
  });
}

export function describeInstruments(run) {
  const { rounds, instances, profileSeconds, profiled, compared } = run;
  const sides = { ours: 'measured', other: 'none', goal: 1 - shareMax };
  const shares = compared.map(({ name }) => measuredShare(profiled[name]));
  const told = compared.map(({ title }, i) => `${percentInterval(shares[i])} of a ${title}`);
  const ratios = compared.map((one) => {
    const ratio = interval(ratioBetween(one, { ...sides, of: 'perSecond' }));
    return `${ratio} of a ${one.title}`;
  });
  const isAgainst = compared.some((one) => verdict(one, sides).endsWith(missed));
  const [[parts]] = Object.values(profiled);
  return [
    'Each request is timed in stages and counted; by default it has a line in the log, and ' +
      'who may see',
    `it is told \`Server-Timing\`. The goal: stages and metrics take less than ` +
      `${percent(shareMax)} of`,
    'the throughput of 4 KiB objects.',
    '',
    `Of the time of the main thread, which all requests pass, they take ${told.join(' and ')}:`,
    `**the goal is ${verdictOf(shares, isAgainst)}.** Throughput with them, divided by that ` +
      'without:',
    `${ratios.join('; ')}, which ${isAgainst ? 'is AGAINST it' : 'is not against it'}.`,
    '',
    'A gateway with its defaults, asked by the operator, under V8’s CPU profiler, which ' +
      'looks every',
    `${profileMicros} µs for ${profileSeconds} s; each moment at which a function of the ` +
      'instruments is on',
    'the stack is theirs, whatever it calls, and so is the collecting of garbage that comes ' +
      'upon it; the',
    'exchange, which all answers go through, has its own functions alone:',
    '',
    ...table({
      head: ['Of the main thread’s time', ...compared.map(({ title }) => title)],
      rows: [
        ...parts.map(({ title }, i) => [
          title,
          ...compared.map(({ name }) => percent(median(profiled[name].map((one) => one[i].share)))),
        ]),
        ['**stages and metrics**', ...shares.map(percentInterval)],
      ],
    }),
    `One gateway changes by itself, every ${periodMs + settleMs} ms, how far it measures its ` +
      'requests',
    '(`bench/switched-instruments/`), since two processes of one code differ by some percent ' +
      'for as long',
    'as they run: by its settings (`all`), by stages and metrics alone (`measured`), or not at all',
    `(\`none\`). Periods of each: ${count(rounds * instances)}, of a gateway started anew ` +
      `${instances}×; ratios are medians of the ratios`,
    'of neighbours, with their interval of 95% in brackets.',
    '',
    ...describeRatios(compared, sides),
    'By its default settings, asked by the operator, beside one that writes no lines in the ' +
      'log, no',
    '`Server-Timing` and no samples; there is no goal for that:',
    '',
    ...describeRatios(compared, { ours: 'all', other: 'measured' }),
  ];
}

/** Of all seconds, with the interval of 95%. */
function measuredShare(seconds) {
  const shareOf = (parts) =>
    parts
      .filter(({ name }) => measuredParts.includes(name))
      .reduce((sum, { share }) => sum + share, 0);
  return medianInterval(seconds.map(shareOf));
}

function verdictOf(shares, isAgainst) {
  if (isAgainst || shares.some(({ low }) => low >= shareMax)) return 'MISSED';
  return shares.every(({ high }) => high < shareMax) ? 'reached' : 'not surely reached';
}

function percentInterval({ median: share, low, high }) {
  return `**${percent(share)}** (${percent(low)}–${percent(high)})`;
}
