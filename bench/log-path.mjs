// `npm run bench -- --path log`: what the audit log's tree costs. Two gateways, each on a folder of its
// own: one as it is, and one whose records have no tree above them (without-tree/). Small GETs and
// PUTs, by short turns, the other one paused.
import { checkObjects, makeBucket } from './control.mjs';
import { keyAt, makeBody } from './load.mjs';
import { cpuSecondsOf, pause, resume, settle, stopAll } from './processes.mjs';
import { median } from './report.mjs';
import { startGateway } from './servers.mjs';
import { runLoad } from './turns.mjs';

const bucket = 'bench-small';
const keyCount = 2000;
const sizeBytes = 4096;
/** Short turns, many of them: on a machine that others use too, neighbours alone compare. */
const turnSeconds = 0.7;
/** The least share of the throughput without a tree that it must leave. */
const goal = 0.9;
const preload = new URL('./without-tree/preload.mjs', import.meta.url).href;
const workloads = ['get', 'put'].flatMap((kind) =>
  [1, 32].map((connections) => ({ name: `${kind}-4k-c${connections}`, kind, connections })),
);

/**
 * @typedef {{perSecond: number, cpuMs: number}} Turn
 * @param {{dir: string, rounds: number, seconds: number, say: (line: string) => void}} options
 * @returns {Promise<{workload: string, tree: Turn[], plain: Turn[]}[]>} by turn
 */
export async function benchLog({ dir, rounds, seconds, say }) {
  try {
    const servers = {
      tree: await startFilled(`${dir}/tree`, true),
      plain: await startFilled(`${dir}/plain`, false),
    };
    const results = workloads.map(({ name }) => ({ workload: name, tree: [], plain: [] }));
    const turns = Math.ceil((rounds * seconds) / turnSeconds);
    for (const [i, { name, kind, connections }] of workloads.entries()) {
      for (let round = 0; round <= turns; round++) {
        for (const way of round % 2 === 0 ? ['tree', 'plain'] : ['plain', 'tree']) {
          const keyPrefix = kind === 'get' ? 'get' : `${name}-${round}`;
          const measured = await measure(servers[way], {
            ...{ bucket, keyCount, sizeBytes, kind, connections, keyPrefix },
            ...{ seconds: turnSeconds, warmupSeconds: 0.25, seed: round },
          });
          say(`${name} turn ${round} ${way}: ${Math.round(measured.perSecond)}/s`);
          // The first warms both up.
          if (round > 0) results[i][way].push(measured);
        }
      }
    }
    return results;
  } finally {
    await stopAll();
  }
}

async function startFilled(dir, hasTree) {
  const nodeArgs = hasTree ? [] : ['--import', preload];
  const server = await startGateway({ dir, nodeArgs });
  const { target } = server;
  await makeBucket(target, bucket);
  const plan = { target, bucket, keyPrefix: 'get', keyCount, sizeBytes };
  await runLoad({ ...plan, kind: 'fill', connections: 16 });
  await checkObjects(target, { bucket, keys: [keyAt('get', 7)], body: makeBody(sizeBytes) });
  const size = await signedSize(target);
  if (size >= keyCount !== hasTree) throw new Error(`${dir}: ${size} records are signed for`);
  pause(server);
  return server;
}

/** So that a gateway without a tree is one. */
async function signedSize({ host, port }) {
  const note = await (await fetch(`http://${host}:${port}/_/log/checkpoint`)).text();
  return Number(note.split('\n')[1]);
}

async function measure(server, plan) {
  resume(server);
  await settle(server);
  const cpuBefore = cpuSecondsOf(server.pid);
  const load = await runLoad({ ...plan, target: server.target });
  if (load.errors > 0) throw new Error(`${plan.keyPrefix}: ${load.firstError}`);
  // With what is done behind the answers.
  await settle(server);
  const cpuSeconds = cpuSecondsOf(server.pid) - cpuBefore;
  pause(server);
  const cpuMs = (cpuSeconds * 1000) / (load.done + load.warmupDone);
  return { perSecond: load.perSecond, cpuMs };
}

/** Rates with the tree divided by those without; of neighbours, the middle and the middle half. */
export function describeLog(results) {
  return results
    .map(({ workload, tree, plain }) => {
      const middle = (turns, name) => median(turns.map((turn) => turn[name]));
      const ratios = tree.map(({ perSecond }, i) => perSecond / plain[i].perSecond);
      const sorted = [...ratios].sort((a, b) => a - b);
      const [low, high] = [0.25, 0.75].map((part) =>
        sorted[Math.floor(part * (sorted.length - 1))].toFixed(2),
      );
      const ratio = median(ratios);
      const [treeRate, plainRate] = [tree, plain].map((turns) =>
        middle(turns, 'perSecond').toFixed(0),
      );
      const [treeCpu, plainCpu] = [tree, plain].map((turns) => middle(turns, 'cpuMs').toFixed(3));
      const verdict = ratio >= goal ? '' : `  BELOW the goal of ${goal}`;
      return (
        `${workload.padEnd(10)} ${ratio.toFixed(3)} (${low}–${high})  ` +
        `${treeRate}/s with the tree, ${plainRate}/s without; ` +
        `CPU ms each ${treeCpu}, ${plainCpu}${verdict}`
      );
    })
    .join('\n');
}
