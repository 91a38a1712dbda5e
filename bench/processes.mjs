// The server processes of the bench: starts them, pauses them while another one is measured, reads
// from /proc what they use (proc(5)), and ends them however the bench ends. Only processes started
// here are ever signalled.
import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  unlinkSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { send } from './control.mjs';

export const accessKeyId = 'BURSARBENCHACCESSKEY';
export const secretAccessKey = 'bench-secret-0123456789-abcdefghijklmnop';
const startMsMax = 60_000;
const stopMsMax = 30_000;
const settleMsMax = 5_000;

/** In the order in which they were started: who needs another one comes after it. */
const running = [];
process.on('exit', () => {
  for (const { child } of running) child.kill('SIGKILL');
});

/**
 * @typedef {object} Server
 * @property {string} name
 * @property {string} version
 * @property {import('./signing.mjs').Target} target
 * @property {number} pid
 * @property {number} readyMs from its start to its first answer that it is ready, milliseconds
 * @property {Server} [backend] the server that this one keeps its bytes in
 * @property {string} [bucketPrefix] of its buckets, where servers share one namespace
 */

/**
 * Starts a server on a free loopback port and waits until it answers 200 to `ready`, see `send`.
 * The caller's settings of AWS and Bursar are kept from it: they are not what is measured.
 * @returns {Promise<Server>}
 */
export async function start({ name, version, command, argsFor, env, ready = { path: '/' } }) {
  const port = await freePort();
  const inherited = Object.entries(process.env).filter(([key]) => !/^(AWS|BURSAR)_/.test(key));
  const output = openOutput();
  const child = spawn(command, argsFor(`127.0.0.1:${port}`), {
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', output.fd, output.fd],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  running.push({ child, ended, output });
  const target = { host: '127.0.0.1', port, accessKeyId, secretAccessKey };
  const begunMs = performance.now();
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${name} ended at once:\n${output.end()}`);
    const answer = await send(target, { method: 'GET', ...ready }).catch(() => undefined);
    const readyMs = performance.now() - begunMs;
    if (answer?.status === 200) return { name, version, target, pid: child.pid, readyMs };
    if (readyMs > startMsMax) {
      throw new Error(`${name} is not ready: ${answer?.status} ${answer?.body}\n${output.end()}`);
    }
    await sleep(20);
  }
}

/**
 * Where a server prints: a file, as under most supervisors, so that nobody has to read along. It
 * has no name, and is gone with those who have it open.
 */
function openOutput() {
  const path = join(process.env.TMPDIR ?? tmpdir(), `bursar-bench-output-${process.pid}`);
  const fd = openSync(path, 'w+');
  unlinkSync(path);
  return {
    fd,
    end: () => {
      const last = Buffer.alloc(4000);
      const at = Math.max(0, fstatSync(fd).size - last.length);
      return last.toString('utf8', 0, readSync(fd, last, 0, last.length, at));
    },
    close: () => closeSync(fd),
  };
}

/** Ends all servers, the last one first: a gateway may still have something to tell its backend. */
export async function stopAll() {
  for (const { child } of running) child.kill('SIGCONT');
  while (running.length > 0) {
    const { child, ended, output } = running.at(-1);
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax);
    await ended;
    clearTimeout(timer);
    output.close();
    running.pop();
  }
}

/** A stopped server uses no CPU while another one is measured. Its backend stops with it. */
export function pause(server) {
  for (const { pid } of withBackend(server)) signalTree(pid, 'SIGSTOP');
}

export function resume(server) {
  for (const { pid } of withBackend(server).reverse()) signalTree(pid, 'SIGCONT');
}

/** Waits until a server is done with what it does after its answers, so that it can be paused. */
export async function settle(server) {
  const used = () => withBackend(server).reduce((sum, { pid }) => sum + cpuSecondsOf(pid), 0);
  const untilMs = Date.now() + settleMsMax;
  for (let before = Number.NEGATIVE_INFINITY; Date.now() < untilMs; ) {
    const now = used();
    if (now - before < 0.02) return;
    before = now;
    await sleep(200);
  }
}

function withBackend(server) {
  return server.backend ? [server, server.backend] : [server];
}

function signalTree(root, signal) {
  for (const pid of processTree(root)) process.kill(pid, signal);
}

/** Seconds of CPU that the threads of the process and of its children have used, to nanoseconds. */
export function cpuSecondsOf(pid) {
  let nanoseconds = 0;
  for (const one of processTree(pid)) {
    for (const task of readdirSync(`/proc/${one}/task`)) {
      const used = readFileSync(`/proc/${one}/task/${task}/schedstat`, 'latin1');
      nanoseconds += Number(used.split(' ', 1)[0]);
    }
  }
  return nanoseconds / 1e9;
}

/** The same for each kind of thread of the process alone, by the names that threads have. */
export function cpuSecondsByThread(pid) {
  const used = {};
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const name = readFileSync(`/proc/${pid}/task/${task}/comm`, 'latin1').trim();
    const [nanoseconds] = readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'latin1').split(' ');
    used[name] = (used[name] ?? 0) + Number(nanoseconds) / 1e9;
  }
  return used;
}

/** Bytes in memory now, of the process alone. */
export function residentBytesOf(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)[1]) * 1024;
}

/** Peak resident bytes since the last `resetPeak`, of the process and its children together. */
export function peakBytesOf(pid) {
  const peaks = processTree(pid).map((one) => {
    const status = readFileSync(`/proc/${one}/status`, 'latin1');
    return Number(/VmHWM:\s+(\d+) kB/.exec(status)[1]) * 1024;
  });
  return peaks.reduce((sum, bytes) => sum + bytes, 0);
}

/** Lets peaks be told apart by workload (clear_refs). */
export function resetPeak(pid) {
  for (const one of processTree(pid)) {
    // A process's own clear_refs only takes a write without truncation.
    spawnSync('sh', ['-c', `echo 5 > /proc/${one}/clear_refs`]);
  }
}

function processTree(pid) {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return [pid, ...(children ? children.split(' ').flatMap((child) => processTree(+child)) : [])];
}

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
