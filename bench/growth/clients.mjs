// How cost grows with clients: one gateway, small GETs and PUTs over 1 to 256 connections.
import { number, table, times } from '../markdown.mjs';
import { pause } from '../processes.mjs';
import { startGateway } from '../servers.mjs';
import { compareInTurns, storeSmallObjects, withLoadTool } from '../short-turns.mjs';
import { median, ratiosOf } from '../statistics.mjs';

const clients = [1, 4, 16, 64, 256];

/** @param {{dir: string, effort: {growthRounds: number}, say: (line: string) => void}} options */
export function benchClients({ dir, effort: { growthRounds: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const server = await startGateway({ dir });
    await storeSmallObjects(server.target, tool);
    pause(server);
    // One gateway for all: what differs is how many ask it at a time.
    const servers = Object.fromEntries(clients.map((connections) => [connections, server]));
    const workloads = ['get', 'put'].map((kind) => ({
      ...{ name: `${kind}-4k`, title: `${kind.toUpperCase()} 4 KiB`, kind },
      planFor: ({ server: connections, round }) => ({
        connections: Number(connections),
        ...(kind === 'put' && { keyPrefix: `put-${round}-of-${connections.padStart(3, '0')}` }),
      }),
    }));
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, compared };
  });
}

export function describeClients({ rounds, compared }) {
  const [least] = clients;
  const rowOf = ({ title, turns }, connections) => {
    const middle = (of) => number(median(turns[connections].map((turn) => turn[of])));
    const ratio = times(median(ratiosOf(turns[connections], turns[least], 'perSecond')));
    const latencies = [middle('p50Ms'), middle('p99Ms'), middle('cpuMs')];
    return [title, String(connections), middle('perSecond'), ratio, ...latencies];
  };
  return [
    `One gateway and so many connections, each with one request at a time, in ${rounds} ` +
      'short turns of',
    'each; throughput is divided by that of one connection.',
    '',
    ...table({
      head: ['', 'clients', 'requests/s', 'ratio', 'p50 ms', 'p99 ms', 'CPU ms a request'],
      rows: compared.flatMap((one) => clients.map((connections) => rowOf(one, connections))),
    }),
  ];
}
