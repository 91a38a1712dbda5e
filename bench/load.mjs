// The load tool: is sent plans, drives one server by each, and answers with the result. A process
// of its own, so that its CPU time is known and it can be pinned. It is kept cheap, because it
// shares the machine with the server: requests are signed and serialized before the clock starts,
// sockets read into one buffer, bodies are counted, not kept.
import { createHash, hash } from 'node:crypto';
import { connect } from 'node:net';
import { makeBearing } from './bearing.mjs';
import { ResponseReader } from './response-reader.mjs';
import { makeSigner, unsignedPayload } from './signing.mjs';

/**
 * @typedef {object} Plan
 * @property {import('./signing.mjs').Target} target
 * @property {'put' | 'get' | 'list' | 'delete' | 'ask' | 'fill'} kind `delete` deletes each key
 *   once, from the first on; `ask` gets `paths`, in order; `fill` puts each key once, untimed
 * @property {string} bucket
 * @property {string} keyPrefix
 * @property {number} keyCount how many keys there are (get, list, delete) or shall be (fill)
 * @property {{path: string, query?: string}[]} [paths] all of one length
 * @property {number} sizeBytes of each object
 * @property {number} connections each has one request on its way at a time
 * @property {number} seconds
 * @property {number} warmupSeconds
 * @property {number} [seed] of the order of keys
 * @property {import('./bearing.mjs').Bearer} [bearer] asks with a token instead of a signature
 */

const smallBytesMax = 64 * 1024;
const latenciesMax = 2_000_000;
const errorsMax = 100;
/** Different objects that are read in turn. */
const readsMax = 5000;
/** Of the run that is under way. */
const latenciesMs = new Float64Array(latenciesMax);
const readBuffer = Buffer.allocUnsafe(1024 * 1024);

/** The same bytes in every run and every process. */
export function makeBody(sizeBytes) {
  const block = createHash('sha512').update('bursar bench').digest();
  const bytes = Buffer.alloc(sizeBytes, block);
  // Distinct blocks, so that no server can fold them.
  for (let at = 0; at + 8 <= sizeBytes; at += 512) bytes.writeDoubleLE(Math.sin(at + 1), at);
  return bytes;
}

/** Keys look like a run's files: 1,000 to a folder. All have the same length. */
export function keyAt(prefix, index) {
  const folder = String(Math.floor(index / 1000)).padStart(5, '0');
  return `${prefix}/run${folder}/file${String(index % 1000).padStart(3, '0')}.dat`;
}

/** Deterministic, so that each server gets the same order (mulberry32). */
function makeRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `count` signed request heads, all of one length, end to end in one buffer. */
function makeHeads(plan, count, keyOf, body) {
  const sign = plan.bearer ? makeBearing(plan.target, plan.bearer) : makeSigner(plan.target);
  const small = plan.sizeBytes <= smallBytesMax;
  const sha256 = body && (small ? hash('sha256', body, 'hex') : unsignedPayload);
  const requestOf = (index) => {
    if (plan.kind === 'ask') return { method: 'GET', ...plan.paths[index % plan.paths.length] };
    const key = keyOf(index);
    if (plan.kind === 'list') {
      const query = `list-type=2&max-keys=1000&start-after=${encodeURIComponent(key)}`;
      return { method: 'GET', path: `/${plan.bucket}`, query };
    }
    const path = `/${plan.bucket}/${key}`;
    if (body) return { method: 'PUT', path, sizeBytes: body.length, sha256 };
    return { method: plan.kind === 'delete' ? 'DELETE' : 'GET', path };
  };
  const first = sign(requestOf(0));
  const heads = Buffer.allocUnsafe(first.length * count);
  for (let index = 0; index < count; index++) {
    const head = index === 0 ? first : sign(requestOf(index));
    if (head.length !== first.length) throw new Error('request heads differ in length');
    head.copy(heads, index * first.length);
  }
  return { heads, headBytes: first.length, count };
}

/**
 * Sends the requests over `plan.connections` until the time is over or, unless they may repeat,
 * until each has been sent. Resolves with counts and latencies.
 */
async function drive(plan, requests, { body, repeat, seconds }) {
  const sockets = await Promise.all(
    Array.from({ length: plan.connections }, () => openSocket(plan.target)),
  );
  const run = {
    sent: 0,
    done: 0,
    bytes: 0,
    errors: 0,
    firstError: '',
    startMs: performance.now(),
    endMs: 0,
  };
  const expectedBytes = plan.kind === 'get' ? plan.sizeBytes : undefined;
  const status = plan.kind === 'delete' ? 204 : 200;
  await Promise.all(
    sockets.map((socket) => {
      const limit = { repeat, deadlineMs: run.startMs + seconds * 1000, expectedBytes, status };
      return driveOne(socket, { run, requests, body, limit });
    }),
  );
  return run;
}

/** One connection's share. */
function driveOne(connection, { run, requests, body, limit }) {
  const { socket } = connection;
  const { heads, headBytes, count } = requests;
  // A small request is put together in one buffer: one system call instead of two. It can be
  // reused, because the answer shows that the server has read it.
  const whole = body && body.length <= smallBytesMax ? Buffer.alloc(headBytes + body.length) : null;
  if (whole) body.copy(whole, headBytes);

  return new Promise((resolve, reject) => {
    let sentMs = 0;
    const send = () => {
      const index = run.sent;
      sentMs = performance.now();
      if (sentMs >= limit.deadlineMs || (!limit.repeat && index >= count)) {
        connection.onEnd = null;
        socket.destroy();
        resolve();
        return;
      }
      run.sent++;
      const at = (index % count) * headBytes;
      if (whole) {
        heads.copy(whole, 0, at, at + headBytes);
        socket.write(whole);
      } else {
        socket.write(heads.subarray(at, at + headBytes));
        if (body) socket.write(body);
      }
    };
    const reader = new ResponseReader((status, bodyBytes) => {
      const nowMs = performance.now();
      run.endMs = nowMs;
      if (status === limit.status && (limit.expectedBytes ?? bodyBytes) === bodyBytes) {
        latenciesMs[run.done % latenciesMax] = nowMs - sentMs;
        run.done++;
        run.bytes += body ? body.length : bodyBytes;
      } else {
        run.errors++;
        run.firstError ||= `status ${status}, ${bodyBytes} bytes`;
        if (run.errors > errorsMax) return reject(new Error(`too many: ${run.firstError}`));
      }
      send();
    });
    connection.onRead = (bytes) => {
      try {
        reader.push(readBuffer, bytes);
      } catch (error) {
        reject(error);
      }
    };
    connection.onEnd = () => reject(new Error('the server closed the connection'));
    send();
  });
}

/** Connects with one read buffer for all sockets: each read is consumed before the next. */
function openSocket({ host, port }) {
  return new Promise((resolve, reject) => {
    const connection = { socket: null, onRead: null, onEnd: null };
    const onread = { buffer: readBuffer, callback: (bytes) => connection.onRead(bytes) || true };
    connection.socket = connect({ host, port, noDelay: true, onread }, () => resolve(connection));
    connection.socket.on('error', (error) => {
      if (connection.onEnd) connection.onEnd();
      else reject(error);
    });
    connection.socket.on('close', () => connection.onEnd?.());
  });
}

/** Warms up, then runs against the clock. */
function measure(plan) {
  if (plan.kind === 'fill') return fill(plan);
  if (plan.kind === 'put') return measurePuts(plan);
  if (plan.kind === 'delete') return measureDeletes(plan);
  return measureReads(plan);
}

/** Measures the rate while it warms up, so as to sign enough requests. */
async function measurePuts(plan) {
  const body = makeBody(plan.sizeBytes);
  const warmKey = (index) => keyAt(`${plan.keyPrefix}-warm`, index);
  const warmCount = Math.ceil(plan.warmupSeconds * (plan.sizeBytes > smallBytesMax ? 500 : 20_000));
  const warm = makeHeads(plan, warmCount, warmKey, body);
  const warmRun = await drive(plan, warm, { body, repeat: false, seconds: plan.warmupSeconds });
  const rate = warmRun.done / ((warmRun.endMs - warmRun.startMs) / 1000);
  const wanted = Math.ceil(rate * plan.seconds * 2) + 200;
  const warmupDone = warmRun.done;
  const requests = makeHeads(plan, wanted, (index) => keyAt(plan.keyPrefix, index), body);
  return { ...(await time(plan, requests, { body, repeat: false })), warmupDone };
}

async function measureReads(plan) {
  const requests = makeReads(plan);
  const limits = { repeat: true, seconds: plan.warmupSeconds };
  const { done: warmupDone } = await drive(plan, requests, limits);
  return { ...(await time(plan, requests, { repeat: true })), warmupDone };
}

/** There is nothing to warm up with: each key is deleted once. */
async function measureDeletes(plan) {
  const requests = makeHeads(plan, plan.keyCount, (index) => keyAt(plan.keyPrefix, index), null);
  return { ...(await time(plan, requests, { repeat: false })), warmupDone: 0 };
}

function makeReads(plan) {
  if (plan.kind === 'ask') return makeHeads(plan, plan.paths.length, null, null);
  const random = makeRandom(plan.seed ?? 1);
  // A listing begins where a full page is left.
  const choices = plan.kind === 'list' ? Math.max(plan.keyCount - 1000, 1) : plan.keyCount;
  const count = plan.kind === 'list' ? 500 : Math.min(plan.keyCount, readsMax);
  return makeHeads(plan, count, () => keyAt(plan.keyPrefix, Math.floor(random() * choices)), null);
}

function fill(plan) {
  const body = makeBody(plan.sizeBytes);
  const requests = makeHeads(plan, plan.keyCount, (index) => keyAt(plan.keyPrefix, index), body);
  return time({ ...plan, seconds: 3600 }, requests, { body, repeat: false });
}

async function time(plan, requests, { body, repeat }) {
  const cpuBefore = process.cpuUsage();
  const run = await drive(plan, requests, { body, repeat, seconds: plan.seconds });
  return summarize(run, process.cpuUsage(cpuBefore));
}

function summarize(run, cpu) {
  const seconds = (run.endMs - run.startMs) / 1000;
  const latencies = latenciesMs.subarray(0, Math.min(run.done, latenciesMax)).sort();
  const at = (share) =>
    latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))];
  const cpuSeconds = (cpu.user + cpu.system) / 1e6;
  return {
    done: run.done,
    errors: run.errors,
    firstError: run.firstError,
    seconds,
    perSecond: run.done / seconds,
    bytesPerSecond: run.bytes / seconds,
    p50Ms: at(0.5) ?? 0,
    p99Ms: at(0.99) ?? 0,
    cpuSeconds,
    /** Of one core. */
    cpuShare: cpuSeconds / seconds,
  };
}

if (process.argv[1] === import.meta.filename) {
  process.on('message', async (plan) => {
    process.send(await measure(plan));
  });
}
