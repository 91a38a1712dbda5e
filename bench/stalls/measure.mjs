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
 * Asks for one thing for so long, and each connection at least once; without `messageAt` for nothing.
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

/** @typedef {{operation: string, count: number, upToMs: number, meanMs: number}} Stall */

const bucketForm =
  /^bursar_event_loop_stall_seconds_bucket\{le="([^"]+)",operation="([^"]+)"\} (\S+)$/gm;
const sumForm = /^bursar_event_loop_stall_seconds_sum\{operation="([^"]+)"\} (\S+)$/gm;

/** By operation: how often up to each bound, and all seconds. 0.1.0 has no such metric. */
async function readStalls(asker) {
  const { text } = await asker.ask({ method: 'GET', path: '/_/v1/metrics' });
  const stalls = new Map();
  for (const [, le, operation, count] of text.matchAll(bucketForm)) {
    if (!stalls.has(operation)) stalls.set(operation, { counts: new Map(), seconds: 0 });
    stalls.get(operation).counts.set(le === '+Inf' ? Infinity : Number(le), Number(count));
  }
  for (const [, operation, sum] of text.matchAll(sumForm)) {
    stalls.get(operation).seconds = Number(sum);
  }
  return stalls;
}

/** @returns {Stall[]} what was added, the longest first; `upToMs`: the bound that none exceeds */
function stallsBetween(before, after) {
  const stalls = [];
  for (const [operation, { counts, seconds }] of after) {
    const was = before.get(operation);
    const added = [...counts].map(([le, count]) => [le, count - (was?.counts.get(le) ?? 0)]);
    const count = added.find(([le]) => le === Infinity)[1];
    if (count === 0) continue;
    const upTo = Math.min(...added.filter(([, some]) => some === count).map(([le]) => le));
    const meanMs = (1000 * (seconds - (was?.seconds ?? 0))) / count;
    stalls.push({ operation, count, upToMs: 1000 * upTo, meanMs });
  }
  return stalls.sort((a, b) => b.upToMs - a.upToMs || b.meanMs - a.meanMs);
}
