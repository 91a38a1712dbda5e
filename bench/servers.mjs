// Starts the servers that are compared, each on a fresh data folder and a free loopback port, and
// reads from /proc what they use. Only processes started here are ever signalled.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { delimiter, join, resolve } from 'node:path';
import { send } from './control.mjs';

const accessKeyId = 'BURSARBENCHACCESSKEY';
const secretAccessKey = 'bench-secret-0123456789-abcdefghijklmnop';
const startMsMax = 60_000;
const gatewayMain = resolve(import.meta.dirname, '../dist/cli/main.js');

/**
 * @typedef {object} Server
 * @property {string} name
 * @property {string} version
 * @property {import('./signing.mjs').Target} target
 * @property {number} pid
 * @property {() => Promise<void>} stop
 */

/** The peers whose binaries are found, as `{name, path}`. */
export function findPeers() {
  return [
    { name: 'versitygw', path: process.env.VERSITYGW || onPath('versitygw') },
    { name: 'minio', path: process.env.MINIO || onPath('minio') },
  ].filter(({ path }) => path);
}

function onPath(command) {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return join(folder, command);
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/** @returns {Promise<Server>} */
export async function startGateway({ dir, profileDir }) {
  const nodeArgs = profileDir ? ['--cpu-prof', `--cpu-prof-dir=${resolve(profileDir)}`] : [];
  const port = await freePort();
  return start({
    name: 'bursar',
    version: gatewayVersion(),
    port,
    command: process.execPath,
    args: [
      ...[...nodeArgs, gatewayMain, 'serve'],
      ...['--data', join(dir, 'bursar'), '--listen', `127.0.0.1:${port}`],
    ],
    env: { BURSAR_ROOT_ACCESS_KEY: accessKeyId, BURSAR_ROOT_SECRET_KEY: secretAccessKey },
  });
}

/** @returns {Promise<Server>} */
export async function startPeer({ name, path, dir }) {
  const port = await freePort();
  const data = join(dir, name, 'data');
  mkdirSync(data, { recursive: true });
  if (name === 'versitygw') {
    const versions = join(dir, name, 'versions');
    mkdirSync(versions);
    return start({
      name,
      version: firstMatch(path, /Version\s*:\s*(\S+)/) ?? moduleVersion(path) ?? 'unknown',
      port,
      command: path,
      // Its default closes each connection after one request and prints each request; neither is
      // what is to be compared.
      args: [
        ...['--keep-alive', '--quiet', '--port', `127.0.0.1:${port}`],
        ...['posix', '--versioning-dir', versions, data],
      ],
      env: { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey },
    });
  }
  return start({
    name,
    version: moduleVersion(path) ?? firstMatch(path, /version (\S+)/) ?? 'unknown',
    port,
    command: path,
    args: ['server', '--quiet', '--address', `127.0.0.1:${port}`, data],
    env: {
      MINIO_ROOT_USER: accessKeyId,
      MINIO_ROOT_PASSWORD: secretAccessKey,
      MINIO_BROWSER: 'off',
      MINIO_UPDATE: 'off',
      // MinIO declines to use the disk that the operating system is on unless it is told that
      // this is a test.
      MINIO_CI_CD: '1',
    },
  });
}

async function start({ name, version, port, command, args, env }) {
  let output = '';
  const child = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output = (output + text).slice(-4000);
    });
  }
  const ended = new Promise((resolveEnded) => child.once('close', resolveEnded));
  const target = { host: '127.0.0.1', port, accessKeyId, secretAccessKey };
  const stop = async () => {
    child.kill('SIGCONT');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
    await ended;
    clearTimeout(timer);
  };
  const untilMs = Date.now() + startMsMax;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${name} ended at once:\n${output}`);
    const answer = await send(target, { method: 'GET', path: '/' }).catch(() => undefined);
    if (answer?.status === 200) break;
    if (Date.now() > untilMs) {
      await stop();
      throw new Error(`${name} did not answer: ${answer?.status} ${answer?.body}\n${output}`);
    }
    await new Promise((resolveWait) => setTimeout(resolveWait, 100));
  }
  return { name, version, target, pid: child.pid, stop };
}

/** A stopped server uses no CPU while another one is measured. */
export function pause(server) {
  for (const pid of processTree(server.pid)) process.kill(pid, 'SIGSTOP');
}

export function resume(server) {
  for (const pid of processTree(server.pid)) process.kill(pid, 'SIGCONT');
}

/** Seconds of CPU that the server and its children have used. */
export function cpuSecondsOf(server) {
  const ticks = processTree(server.pid).map((pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1].split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, count) => sum + count, 0) / 100;
}

/** Peak resident bytes since the last `resetPeak`, of the server and its children together. */
export function peakBytesOf(server) {
  const peaks = processTree(server.pid).map((pid) => {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)[1]) * 1024;
  });
  return peaks.reduce((sum, bytes) => sum + bytes, 0);
}

/** Lets peaks be told apart by workload (proc(5), clear_refs). */
export function resetPeak(server) {
  for (const pid of processTree(server.pid)) {
    // A process's own clear_refs only takes a write without truncation.
    spawnSync('sh', ['-c', `echo 5 > /proc/${pid}/clear_refs`]);
  }
}

function processTree(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return [pid, ...(children ? children.split(' ').flatMap((child) => processTree(+child)) : [])];
}

function freePort() {
  return new Promise((resolvePort, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolvePort(port));
    });
  });
}

function gatewayVersion() {
  const { version } = JSON.parse(readFileSync(join(gatewayMain, '../../../package.json'), 'utf8'));
  const commit = spawnSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' });
  return commit.status === 0 ? `${version} (${commit.stdout.trim()})` : version;
}

/** What `go install` wrote into the binary. */
function moduleVersion(path) {
  const told = spawnSync('go', ['version', '-m', path], { encoding: 'utf8' });
  return told.status === 0 ? /^\s*mod\s+\S+\s+(\S+)/m.exec(told.stdout)?.[1] : undefined;
}

function firstMatch(path, pattern) {
  const found = pattern.exec(execFileSync(path, ['--version'], { encoding: 'utf8' }))?.[1];
  return found === 'git' || found === 'DEVELOPMENT.GOGET' ? undefined : found;
}
