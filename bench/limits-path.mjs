// `npm run bench -- --path limits`: what limits cost. The same gateway, alternately without limits
// and with limits of all kinds on every account that a request is charged to, wide enough never to
// refuse: requester, requester's tenant, bucket, bucket's owner. Small GETs and PUTs, by turns.
import { hash } from 'node:crypto';
import { signRequest } from '#bursar/core/sigv4.js';
import { checkObjects, makeBucket } from './control.mjs';
import { keyAt, makeBody } from './load.mjs';
import { cpuSecondsOf, settle, stopAll } from './processes.mjs';
import { median } from './report.mjs';
import { startServers } from './servers.mjs';
import { runLoad } from './turns.mjs';

const bucket = 'bench-small';
const keyCount = 2000;
const sizeBytes = 4096;
/** Short turns, many of them: on a machine that others use too, neighbours alone compare. */
const turnSeconds = 0.7;
/** The least share of the throughput without limits that limits must leave. */
const goal = 0.95;
const requester = 'reader';
const accounts = [
  'tenant:default',
  `principal:default/${requester}`,
  'principal:default/admin',
  `bucket:default/${bucket}`,
];
const count = { hour: 1e15, day: 1e15, month: 1e15, total: 1e15 };
const money = { day: '9000000', month: '9000000', total: '9000000' };
const limits = {
  ...{ spend: money, requests: count, ingressBytes: count, egressBytes: count },
  ...{ storedBytes: { total: 1e15 }, storedObjects: { total: 1e15 } },
};
const workloads = ['get', 'put'].flatMap((kind) =>
  [1, 32].map((connections) => ({ name: `${kind}-4k-c${connections}`, kind, connections })),
);

/**
 * @typedef {{perSecond: number, cpuMs: number}} Turn
 * @param {{dir: string, rounds: number, seconds: number, say: (line: string) => void}} options
 * @returns {Promise<{workload: string, free: Turn[], limited: Turn[]}[]>} by turn
 */
export async function benchLimits({ dir, rounds, seconds, say }) {
  try {
    const [server] = await startServers('embedded', { dir, gateway: true, peers: false });
    const operator = server.target;
    await makeBucket(operator, bucket);
    const target = { ...operator, ...(await makeRequester(operator)) };
    const plan = { target, bucket, keyPrefix: 'get', keyCount, sizeBytes };
    await runLoad({ ...plan, kind: 'fill', connections: 16 });
    await checkObjects(target, { bucket, keys: [keyAt('get', 7)], body: makeBody(sizeBytes) });
    const results = workloads.map(({ name }) => ({ workload: name, free: [], limited: [] }));
    const turns = Math.ceil((rounds * seconds) / turnSeconds);
    for (const [i, { name, kind, connections }] of workloads.entries()) {
      for (let round = 0; round <= turns; round++) {
        // Who comes second has the larger database: each is that in every other round.
        const ways = round % 2 === 0 ? ['free', 'limited'] : ['limited', 'free'];
        for (const way of ways) {
          await setLimits(operator, way === 'limited' ? limits : null);
          const keyPrefix = kind === 'get' ? 'get' : `${name}-${round}-${way}`;
          const measured = await measure(server, {
            ...{ ...plan, kind, connections, keyPrefix },
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

async function measure(server, plan) {
  await settle(server);
  const cpuBefore = cpuSecondsOf(server.pid);
  const load = await runLoad(plan);
  if (load.errors > 0) throw new Error(`${plan.keyPrefix}: ${load.firstError}`);
  const cpuSeconds = cpuSecondsOf(server.pid) - cpuBefore;
  const cpuMs = (cpuSeconds * 1000) / (load.done + load.warmupDone);
  return { perSecond: load.perSecond, cpuMs };
}

/** Another principal than the bucket's owner, so that all four accounts are concerned. */
async function makeRequester(operator) {
  const principals = ['tenants', 'default', 'principals'];
  await call(operator, 'POST', principals, { name: requester, kind: 'robot', role: 'admin' });
  const key = await call(operator, 'POST', [...principals, requester, 'access-keys']);
  return { accessKeyId: key.accessKeyId, secretAccessKey: key.secretAccessKey };
}

async function setLimits(operator, set) {
  for (const account of accounts) {
    if (set) await call(operator, 'PUT', ['limits', account], set);
    else await call(operator, 'DELETE', ['limits', account]);
  }
}

async function call({ host, port, accessKeyId, secretAccessKey: secret }, method, path, body) {
  const text = body === undefined ? '' : JSON.stringify(body);
  const headers = { host: `${host}:${port}`, ...(text && { 'content-type': 'application/json' }) };
  const signed = signRequest({
    ...{ accessKeyId, secret, region: 'us-east-1', method, path: `/_/v1/${path.join('/')}` },
    ...{ query: [], headers, payloadHash: hash('sha256', text, 'hex'), timeMs: Date.now() },
  });
  const url = `http://${host}:${port}/_/v1/${path.map(encodeURIComponent).join('/')}`;
  const sent = { method, headers: { ...headers, ...signed }, body: text || undefined };
  const answer = await fetch(url, sent);
  const said = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path.join(' ')}: ${answer.status} ${said}`);
  return said && JSON.parse(said);
}

/** Rates with limits divided by those without; of neighbours, and the middle and the middle half. */
export function describeLimits(results) {
  return results
    .map(({ workload, free, limited }) => {
      const middle = (turns, name) => median(turns.map((turn) => turn[name]));
      const ratios = limited.map(({ perSecond }, i) => perSecond / free[i].perSecond);
      const ratio = median(ratios);
      const [low, high] = [0.25, 0.75].map((part) => quantile(ratios, part).toFixed(2));
      const rates = [free, limited].map((turns) => middle(turns, 'perSecond').toFixed(0));
      const cpu = [free, limited].map((turns) => middle(turns, 'cpuMs').toFixed(3));
      const verdict = ratio >= goal ? '' : `  BELOW the goal of ${goal}`;
      return (
        `${workload.padEnd(10)} ${ratio.toFixed(3)} (${low}–${high})  ` +
        `${rates[1]}/s with limits, ${rates[0]}/s without; ` +
        `CPU ms each ${cpu[1]}, ${cpu[0]}${verdict}`
      );
    })
    .join('\n');
}

function quantile(values, part) {
  return [...values].sort((a, b) => a - b)[Math.floor(part * (values.length - 1))];
}
