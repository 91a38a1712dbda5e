// What the audit log's tree costs. Two gateways, each on a folder of its own: one as it is, and one
// whose records have no tree above them (without-tree/). Small GETs and PUTs, by short turns.
import { pause } from './processes.mjs';
import { startGateway } from './servers.mjs';
import {
  compareInTurns,
  describeRatios,
  explainTurns,
  keyCount,
  smallWorkload,
  storeSmallObjects,
  withLoadTool,
} from './short-turns.mjs';

/** The least share of the throughput without a tree that it must leave. */
const goal = 0.9;
const preload = new URL('./without-tree/preload.mjs', import.meta.url).href;
const workloads = ['get', 'put'].flatMap((kind) => [1, 32].map((c) => smallWorkload(kind, c)));

/** @param {{dir: string, effort: {pairs: number}, say: (line: string) => void}} options */
export function benchLog({ dir, effort: { pairs: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const servers = {
      tree: await startFilled({ dir: `${dir}/tree`, hasTree: true, tool }),
      plain: await startFilled({ dir: `${dir}/plain`, hasTree: false, tool }),
    };
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, compared };
  });
}

async function startFilled({ dir, hasTree, tool }) {
  const nodeArgs = hasTree ? [] : ['--import', preload];
  const server = await startGateway({ dir, nodeArgs });
  await storeSmallObjects(server.target, tool);
  const size = await signedSize(server.target);
  if (size >= keyCount !== hasTree) throw new Error(`${dir}: ${size} records are signed for`);
  pause(server);
  return server;
}

/** So that a gateway without a tree is one. */
async function signedSize({ host, port }) {
  const note = await (await fetch(`http://${host}:${port}/_/log/checkpoint`)).text();
  return Number(note.split('\n')[1]);
}

export function describeLog({ rounds, compared }) {
  return [
    'The gateway as it is beside one whose records have no tree above them: no salt, ' +
      'commitment, leaf,',
    'tile or signature. The second is made by replacing two modules as it loads',
    `(\`bench/without-tree/\`). ${explainTurns(rounds)}`,
    '',
    ...describeRatios(compared, { ours: 'tree', other: 'plain', goal }),
  ];
}
