// What encryption at rest costs. Two gateways on a local disk: one as it is by default, and one
// with `--encryption off`, by short turns. Objects that are read again and again are not given out
// of memory, or no small GET would be decrypted.
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

/** The least share of the throughput without encryption that it must leave. */
const goal = 0.9;
const largeBytes = 16 * 1024 * 1024;
const largeKeys = { keyPrefix: 'large', keyCount: 8, sizeBytes: largeBytes };

function largeWorkload(kind, connections) {
  const over = `${connections} ${connections === 1 ? 'connection' : 'connections'}`;
  return {
    ...{ name: `${kind}-16m-c${connections}`, title: `${kind.toUpperCase()} 16 MiB, ${over}` },
    ...{ kind, connections, seconds: 1.5, warmupSeconds: 0.3, sizeBytes: largeBytes },
    ...(kind === 'get' && largeKeys),
  };
}

const workloads = ['get', 'put'].flatMap((kind) => [
  ...[1, 32].map((connections) => smallWorkload(kind, connections)),
  ...[1, 4].map((connections) => largeWorkload(kind, connections)),
]);

/** @param {{dir: string, effort: {pairs: number}, say: (line: string) => void}} options */
export function benchEncryption({ dir, effort: { pairs: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const servers = {
      encrypted: await startFilled({ dir: `${dir}/encrypted`, encryption: 'on', tool }),
      plain: await startFilled({ dir: `${dir}/plain`, encryption: 'off', tool }),
    };
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, compared };
  });
}

async function startFilled({ dir, encryption, tool }) {
  const args = ['--encryption', encryption, '--object-memory', '0'];
  const server = await startGateway({ dir, args });
  const { target } = server;
  await storeSmallObjects(target, tool);
  const filled = await tool.run({ target, bucket, ...largeKeys, kind: 'fill', connections: 4 });
  if (filled.errors > 0) throw new Error(filled.firstError);
  pause(server);
  return server;
}

const sides = { ours: 'encrypted', other: 'plain', goal };

export const goalsOfEncryption = ({ compared }) => goalsOfTurns(compared, sides);

export function describeEncryption({ rounds, compared }) {
  return [
    'A gateway as it is by default beside one with `--encryption off`, both without memory for',
    'small objects, so that each GET is read from where it is stored and decrypted.',
    explainTurns(rounds).replace('(0.3 s)', '(0.3 s, of 16 MiB 1.5 s)'),
    '',
    ...describeRatios(compared, sides),
  ];
}
