// How throughput grows with the threads that take connections, and how it would on more cores than
// are here: by the processor time that each kind of thread uses for a request, the busiest thread
// or the cores are what ends first.
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { number, table, times } from '../markdown.mjs';
import { pause, residentBytesOf, settle } from '../processes.mjs';
import { startGateway } from '../servers.mjs';
import {
  compareInTurns,
  explainTurns,
  smallWorkload,
  storeSmallObjects,
  withLoadTool,
} from '../short-turns.mjs';
import { median, ratiosOf } from '../statistics.mjs';

const counts = [1, 2, 4];
/** As many as there are cores here, since threads that wait for one cost more. */
const fitting = counts.findLast((count) => count <= availableParallelism()) ?? 1;
/** What the model says something of. */
const modelled = { cores: 16, threads: 8 };
const connections = 32;
const MiB = 1024 * 1024;

/** @param {{dir: string, effort: {growthRounds: number}, say: (line: string) => void}} options */
export function benchThreads({ dir, effort: { growthRounds: rounds }, say }) {
  return withLoadTool(async (tool) => {
    const servers = {};
    for (const count of counts) {
      const own = join(dir, `threads-${count}`);
      mkdirSync(own);
      const server = await startGateway({ dir: own, args: ['--http-threads', String(count)] });
      await storeSmallObjects(server.target, tool);
      await settle(server);
      pause(server);
      servers[count] = server;
    }
    const workloads = ['get', 'put'].map((kind) => smallWorkload(kind, connections));
    const compared = await compareInTurns(servers, { workloads, rounds, tool, say });
    const residentBytes = counts.map((count) => residentBytesOf(servers[count].pid));
    return { rounds, compared, residentBytes };
  });
}

export function describeThreads({ rounds, compared, residentBytes }) {
  const [least] = counts;
  const middle = (turns, of) => median(turns.map((turn) => turn[of]));
  const rowsOf = ({ title, turns }) =>
    counts.map((count) => {
      const own = turns[count];
      const ratio = median(ratiosOf(own, turns[least], 'perSecond'));
      const { connection, ledger, digest, others } = usePerRequest(own);
      const used = [connection, ledger, digest + others].map((ms) => number(ms * 1000));
      return [title, String(count), number(middle(own, 'perSecond')), times(ratio), ...used];
    });
  const [one, , four] = residentBytes;
  const resident = residentBytes.map((bytes) => number(bytes / MiB)).join(', ');
  const each = number((four - one) / MiB / (counts[2] - counts[0]));
  return [
    `Gateways with ${counts.join(', ')} HTTP threads over ${connections} connections. `,
    explainTurns(rounds),
    '',
    ...table({
      head: [
        ...['', 'threads', 'requests/s', 'ratio', 'µs of HTTP threads a request'],
        ...['of the ledger’s', 'of all others'],
      ],
      rows: compared.flatMap(rowsOf),
    }),
    `After that the gateways have ${resident} MiB in memory: ${each} for each more thread.`,
    '',
    `On ${modelled.cores} cores with ${modelled.threads} threads, if a request costs there what ` +
      `it costs here with ${fitting}, at most:`,
    '',
    ...table({
      head: ['', 'requests/s', 'what ends first', 'ceiling of the ledger, requests/s'],
      rows: compared.map(({ title, turns }) => [title, ...modelOf(usePerRequest(turns[fitting]))]),
    }),
  ];
}

/** Milliseconds of processor time, by kind of thread: medians. */
function usePerRequest(turns) {
  const of = (pick) => median(turns.map(({ byThread }) => pick(byThread)));
  const named = (name) => of((byThread) => byThread[name] ?? 0);
  const connection = of(({ MainThread = 0, http = 0 }) => MainThread + http);
  const [ledger, digest] = [named('ledger'), named('digest')];
  const others = of((byThread) =>
    Object.entries(byThread).reduce((sum, [name, ms]) => sum + (known.has(name) ? 0 : ms), 0),
  );
  return { connection, ledger, digest, others };
}

const known = new Set(['MainThread', 'http', 'ledger', 'digest']);

function modelOf({ connection, ledger, digest, others }) {
  const { cores, threads } = modelled;
  const ends = {
    'the cores': (cores * 1000) / (connection + ledger + digest + others),
    'the HTTP threads': (threads * 1000) / connection,
    'the ledger’s thread': 1000 / ledger,
  };
  const [[what, perSecond]] = Object.entries(ends).sort(([, a], [, b]) => a - b);
  return [number(perSecond), what, number(ends['the ledger’s thread'])];
}
