// One operation over eight connections, beside somebody else who wants little.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Asker } from './asking.mjs';
import { bucket } from './state.mjs';

export const connections = 8;
const proberUrl = new URL('./prober.mjs', import.meta.url);

/** The prober's process, as a principal of its own, until `end`. */
export async function startProber(asker, target) {
  const principals = 'tenants/default/principals';
  const name = 'prober';
  await asker.demandNative('POST', principals, { name, kind: 'robot', role: 'admin' });
  const { accessKeyId, secretAccessKey } = await asker.demandNative(
    'POST',
    `${principals}/${name}/access-keys`,
  );
  await asker.demand({ method: 'PUT', path: `/${bucket}/probed`, body: 'x'.repeat(100) });
  const child = fork(proberUrl, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  child.send({ target: { ...target, accessKeyId, secretAccessKey }, bucket });
  await once(child, 'message');
  return {
    begin: () => void child.send(true),
    /** @returns {Promise<{get: number[], put: number[]}>} milliseconds since `begin` */
    take: async () => {
      child.send(false);
      const [waits] = await once(child, 'message');
      return waits;
    },
    end: () => child.disconnect(),
  };
}

/**
 * Asks for one thing for so long, and each connection at least once; without `messageAt` for
 * nothing.
 * @param {import('./operations.mjs').Largest} largest
 * @returns {Promise<{done: number, tookMs: number, waits: {get: number[], put: number[]},
 *   stalls: Stall[]}>}
 */
export async function measureOne(largest, { target, prober, seconds }) {
  const { title, messageAt, status = 200, perSecond = Infinity, isWhole } = largest;
  const asker = new Asker(target, connections);
  const before = await readStalls(asker);
  prober.begin();
  const sinceMs = performance.now();
  const untilMs = sinceMs + seconds * 1000;
  let next = 0;
  let done = 0;
  const work = async () => {
    do {
      const message = messageAt(next);
      if (!message) return;
      const earlyMs = sinceMs + (1000 * next++) / perSecond - performance.now();
      if (earlyMs > 0) await sleep(earlyMs);
      const answer = await asker.ask(message);
      if (answer.status !== status) {
        throw new Error(`${title}: ${answer.status} ${answer.text.slice(0, 500)}`);
      }
      done++;
    } while (isWhole || performance.now() < untilMs);
  };
  if (messageAt) await Promise.all(Array.from({ length: connections }, work));
  else await sleep(seconds * 1000);
  const tookMs = performance.now() - sinceMs;
  const waits = await prober.take();
  const stalls = stallsBetween(before, await readStalls(asker));
  asker.close();
  return { title, done, tookMs, waits, stalls };
}

/**
 * The stalls of one operation.
 * @typedef {object} Stall
 * @property {string} operation
 * @property {number} count
 * @property {number} upToMs the bound that none exceeds
 * @property {number} meanMs
 * @property {Own | null} own null: the system does not tell
 */

/**
 * What is left of them without the time in which the thread waited for a processor that others had.
 * @typedef {object} Own
 * @property {number} longCount of those that are stalls even so
 * @property {number} upToMs
 * @property {number} meanMs
 * @property {number} processorMs in the mean, in which the thread had a processor
 */

/** Seconds; the gateway tells of stalls from here on. */
const stallSecondsMin = 0.05;
const lateName = 'bursar_event_loop_stall_seconds';
const ownName = 'bursar_event_loop_stall_own_seconds';
const processorName = 'bursar_event_loop_stall_processor_seconds_total';
const valueForm =
  /^(bursar_event_loop_stall_\w+)\{(?:le="([^"]+)",)?operation="([^"]+)"\} (\S+)$/gm;

/** @returns {Promise<Map<string, number>>} by series. 0.1.0 has none. */
async function readStalls(asker) {
  const { text } = await asker.ask({ method: 'GET', path: '/_/v1/metrics' });
  const values = new Map();
  for (const [, name, le, operation, value] of text.matchAll(valueForm)) {
    values.set(seriesOf(operation, name, le), Number(value));
  }
  return values;
}

const seriesOf = (operation, name, le = '') => [operation, name, le].join(' ');

/** @returns {Stall[]} what was added, the longest first */
function stallsBetween(before, after) {
  const added = new Map();
  for (const [series, value] of after) added.set(series, value - (before.get(series) ?? 0));
  const operations = new Set([...after.keys()].map((series) => series.split(' ')[0]));
  const stalls = [...operations].flatMap((operation) => {
    const addedTo = (...of) => added.get(seriesOf(operation, ...of));
    const count = addedTo(`${lateName}_count`);
    if (count === 0) return [];
    const millisecondsOf = (name) => {
      const meanMs = (1000 * addedTo(`${name}_sum`)) / count;
      return { upToMs: 1000 * boundOf(added, operation, name), meanMs };
    };
    const isKnown = addedTo(`${ownName}_count`) !== undefined;
    const own = isKnown && {
      longCount: count - addedTo(`${ownName}_bucket`, stallSecondsMin),
      ...millisecondsOf(ownName),
      processorMs: (1000 * addedTo(processorName)) / count,
    };
    return [{ operation, count, ...millisecondsOf(lateName), own: own || null }];
  });
  return stalls.sort((a, b) => b.upToMs - a.upToMs || b.meanMs - a.meanMs);
}

/** Seconds, which no value that was added exceeds. */
function boundOf(added, operation, name) {
  const count = added.get(seriesOf(operation, `${name}_count`));
  const start = seriesOf(operation, `${name}_bucket`);
  const bounds = [...added].filter(([series, some]) => series.startsWith(start) && some === count);
  const seconds = bounds.map(([series]) => series.slice(start.length));
  return Math.min(...seconds.map((le) => (le === '+Inf' ? Infinity : Number(le))));
}
