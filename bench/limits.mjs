// What limits cost. Two gateways: one without limits, and one with limits of all kinds on every
// account that a request is charged to, wide enough never to refuse: requester, requester's tenant,
// bucket, bucket's owner, and a prefix of the key. Small GETs and PUTs, by short turns.
import { callNative } from './control.mjs';
import { pause } from './processes.mjs';
import { startGateway } from './servers.mjs';
import {
  bucket,
  compareInTurns,
  describeRatios,
  explainTurns,
  goalsOfTurns,
  smallWorkload,
  storeSmallObjects,
  withLoadTool,
} from './short-turns.mjs';

/** The least share of the throughput without limits that limits must leave. */
const goal = 0.95;
const requester = 'reader';
const accounts = [
  'tenant:default',
  `principal:default/${requester}`,
  'principal:default/admin',
  `bucket:default/${bucket}`,
  // Of what is read, and of what is written.
  ...['g', 'p'].map((prefix) => `prefix:default/${bucket}/${prefix}`),
];
const count = { hour: 1e15, day: 1e15, month: 1e15, total: 1e15 };
const money = { day: '9000000', month: '9000000', total: '9000000' };
const limits = {
  ...{ spend: money, requests: count, ingressBytes: count, egressBytes: count },
  ...{ storedBytes: { total: 1e15 }, storedObjects: { total: 1e15 } },
};
const workloads = ['get', 'put'].flatMap((kind) => [1, 32].map((c) => smallWorkload(kind, c)));

/** @param {{dir: string, effort: {pairs: number}, say: (line: string) => void}} options */
export function benchLimits({ dir, effort: { pairs: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const servers = {
      limited: await startFilled({ dir: `${dir}/limited`, set: limits, tool }),
      free: await startFilled({ dir: `${dir}/free`, set: null, tool }),
    };
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, compared };
  });
}

async function startFilled({ dir, set, tool }) {
  const server = await startGateway({ dir });
  const operator = server.target;
  await storeSmallObjects(operator, tool);
  const target = { ...operator, ...(await makeRequester(operator)) };
  for (const account of set ? accounts : [])
    await callNative(operator, 'PUT', ['limits', account], set);
  pause(server);
  return { ...server, target };
}

/** Another principal than the bucket's owner, so that all of these accounts are concerned. */
async function makeRequester(operator) {
  const principals = ['tenants', 'default', 'principals'];
  await callNative(operator, 'POST', principals, { name: requester, kind: 'robot', role: 'admin' });
  const key = await callNative(operator, 'POST', [...principals, requester, 'access-keys']);
  return { accessKeyId: key.accessKeyId, secretAccessKey: key.secretAccessKey };
}

const sides = { ours: 'limited', other: 'free', goal };

export const goalsOfLimits = ({ compared }) => goalsOfTurns(compared, sides);

export function describeLimits({ rounds, compared }) {
  return [
    'A gateway with limits on all meters in all windows of the five accounts that a request ' +
      'is charged',
    'to (requester, tenant, bucket, owner, prefix), wide enough never to refuse, beside one ' +
      'without limits.',
    explainTurns(rounds),
    '',
    ...describeRatios(compared, sides),
  ];
}
