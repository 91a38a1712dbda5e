// Compares servers that differ in little: in many short turns, one server at a time while the
// others are paused, so that a slow moment of the machine falls on neighbours, which alone are
// compared. What a server has left to do behind its answers waits for its own next turn, and counts
// there.
import { checkObjects, makeBucket } from './control.mjs';
import { keyAt, makeBody } from './load.mjs';
import { interval, number, table } from './markdown.mjs';
import { cpuSecondsByThread, cpuSecondsOf, pause, resume } from './processes.mjs';
import { median, medianInterval, ratiosOf } from './statistics.mjs';
import { startLoadTool } from './turns.mjs';

export const bucket = 'bench-small';
export const keyCount = 2000;
export const sizeBytes = 4096;
const keyPrefix = 'get';
const turnSeconds = 0.3;
const warmupSeconds = 0.1;
/** Of fewer there is no interval of 95%. */
const surePairs = 6;

/** A GET or PUT of 4 KiB over so many connections. */
export function smallWorkload(kind, connections) {
  const over = `${connections} ${connections === 1 ? 'connection' : 'connections'}`;
  const title = `${kind.toUpperCase()} 4 KiB, ${over}`;
  return { name: `${kind}-4k-c${connections}`, title, kind, connections };
}

/** What `smallWorkload` reads. `target`: who stores it. */
export async function storeSmallObjects(target, tool) {
  await makeBucket(target, bucket);
  const plan = { target, bucket, keyPrefix, keyCount, sizeBytes };
  const filled = await tool.run({ ...plan, kind: 'fill', connections: 16 });
  if (filled.errors > 0) throw new Error(filled.firstError);
  await checkObjects(target, { bucket, keys: [keyAt(keyPrefix, 7)], body: makeBody(sizeBytes) });
}

/**
 * @typedef {{perSecond: number, p50Ms: number, p99Ms: number, cpuMs: number,
 *   byThread: Record<string, number>}} Turn of a request; `byThread`: CPU ms by names of threads
 * @typedef {{name: string, title: string, turns: Record<string, Turn[]>}} Compared turns by server
 * @param {Record<string, import('./processes.mjs').Server>} servers all paused
 * @param {{workloads: object[], rounds: number, tool: object, say: (line: string) => void}} options
 *   a workload is what of `load.mjs`'s plan differs from the small ones, and `planFor`, what of it
 *   is another for each server and round
 * @returns {Promise<Compared[]>}
 */
export async function compareInTurns(servers, { workloads, rounds, tool, say }) {
  const compared = [];
  const names = Object.keys(servers);
  for (const { name, title, ...workload } of workloads) {
    const turns = Object.fromEntries(names.map((server) => [server, []]));
    // The first round warms all up.
    for (let round = 0; round <= rounds; round++) {
      // Who begins is another each time.
      for (let i = 0; i < names.length; i++) {
        const serverName = names[(i + round) % names.length];
        const taken = { serverName, name, round, workload, tool };
        const turn = await takeTurn(servers[serverName], taken);
        if (round > 0) turns[serverName].push(turn);
      }
    }
    compared.push({ name, title, turns });
    const rates = names.map((one) => `${one} ${middle(turns[one], 'perSecond')}/s`);
    say(`${name}: ${rates.join(', ')}`);
  }
  return compared;
}

async function takeTurn(server, { serverName, name, round, workload, tool }) {
  const { planFor, ...planned } = workload;
  const writes = workload.kind === 'put';
  const plan = {
    ...{ bucket, keyCount, sizeBytes, keyPrefix: writes ? `${name}-${round}` : keyPrefix },
    ...{ target: server.target, seconds: turnSeconds, warmupSeconds, seed: round },
    ...{ ...planned, ...planFor?.({ server: serverName, round }) },
  };
  resume(server);
  const cpuBefore = cpuSecondsOf(server.pid);
  const threadsBefore = cpuSecondsByThread(server.pid);
  const load = await tool.run(plan);
  const cpuSeconds = cpuSecondsOf(server.pid) - cpuBefore;
  const threadsAfter = cpuSecondsByThread(server.pid);
  pause(server);
  if (load.errors > 0) throw new Error(`${name}: ${load.firstError}`);
  const msOfOne = (seconds) => (seconds * 1000) / (load.done + load.warmupDone);
  const byThread = Object.fromEntries(
    Object.entries(threadsAfter).map(([thread, seconds]) => [
      thread,
      msOfOne(seconds - (threadsBefore[thread] ?? 0)),
    ]),
  );
  const { perSecond, p50Ms, p99Ms } = load;
  return { perSecond, p50Ms, p99Ms, cpuMs: msOfOne(cpuSeconds), byThread };
}

export async function withLoadTool(use) {
  const tool = startLoadTool();
  try {
    return await use(tool);
  } finally {
    tool.end();
  }
}

/** `ours` divided by `other`, of one number, with the interval of 95%. */
export function ratioBetween({ turns }, { ours, other, of }) {
  return medianInterval(ratiosOf(turns[ours], turns[other], of));
}

/**
 * A table of throughput and CPU with something, divided by those without it.
 * @param {Compared[]} compared
 * @param {{ours: string, other: string, goal?: number}} sides `goal`: least ratio of throughput
 */
export function describeRatios(compared, { ours, other, goal }) {
  const numbers = (turns, of) => `${middle(turns[ours], of)} / ${middle(turns[other], of)}`;
  return table({
    head: [
      ...['Workload', 'throughput, ratio', ...(goal ? ['goal'] : []), 'CPU a request, ratio'],
      ...[`requests/s, ${ours} / ${other}`, `CPU ms a request, ${ours} / ${other}`],
    ],
    rows: compared.map((one) => [
      one.title,
      interval(ratioBetween(one, { ours, other, of: 'perSecond' })),
      ...(goal ? [verdict(one, { ours, other, goal })] : []),
      interval(ratioBetween(one, { ours, other, of: 'cpuMs' })),
      numbers(one.turns, 'perSecond'),
      numbers(one.turns, 'cpuMs'),
    ]),
  });
}

/**
 * The goal of each workload's throughput, `ours` beside `other`.
 * @param {Compared[]} compared
 * @returns {import('./summary.mjs').Goal[]}
 */
export function goalsOfTurns(compared, { ours, other, goal: least }) {
  return compared.map((one) => {
    const ratio = ratioBetween(one, { ours, other, of: 'perSecond' });
    const title = `${one.title}, ${ours}`;
    return { title, beside: other, least, ratio: ratio.median, text: interval(ratio) };
  });
}

/** Ends a verdict on a goal that is surely not reached. */
export const missed = 'MISSED';

/**
 * Whether `ours` reaches a goal of throughput beside `other`: surely, where all of the interval
 * does.
 */
export function verdict(compared, { goal, ...sides }) {
  if (compared.turns[sides.ours].length < surePairs) return `${goal}, too few turns to tell`;
  const { median: ratio, low, high } = ratioBetween(compared, { ...sides, of: 'perSecond' });
  if (low >= goal) return `${goal}, surely reached`;
  if (high < goal) return `${goal}, ${missed}`;
  return `${goal}, ${ratio >= goal ? 'reached' : 'not sure'}`;
}

function middle(turns, of) {
  return number(median(turns.map((turn) => turn[of])));
}

/** What tables of ratios are to be read with. */
export function explainTurns(rounds) {
  return (
    `${rounds} short ${rounds === 1 ? 'turn' : 'turns'} of each (${turnSeconds} s), the others ` +
    'paused meanwhile; ratios are ' +
    'medians of the ratios of neighbours, with their interval of 95% in brackets.'
  );
}
