// What the instruments cost, twofold: gateways with and without them, by short turns, and the calls that a
// request makes, in a loop, as a share of the CPU that the same run has a request take. Short turns
// show the whole cost, but on a busy machine not to a percent; the loop does.
import { timeInstruments } from './instruments-loop.mjs';
import { count, interval, number, percent, table } from './markdown.mjs';
import { pause, stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import {
  compareInTurns,
  describeRatios,
  explainTurns,
  isMissed,
  ratioBetween,
  smallWorkload,
  storeSmallObjects,
  withLoadTool,
} from './short-turns.mjs';
import { median } from './statistics.mjs';

/** The largest share of the throughput, and of a request's CPU, that stages and metrics may take. */
const shareMax = 0.02;
const preload = new URL('./without-instruments/preload.mjs', import.meta.url).href;
const workloads = [smallWorkload('get', 32), smallWorkload('put', 32)];
const untold = {
  BURSAR_REQUEST_LOG: 'no',
  BURSAR_SERVER_TIMING: 'nobody',
  BURSAR_TRAFFIC_SAMPLES: 'no',
};

/** Two processes of the same code differ by some percent for as long as they run: so many are taken. */
const instances = 5;

/** @param {{dir: string, effort: {instrumentPairs: number}, say: (line: string) => void}} options */
export function benchInstruments({ dir, effort: { instrumentPairs }, say }) {
  const rounds = Math.ceil(instrumentPairs / instances);
  return withLoadTool(async (tool) => {
    const parts = await timeInstruments();
    const runs = [];
    for (let i = 0; i < instances; i++) {
      const servers = await startThree(`${dir}/${i}`, tool);
      runs.push(await compareInTurns(servers, { workloads, rounds, tool, say }));
      await stopAll();
    }
    return { rounds: rounds * instances, parts, compared: joinTurns(runs) };
  });
}

async function startThree(dir, tool) {
  const none = { dir: `${dir}/none`, env: untold, nodeArgs: ['--import', preload] };
  return {
    all: await startFilled({ dir: `${dir}/all` }, { isMetered: true, tool }),
    measured: await startFilled({ dir: `${dir}/measured`, env: untold }, { isMetered: true, tool }),
    none: await startFilled(none, { isMetered: false, tool }),
  };
}

function joinTurns([first, ...others]) {
  return first.map(({ name, title, turns }, i) => {
    const joined = Object.entries(turns).map(([server, own]) => [
      server,
      [...own, ...others.flatMap((run) => run[i].turns[server])],
    ]);
    return { name, title, turns: Object.fromEntries(joined) };
  });
}

async function startFilled(options, { isMetered, tool }) {
  const server = await startGateway(options);
  const { host, port } = server.target;
  await storeSmallObjects(server.target, tool);
  // So that a gateway without instruments is one.
  const text = await (await fetch(`http://${host}:${port}/_/metrics`)).text();
  const hasCounted = /^bursar_requests_total\{.*PutObject/m.test(text);
  if (hasCounted !== isMetered) throw new Error(`${options.dir} has counted: ${hasCounted}`);
  pause(server);
  return server;
}

export function describeInstruments({ rounds, parts, compared }) {
  const [gets] = compared;
  const requestNs = median(gets.turns.all.map(({ cpuMs }) => cpuMs)) * 1e6;
  const share = (part) => part.ns / requestNs;
  const shareOf = (names) =>
    parts.filter(({ name }) => names.includes(name)).reduce((sum, part) => sum + share(part), 0);
  const measuredShare = shareOf(['clock', 'metrics']);
  const sides = { ours: 'measured', other: 'none' };
  const ratios = compared.map((one) => {
    return `${interval(ratioBetween(one, { ...sides, of: 'perSecond' }))} of a ${one.title}`;
  });
  const isAgainst = compared.some((one) => isMissed(one, { ...sides, goal: 1 - shareMax }));
  return [
    'Each request is timed in stages and counted; by default it has a line in the log, and who may see',
    `it is told \`Server-Timing\`. The goal: stages and metrics take less than ${percent(shareMax)} of`,
    'the throughput of 4 KiB objects.',
    '',
    `**Stages and metrics take ${percent(measuredShare)} of the CPU of a ${gets.title}: the goal is`,
    `${measuredShare < shareMax && !isAgainst ? 'reached' : 'MISSED'}.** Throughput with them, divided by`,
    `that without: ${ratios.join('; ')}, which ${isAgainst ? 'is AGAINST it' : 'is not against it'}.`,
    '',
    `The calls that a request makes, ${count(100_000)} times in a loop, beside the CPU that one takes`,
    `over 32 connections (${number(requestNs / 1000)} µs):`,
    '',
    ...table({
      head: ['Of a request', 'ns', 'share of its CPU'],
      rows: [
        ...parts.map((part) => [part.title, number(part.ns), percent(share(part))]),
        ['**stages and metrics**', '', `**${percent(measuredShare)}**`],
        ['all of it', '', percent(shareOf(parts.map(({ name }) => name)))],
      ],
    }),
    'A gateway with stages and metrics (`measured`) beside one whose clock and observers are replaced by',
    `empty ones as it loads (\`none\`, \`bench/without-instruments/\`), each started ${instances} times.`,
    explainTurns(rounds),
    '',
    ...describeRatios(compared, { ...sides, goal: 1 - shareMax }),
    'A gateway with its defaults (`all`), asked by the operator, beside one without lines in the log,',
    '`Server-Timing` and samples (`measured`); there is no goal for that:',
    '',
    ...describeRatios(compared, { ours: 'all', other: 'measured' }),
  ];
}
