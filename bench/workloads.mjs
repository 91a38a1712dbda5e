// What is measured on each path. Goals are the gateway's, on two cores: `goal` is the least ratio
// of its throughput to a peer's, `p50Goal` the longest latency of a request, relative to a peer's.

const KiB = 1024;
const MiB = 1024 * KiB;

/**
 * @typedef {object} Workload
 * @property {string} name
 * @property {string} title
 * @property {'put' | 'get' | 'list'} kind
 * @property {string} bucket
 * @property {string} keyPrefix
 * @property {number} sizeBytes
 * @property {number} connections
 * @property {Record<string, number>} goal by peer
 * @property {{peer: string, ratio: number, plusMs: number}} [p50Goal] at most ratio × the peer's
 *   median latency, and plusMs more
 */

const list = {
  name: 'list-1000',
  title: 'list 1,000 keys, 4 connections',
  kind: 'list',
  bucket: 'bench-list',
  keyPrefix: 'list',
  sizeBytes: 16,
  connections: 4,
  goal: { versitygw: 1.5 },
};

/** @type {Record<'embedded' | 's3', Workload[]>} */
export const workloadsOf = {
  embedded: [
    small('put', 1, { versitygw: 0.8 }),
    small('put', 32, { versitygw: 3 }),
    small('get', 1, { versitygw: 1.5 }),
    small('get', 32, { versitygw: 1.5 }),
    large('put', { versitygw: 1 }),
    large('get', { versitygw: 1.2 }),
    list,
  ],
  s3: [
    small('put', 1, { 'versitygw-proxy': 0.9 }),
    small('put', 32, { 'versitygw-proxy': 1.3 }),
    {
      ...small('get', 1, { 'versitygw-proxy': 0.9 }),
      p50Goal: { peer: 'direct', ratio: 1.5, plusMs: 1 },
    },
    small('get', 32, { 'versitygw-proxy': 1.3 }),
    large('put', { 'versitygw-proxy': 1 }),
    large('get', { direct: 0.5, 'versitygw-proxy': 1.2 }),
  ],
};

function small(kind, connections, goal) {
  return {
    name: `${kind}-4k-c${connections}`,
    title:
      `${kind.toUpperCase()} 4 KiB, ${connections} ` +
      `${connections === 1 ? 'connection' : 'connections'}`,
    kind,
    bucket: 'bench-small',
    keyPrefix: `${kind}-c${connections}`,
    sizeBytes: 4 * KiB,
    connections,
    goal,
  };
}

function large(kind, goal) {
  return {
    name: `${kind}-16m-c4`,
    title: `${kind.toUpperCase()} 16 MiB, 4 connections`,
    kind,
    bucket: 'bench-large',
    keyPrefix: `${kind}-16m`,
    sizeBytes: 16 * MiB,
    connections: 4,
    goal,
  };
}

/** Objects that must be there before the workload runs; 0 for PUTs. */
export function keyCountOf(workload, listKeys) {
  if (workload.kind === 'put') return 0;
  if (workload.kind === 'list') return listKeys;
  return workload.sizeBytes > MiB ? 8 : 2000;
}
