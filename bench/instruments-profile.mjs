// What the instruments take of the time of requests that are served: a gateway with its defaults is
// driven under V8's CPU profiler, and each moment of its main thread, which all requests pass, is
// theirs if one of their functions is on the stack. Unlike throughput, which varies by ten percent
// from one moment to the next, this varies by some tenths of a percent.
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { settle, stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { bucket, keyCount, sizeBytes, storeSmallObjects } from './short-turns.mjs';

/**
 * What a part calls is its own. `files`: in instruments/; what is in no other part's counts as
 * metrics.
 */
const parts = [
  {
    ...{ name: 'stages', title: 'stages: its clock, read at each change' },
    files: ['stage-clock'],
  },
  {
    ...{ name: 'metrics', title: 'metrics: counted by operation, size, store and tenant' },
    files: [],
  },
  {
    ...{ name: 'exchange', title: 'the exchange: what a request is called, and its answer' },
    files: [],
  },
  {
    ...{ name: 'timing', title: '`Server-Timing`, to those who are told' },
    files: [],
  },
  {
    ...{ name: 'line', title: 'the line of the log' },
    files: ['request-log', 'logger'],
  },
  {
    ...{ name: 'samples', title: 'samples of traffic' },
    files: ['traffic-sampler', 'sample-log', 'sample-line'],
  },
];
/** V8 looks so often. */
export const profileMicros = 500;
const timingFunctions = ['describe', 'get serverTiming'];

/**
 * @typedef {{name: string, title: string, share: number}[]} Shares of the busy time of the main
 *   thread
 * @param {object} options
 * @param {object[]} options.workloads from `smallWorkload`
 * @returns {Promise<Record<string, Shares[]>>} by workload, of each second
 */
export async function profileInstruments({ dir, workloads, seconds, tool }) {
  const profileDir = join(dir, 'profile');
  mkdirSync(profileDir, { recursive: true });
  const nodeArgs = [`--cpu-prof-interval=${profileMicros}`];
  const server = await startGateway({ dir, profileDir, nodeArgs });
  const { target } = server;
  await storeSmallObjects(target, tool);
  const ends = {};
  for (const { name, kind, connections } of workloads) {
    const plan = { target, kind, bucket, keyCount, sizeBytes, connections, seed: 1, seconds };
    const keyPrefix = kind === 'put' ? name : 'get';
    const load = await tool.run({ ...plan, keyPrefix, warmupSeconds: 2 });
    if (load.errors > 0) throw new Error(load.firstError);
    ends[name] = monotonicMicros();
    await settle(server);
  }
  await stopAll();
  const profile = readMainProfile(profileDir);
  return Object.fromEntries(
    Object.entries(ends).map(([name, endMicros]) => [
      name,
      Array.from({ length: seconds }, (_, i) => {
        const toMicros = endMicros - i * 1e6;
        return shareOut(profile, { fromMicros: toMicros - 1e6, toMicros });
      }),
    ]),
  );
}

/** The clock that V8's profiles are of, too. */
function monotonicMicros() {
  return Number(process.hrtime.bigint() / 1000n);
}

/** Each thread writes its own; the main thread's number is 0. */
function readMainProfile(profileDir) {
  const name = readdirSync(profileDir).find((one) => /\.0\.\d+\.cpuprofile$/.test(one));
  if (name === undefined) throw new Error('the gateway wrote no profile of its main thread');
  return JSON.parse(readFileSync(join(profileDir, name), 'utf8'));
}

/** Whose the busy moments between two times are, as shares of all of them. */
export function shareOut({ nodes, samples, timeDeltas, startTime }, { fromMicros, toMicros }) {
  const partOf = assignNodes(nodes);
  const micros = new Map();
  let busyMicros = 0;
  let atMicros = startTime;
  let part;
  samples.forEach((id, i) => {
    atMicros += timeDeltas[i];
    part = partAfter(part, partOf.get(id));
    if (atMicros < fromMicros || atMicros >= toMicros || part === 'idle') return;
    busyMicros += timeDeltas[i];
    micros.set(part, (micros.get(part) ?? 0) + timeDeltas[i]);
  });
  return parts.map(({ name, title }) => ({
    ...{ name, title },
    share: (micros.get(name) ?? 0) / busyMicros,
  }));
}

/** Collecting garbage has no stack: it is the part's that it has interrupted. */
function partAfter(before, own) {
  if (own !== 'collector') return own;
  return before === 'idle' ? undefined : before;
}

/**
 * The part that each node of the call tree belongs to: that of the outermost of theirs on its
 * stack.
 */
function assignNodes(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const partOf = new Map();
  const visit = (node, above) => {
    const part = partBelow(above, node.callFrame);
    partOf.set(node.id, part === 'teller' ? 'metrics' : part);
    for (const child of node.children ?? []) visit(byId.get(child), part);
  };
  visit(nodes[0], undefined);
  return partOf;
}

function partBelow(above, frame) {
  const own = partAt(frame);
  // All observers are told through one, and all answers are sent through the exchange.
  if (above === undefined || above === 'exchange') return own;
  return above === 'teller' ? (own ?? above) : above;
}

function partAt({ functionName, url }) {
  if (functionName === '(idle)') return 'idle';
  if (functionName === '(garbage collector)') return 'collector';
  const [, room, file] = /\/dist\/(instruments|gateway)\/([\w-]+)\.js$/.exec(url) ?? [];
  const isExchange = room === 'gateway' && file === 'exchange';
  if (room !== 'instruments' && !isExchange) return undefined;
  if ((isExchange || file === 'stage-clock') && timingFunctions.includes(functionName)) {
    return 'timing';
  }
  if (isExchange) return 'exchange';
  if (file === 'instruments') return 'teller';
  return parts.find(({ files }) => files.includes(file))?.name ?? 'metrics';
}
