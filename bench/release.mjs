// The gateway of this tree beside another build of it, such as a release that is checked out and
// built elsewhere: small requests on a local disk, by short turns in one run, so that what a change
// costs is told from how the machine is today.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pause, settle, stopAll } from './processes.mjs';
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
/**
 * Two starts of the same build differ by up to a tenth (how its code was compiled, where its files
 * are), which no number of turns of one start tells apart from what a change costs.
 */
const startsMax = 6;
const workloads = ['get', 'put'].flatMap((kind) => [1, 32].map((c) => smallWorkload(kind, c)));

/**
 * @param {{dir: string, effort: {pairs: number}, choice: {beside: string},
 *   say: (line: string) => void}} options `beside`: a built tree
 */
export function benchRelease({ dir, effort: { pairs }, choice: { beside }, say }) {
  const count = Math.min(startsMax, pairs);
  const rounds = Math.ceil(pairs / count);
  return withLoadTool(async (tool) => {
    const starts = [];
    for (let i = 0; i < count; i++) {
      const at = join(dir, `start-${i}`);
      const servers = {
        ours: await startFilled({ dir: join(at, 'ours'), tool }),
        other: await startFilled({ dir: join(at, 'other'), tree: resolve(beside), tool }),
      };
      const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
      starts.push({ compared, versions: Object.values(servers).map(({ version }) => version) });
      await stopAll();
    }
    const compared = joinTurns(starts.map((start) => start.compared));
    return { rounds: rounds * count, starts: count, compared, versions: starts[0].versions };
  });
}

/** Of each workload the turns of all starts. */
function joinTurns(starts) {
  const turnsOf = (i, side) => starts.flatMap((compared) => compared[i].turns[side]);
  return starts[0].map((one, i) => ({
    ...one,
    turns: { ours: turnsOf(i, 'ours'), other: turnsOf(i, 'other') },
  }));
}

async function startFilled({ dir, tree, tool }) {
  mkdirSync(dir, { recursive: true });
  const server = await startGateway({ dir, tree });
  await storeSmallObjects(server.target, tool);
  await settle(server);
  pause(server);
  return server;
}

const sides = { ours: 'ours', other: 'other', goal };

export const goalsOfRelease = ({ compared }) => goalsOfTurns(compared, sides);

export function describeRelease({ rounds, starts, compared, versions: [ours, other] }) {
  return [
    `This tree (\`ours\`, ${ours}) beside another build (\`other\`, ${other}).`,
    `${starts} starts of both, on new folders; in all ${explainTurns(rounds)}`,
    '',
    ...describeRatios(compared, sides),
  ];
}
