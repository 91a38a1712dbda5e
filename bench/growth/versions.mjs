// How cost grows with the versions of one key: buckets with versioning, each with a key of so many.
// Changes are timed in the ledger's code alone, one that adds a version and one that ends it in
// turn, so that there are as many all the time.
import { join } from 'node:path';
import { makeBucket } from '../control.mjs';
import { keyAt } from '../load.mjs';
import { count, number, table, times } from '../markdown.mjs';
import { pause, stopAll } from '../processes.mjs';
import { startGateway } from '../servers.mjs';
import { compareInTurns, sizeBytes, withLoadTool } from '../short-turns.mjs';
import { median, ratiosOf } from '../statistics.mjs';
import { openBulkLedger } from './bulk-ledger.mjs';

const sizes = [1, 100, 10_000, 100_000];
const changesCount = 200;
const key = keyAt('versions', 0);
const bucketOf = (size) => `versions-${size}`;

/**
 * @param {{dir: string, effort: {versions: number, growthRounds: number},
 *   say: (line: string) => void}} options `versions`: the most
 */
export function benchVersions({ dir, effort: { versions, growthRounds: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const measured = sizes.filter((size) => size <= versions);
    const { target } = await startGateway({ dir });
    for (const size of measured) {
      await makeBucket(target, bucketOf(size));
      const plan = { target, bucket: bucketOf(size), keyPrefix: 'source', keyCount: 1, sizeBytes };
      await tool.run({ ...plan, kind: 'fill', connections: 1 });
    }
    await stopAll();
    const ledger = await openBulkLedger(join(dir, 'bursar'));
    const states = [];
    for (const size of measured) states.push(await fill(ledger, size));
    await timeChanges(ledger, states);
    await ledger.close();
    say(`versions: ${measured.join(', ')} of a key stored`);
    const server = await startGateway({ dir });
    pause(server);
    const servers = Object.fromEntries(measured.map((size) => [size, server]));
    const workloads = workloadsOf(states);
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    return { rounds, states, compared };
  });
}

async function fill(ledger, size) {
  const changes = await ledger.changesOf(bucketOf(size));
  await ledger.commit(1, () => changes.enableVersioning());
  await ledger.commit(size, () => changes.copyTo(key));
  const { oldest } = await changes.versionIds(key);
  return { size, oldest, changes };
}

/** Adds to each state how long adding a version to so many and ending it take, microseconds. */
async function timeChanges(ledger, states) {
  const addedMs = states.map(() => []);
  const endedMs = states.map(() => []);
  for (let round = 0; round < changesCount; round++) {
    for (const [i, { changes }] of states.entries()) {
      addedMs[i].push(...(await ledger.commit(1, () => changes.copyTo(key))));
      const { newest } = await changes.versionIds(key);
      endedMs[i].push(...(await ledger.commit(1, () => changes.end(key, newest))));
    }
  }
  for (const [i, state] of states.entries()) {
    state.addedUs = median(addedMs[i]) * 1000;
    state.endedUs = median(endedMs[i]) * 1000;
    // Closed with the ledger.
    delete state.changes;
  }
}

/** The buckets differ, not the servers. */
function workloadsOf(states) {
  const oldestOf = Object.fromEntries(states.map(({ size, oldest }) => [size, oldest]));
  const ask = (name, title, requestOf) => ({
    ...{ name, title, kind: 'ask', connections: 4 },
    planFor: ({ server: size }) => ({ paths: [requestOf(size)] }),
  });
  const object = (size) => `/${bucketOf(size)}/${key}`;
  return [
    ask('current', 'GET 4 KiB, the current version', (size) => ({ path: object(size) })),
    ask('oldest', 'GET 4 KiB, the oldest version', (size) => ({
      ...{ path: object(size), query: `versionId=${oldestOf[size]}` },
    })),
    ask('list', 'list keys', (size) => ({ path: `/${bucketOf(size)}`, query: 'list-type=2' })),
    ask('list-versions', 'list versions, 1,000 at most', (size) => ({
      ...{ path: `/${bucketOf(size)}`, query: 'versions=' },
    })),
  ];
}

export function describeVersions({ rounds, states, compared }) {
  const [least] = states;
  const turnCells = ({ turns }) =>
    states.map(({ size }) => {
      const p50Ms = median(turns[size].map((turn) => turn.p50Ms));
      const ratios = ratiosOf(turns[size], turns[least.size], 'p50Ms');
      return `${number(p50Ms)} ms, ${times(median(ratios))}`;
    });
  const stateCells = (of) =>
    states.map((state) => `${number(state[of])} µs, ${times(state[of] / least[of])}`);
  return [
    'Buckets with versioning, each with a key of so many versions: median latency over 4 ' +
      'connections,',
    `with the median of the ratios to the fewest versions in ${rounds} short turns. Changes ` +
      'are timed',
    'in the ledger’s code alone, without HTTP and fsync.',
    '',
    ...table({
      head: [
        '',
        ...states.map(({ size }) => `${count(size)} ${size === 1 ? 'version' : 'versions'}`),
      ],
      rows: [
        ...compared.map((one) => [one.title, ...turnCells(one)]),
        ['add a version', ...stateCells('addedUs')],
        ['end the newest version', ...stateCells('endedUs')],
      ],
    }),
  ];
}
