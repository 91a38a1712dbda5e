// How cost grows with the objects of a bucket and the records of the log: gateways whose folders
// have a thousand, ten thousand, … of both. What is stored above a thousand are copies, which share
// extents (openBulkLedger), so that the catalog grows and the disk is not filled with bodies.
import { cpSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { makeBucket } from '../control.mjs';
import { keyAt } from '../load.mjs';
import { count, number, table, times } from '../markdown.mjs';
import { pause, stopAll } from '../processes.mjs';
import { startGateway } from '../servers.mjs';
import { bucket, compareInTurns, sizeBytes, withLoadTool } from '../short-turns.mjs';
import { median, ratiosOf } from '../statistics.mjs';
import { openBulkLedger } from './bulk-ledger.mjs';

const fewest = 1000;
const connections = 4;
const keyPrefix = 'get';
const asksCount = 200;
const deletesCount = 300;

/**
 * @param {{dir: string, effort: {objects: number, growthRounds: number},
 *   say: (line: string) => void}} options `objects`: the most, a power of ten
 */
export function benchObjects({ dir, effort: { objects, growthRounds: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const sizes = [];
    for (let size = fewest; size <= objects; size *= 10) sizes.push(size);
    const folderOf = (size) => join(dir, String(size));
    await fillFirst(folderOf(fewest), tool);
    const addedUs = {};
    for (const [i, size] of sizes.slice(1).entries()) {
      const fewer = sizes[i];
      cpSync(folderOf(fewer), folderOf(size), { recursive: true });
      addedUs[size] = await addCopies(folderOf(size), { from: fewer, to: size });
      say(`objects: ${size} stored, ${number(addedUs[size])} µs each`);
    }
    const servers = {};
    for (const size of sizes) {
      servers[size] = await startGateway({ dir: folderOf(size) });
      pause(servers[size]);
    }
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    const states = sizes.map((size) => ({
      size,
      addedUs: addedUs[size],
      readyMs: servers[size].readyMs,
      databaseBytes: statSync(join(folderOf(size), 'bursar', 'bursar.db')).size,
    }));
    return { rounds, states, compared };
  });
}

async function fillFirst(dir, tool) {
  const { target } = await startGateway({ dir });
  await makeBucket(target, bucket);
  const plan = { target, bucket, keyPrefix, keyCount: fewest, sizeBytes };
  const filled = await tool.run({ ...plan, kind: 'fill', connections: 16 });
  if (filled.errors > 0) throw new Error(filled.firstError);
  await stopAll();
}

/** Gives how long the ledger took for each, microseconds. */
async function addCopies(dir, { from, to }) {
  const ledger = await openBulkLedger(join(dir, 'bursar'));
  const changes = await ledger.changesOf(bucket);
  const startMs = performance.now();
  await ledger.commit(to - from, (i) => changes.copyTo(keyAt(keyPrefix, from + i), i));
  const tookMs = performance.now() - startMs;
  await ledger.close();
  return (tookMs * 1000) / (to - from);
}

/** Numbers below `size` of the same length. */
function spreadOver(size) {
  return Array.from({ length: asksCount }, (_, i) =>
    Math.floor(size * (0.2 + (0.79 * i) / asksCount)),
  );
}

function askFor(size, requestAt) {
  return { kind: 'ask', paths: spreadOver(size).map(requestAt) };
}

const workloads = [
  {
    ...{ name: 'receipt', title: 'receipt of a record' },
    planFor: ({ server: size }) =>
      askFor(Number(size), (index) => ({ path: `/_/v1/receipts/${index}` })),
  },
  {
    ...{ name: 'search', title: 'search for the records of a key' },
    planFor: ({ server: size }) =>
      askFor(Number(size), (index) => ({
        path: '/_/v1/records',
        query: `prefix=${encodeURIComponent(keyAt(keyPrefix, index))}`,
      })),
  },
  { name: 'get', title: 'GET 4 KiB', kind: 'get' },
  { name: 'list', title: 'list 1,000 keys', kind: 'list' },
  { name: 'put', title: 'PUT 4 KiB', kind: 'put' },
  {
    ...{ name: 'delete', title: 'DELETE', kind: 'delete' },
    planFor: ({ round }) => ({ keyPrefix: `put-${round}`, keyCount: deletesCount }),
  },
].map((workload) => ({
  ...{ ...workload, connections },
  planFor: (at) => ({ keyCount: Number(at.server), ...workload.planFor?.(at) }),
}));

export function describeObjects({ rounds, states, compared }) {
  const [least] = states;
  const cells = (numberOf, show) =>
    states.map((state) => {
      const value = numberOf(state);
      return `${show(value)}, ${times(value / numberOf(least))}`;
    });
  const turnCells = ({ turns }) =>
    states.map(({ size }) => {
      const p50Ms = median(turns[size].map((turn) => turn.p50Ms));
      const cpuMs = median(turns[size].map((turn) => turn.cpuMs));
      const ratio = (of) => times(median(ratiosOf(turns[size], turns[least.size], of)));
      return `${number(p50Ms)} ms, ${ratio('p50Ms')}; CPU ${number(cpuMs)} ms, ${ratio('cpuMs')}`;
    });
  return [
    'Gateways on folders with so many objects in one bucket and as many records, over ' +
      `${connections}`,
    'connections: median latency and the CPU of a request, each with its ratio to the smallest',
    `folder’s, median of the ratios of neighbours in ${rounds} short turns. What is stored above`,
    `${count(fewest)} objects are copies, which share extents.`,
    '',
    ...table({
      head: ['', ...states.map(({ size }) => `${count(size)} objects`)],
      rows: [
        ...compared.map((one) => [one.title, ...turnCells(one)]),
        [
          'start until ready',
          ...cells(
            ({ readyMs }) => readyMs,
            (ms) => `${number(ms)} ms`,
          ),
        ],
        [
          'database',
          ...cells(
            ({ databaseBytes }) => databaseBytes,
            (n) => `${number(n / 1e6)} MB`,
          ),
        ],
        [
          'the ledger’s work for a copy, up to here, no fsync',
          ...states.map(({ addedUs }) => (addedUs ? `${number(addedUs)} µs` : '–')),
        ],
      ],
    }),
  ];
}
