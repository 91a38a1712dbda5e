// The gateway of this tree beside another build of it, such as a release that is checked out and
// built elsewhere: small requests on a local disk, by short turns in one run, so that what a change
// costs is told from how the machine is today.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pause, settle } from './processes.mjs';
import { startGateway } from './servers.mjs';
import {
  compareInTurns,
  describeRatios,
  explainTurns,
  goalsOfTurns,
  smallWorkload,
  storeSmallObjects,
  withLoadTool,
} from './short-turns.mjs';

/** The least share of the other's throughput. */
const goal = 0.98;
const workloads = ['get', 'put'].flatMap((kind) => [1, 32].map((c) => smallWorkload(kind, c)));

/**
 * @param {{dir: string, effort: {pairs: number}, choice: {beside: string},
 *   say: (line: string) => void}} options `beside`: a built tree
 */
export function benchRelease({ dir, effort: { pairs: rounds }, choice: { beside }, say }) {
  return withLoadTool(async (tool) => {
    const servers = {
      ours: await startFilled({ dir: join(dir, 'ours'), tool }),
      other: await startFilled({ dir: join(dir, 'other'), tree: resolve(beside), tool }),
    };
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, compared, servers: Object.values(servers) };
  });
}

async function startFilled({ dir, tree, tool }) {
  mkdirSync(dir);
  const server = await startGateway({ dir, tree });
  await storeSmallObjects(server.target, tool);
  await settle(server);
  pause(server);
  return server;
}

const sides = { ours: 'ours', other: 'other', goal };

export const goalsOfRelease = ({ compared }) => goalsOfTurns(compared, sides);

export function describeRelease({ rounds, compared, servers: [ours, other] }) {
  return [
    `This tree (\`ours\`, ${ours.version}) beside another build (\`other\`, ${other.version}).`,
    explainTurns(rounds),
    '',
    ...describeRatios(compared, sides),
  ];
}
