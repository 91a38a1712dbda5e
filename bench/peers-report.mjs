// The gateway beside its peers: what was measured in turns (peers.mjs), as ratios and tables.
import { count, number, spread, table } from './markdown.mjs';
import { median } from './statistics.mjs';
import { workloadsOf } from './workloads.mjs';

/**
 * @typedef {object} Measurement one workload on one server in one round
 * @property {string} workload
 * @property {string} server
 * @property {number} round
 * @property {number} perSecond
 * @property {number} bytesPerSecond
 * @property {number} p50Ms
 * @property {number} p99Ms
 * @property {number} errors
 * @property {number} loadCpuShare of one core
 * @property {number} serverCpuMs for each request
 * @property {number} [backendCpuMs] for each request, of the server behind this one
 * @property {number} peakBytes
 */

/**
 * @typedef {object} Path
 * @property {'embedded' | 's3'} name
 * @property {{name: string, version: string}[]} servers
 * @property {string[]} missing peers that were not found
 * @property {{rounds: number, seconds: number, listKeys: number}} effort
 * @property {Measurement[]} measurements
 */

const introductions = {
  embedded: [
    'Bursar with its defaults, everything in its data folder, beside other servers with theirs.',
    'Bursar answers a PUT after its bytes, its charge and its audit record are on disk (fsync);',
    'a GET is verified chunk by chunk, charged and recorded. versitygw does not fsync; it runs',
    'with --keep-alive and --quiet, which are faster than its defaults.',
  ],
  s3: [
    'One backend for all, versitygw on a local folder. `direct` is that backend itself. `bursar`',
    'keeps its extents in it (`--store s3://…`) and its catalog in its data folder.',
    '`versitygw-proxy` is versitygw’s s3 mode in front of it, with --disable-checksum and',
    '--disable-data-integrity-check: it is faster so, and over plain HTTP cannot store otherwise.',
    'The backend, the gateway and the load tool share the cores, so whatever CPU a gateway uses',
    'the backend has not. Bursar answers a PUT after the backend has taken its bytes and its',
    'charge and audit record are on disk (fsync); a GET is verified chunk by chunk, charged and',
    'recorded. The backend does not fsync; the proxy neither records nor verifies.',
  ],
};

/** One row per workload and server: the median of each number over the rounds. */
export function summarize(measurements) {
  const groups = new Map();
  for (const one of measurements) {
    const key = `${one.workload} ${one.server}`;
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()].map((rounds) => {
    const middle = (name) => median(rounds.map((round) => round[name]));
    return {
      workload: rounds[0].workload,
      server: rounds[0].server,
      rounds: rounds.length,
      perSecond: middle('perSecond'),
      bytesPerSecond: middle('bytesPerSecond'),
      p50Ms: middle('p50Ms'),
      p99Ms: middle('p99Ms'),
      errors: rounds.reduce((sum, round) => sum + round.errors, 0),
      loadCpuShare: middle('loadCpuShare'),
      serverCpuMs: middle('serverCpuMs'),
      backendCpuMs: rounds[0].backendCpuMs === undefined ? undefined : middle('backendCpuMs'),
      peakBytes: Math.max(...rounds.map((round) => round.peakBytes)),
    };
  });
}

/**
 * A number of the gateway divided by the peer's, round by round: neighbours in time are compared,
 * so that a slow minute of the machine falls on both.
 */
export function ratioOf(measurements, { workload, peer, of }) {
  const roundsOf = (server) =>
    measurements.filter((one) => one.workload === workload && one.server === server);
  const ratios = roundsOf('bursar').flatMap((ours) => {
    const theirs = roundsOf(peer).find(({ round }) => round === ours.round);
    return theirs ? [ours[of] / theirs[of]] : [];
  });
  if (ratios.length === 0) return undefined;
  return { median: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) };
}

/** How it was measured. */
function explainRounds(name, { rounds, seconds, listKeys }) {
  return [
    'All servers run on the same machine and disk, each on a fresh data folder, and are driven by',
    'the same load tool with the same signed requests over loopback. They take turns',
    `(${rounds} ${rounds === 1 ? 'round' : 'rounds'} of ${seconds} s each); the others are paused`,
    'meanwhile, and the disk is synced before each turn; each was warmed up first. Numbers are',
    'medians of the rounds; ratios are medians of the ratios within a round, with the lowest and',
    'highest in brackets. Each GET is checked for its status and length, a sample of them by ' +
      'digest.',
    ...(name === 'embedded' ? [`Listings ask for 1,000 of ${count(listKeys)} keys.`] : []),
  ];
}

/** @param {Path} path */
export function describePath({ name, servers, missing, measurements, effort }) {
  const rows = summarize(measurements);
  const ran = workloadsOf[name].filter((workload) =>
    rows.some((row) => row.workload === workload.name),
  );
  const peers = servers.map((server) => server.name).filter((server) => server !== 'bursar');
  const comparable = peers.length > 0 && peers.length < servers.length;
  return [
    ...[...introductions[name], '', ...explainRounds(name, effort), ''],
    ...missing.flatMap((peer) => [`NOT MEASURED: ${peer}, which was not found.`, '']),
    ...(comparable ? ratioTable({ measurements, workloads: ran, peers }) : []),
    ...(comparable ? latencyTable({ measurements, rows, workloads: ran }) : []),
    ...rawTable({ rows, workloads: ran }),
  ];
}

/**
 * The goals of the workloads beside the peers that ran.
 * @param {Path} path
 * @returns {import('./summary.mjs').Goal[]}
 */
export function goalsOfPath({ name, measurements }) {
  return workloadsOf[name].flatMap(({ name: workload, title, goal }) =>
    Object.entries(goal).flatMap(([peer, least]) => {
      const ratio = ratioOf(measurements, { workload, peer, of: 'perSecond' });
      return ratio
        ? [{ title, beside: peer, least, ratio: ratio.median, text: spread(ratio) }]
        : [];
    }),
  );
}

function ratioTable({ measurements, workloads, peers }) {
  const cell = ({ name, goal }, peer) => {
    const ratio = ratioOf(measurements, { workload: name, peer, of: 'perSecond' });
    if (!ratio) return '–';
    return `${spread(ratio)}${goal[peer] === undefined ? '' : `, goal ${goal[peer]}×`}`;
  };
  return titled('Throughput of Bursar divided by the peer’s', {
    head: ['Workload', ...peers.map((peer) => `against ${peer}`)],
    rows: workloads.map((workload) => [
      workload.title,
      ...peers.map((peer) => cell(workload, peer)),
    ]),
  });
}

/** The workloads whose goal is a latency; nothing if there are none. */
function latencyTable({ measurements, rows, workloads }) {
  const lines = workloads.flatMap(({ name, title, p50Goal }) => {
    if (p50Goal === undefined) return [];
    const { peer, ratio, plusMs } = p50Goal;
    const ratioSeen = ratioOf(measurements, { workload: name, peer, of: 'p50Ms' });
    if (!ratioSeen) return [];
    const p50Ms = (server) =>
      rows.find((row) => row.workload === name && row.server === server).p50Ms;
    const goalMs = ratio * p50Ms(peer) + plusMs;
    const goal = `at most ${ratio}× + ${plusMs} ms = ${number(goalMs)} ms`;
    return [[title, peer, `**${number(p50Ms('bursar'))}**`, spread(ratioSeen), goal]];
  });
  if (lines.length === 0) return [];
  return titled('Median latency of Bursar beside the peer’s', {
    head: ['Workload', 'Peer', 'Bursar’s p50 ms', 'divided by the peer’s', 'goal'],
    rows: lines,
  });
}

function rawTable({ rows, workloads }) {
  const withBackend = rows.some(({ backendCpuMs }) => backendCpuMs !== undefined);
  const lines = workloads.flatMap(({ name, title }) =>
    rows
      .filter(({ workload }) => workload === name)
      .map((row) => [
        title,
        row.server,
        number(row.perSecond),
        number(row.bytesPerSecond / 1e6),
        number(row.p50Ms),
        number(row.p99Ms),
        number(row.serverCpuMs),
        ...(withBackend ? [row.backendCpuMs === undefined ? '–' : number(row.backendCpuMs)] : []),
        `${Math.round(row.loadCpuShare * 100)}%`,
        number(row.peakBytes / 1e6),
        String(row.errors),
      ]),
  );
  const head = [
    ...['Workload', 'Server', 'requests/s', 'MB/s', 'p50 ms', 'p99 ms', 'server CPU ms/request'],
    ...(withBackend ? ['backend CPU ms/request'] : []),
    ...['load tool CPU', 'peak RSS MB', 'errors'],
  ];
  return titled('Raw numbers', { head, rows: lines });
}

function titled(title, content) {
  return [`### ${title}`, '', ...table(content)];
}
