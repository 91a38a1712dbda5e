// `node bench/walk.mjs [DIR]`: how long the way of a request is. Starts the gateway of this tree,
// or of the built tree DIR, sends it requests one at a time, and counts by V8's precise coverage
// how many calls of how many functions in how many of its files each makes, by thread; an async
// function that goes on counts again. Of several requests the least count of each function is
// taken, less the median of as many rounds of the same time in which nothing is asked, so that what
// happens in the background does not count. `--functions`: also lists them. `--json`: prints the
// counts as JSON.
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { WebSocket } from 'undici';
import { makeBucket, send } from './control.mjs';
import { makeBody } from './load.mjs';
import { stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';

const warmups = 30;
const rounds = 7;
/** Until what is done after an answer, such as the record of a read, is done. */
const afterMs = 250;
const KiB = 1024;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    functions: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});
const tree = resolve(positionals[0] ?? join(import.meta.dirname, '..'));
const dist = `${pathToFileURL(join(tree, 'dist')).href}/`;

const requests = {
  'GET of 4 KiB': { method: 'GET', path: '/walk/small' },
  'PUT of 4 KiB': { method: 'PUT', path: '/walk/small', body: makeBody(4 * KiB) },
  'PUT of 8 MiB': { method: 'PUT', path: '/walk/large', body: makeBody(8 * KiB * KiB) },
};

const dir = mkdtempSync(join(tmpdir(), 'bursar-walk-'));
try {
  const port = await freePort();
  const server = await startGateway({ dir, tree, nodeArgs: [`--inspect=127.0.0.1:${port}`] });
  const walks = await walkAll(server, await inspect(port));
  if (values.json) process.stdout.write(`${JSON.stringify(walks, null, 2)}\n`);
  else describe(server.version, walks);
} finally {
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}

async function walkAll({ target }, threads) {
  await makeBucket(target, 'walk');
  const agent = new Agent({ keepAlive: true });
  const ask = async (request) => {
    const { status } = await send(target, { ...request, agent });
    if (status !== 200) throw new Error(`${request.method} ${request.path}: ${status}`);
  };
  for (let i = 0; i < warmups; i++) {
    for (const name of ['PUT of 4 KiB', 'GET of 4 KiB']) await ask(requests[name]);
  }
  for (let i = 0; i < 3; i++) await ask(requests['PUT of 8 MiB']);
  await threads.begin();
  const countRounds = async (act) => {
    const counted = [];
    for (let i = 0; i < rounds; i++) {
      await threads.take();
      await act();
      await sleep(afterMs);
      counted.push(await threads.take());
    }
    return counted;
  };
  const walks = {};
  for (const [name, request] of Object.entries(requests)) {
    const sinceMs = performance.now();
    const asked = await countRounds(() => ask(request));
    const roundMs = (performance.now() - sinceMs) / rounds;
    const idle = await countRounds(() => sleep(Math.max(roundMs - afterMs, 0)));
    const less = merge(idle, (counts) => counts[Math.floor(rounds / 2)]);
    walks[name] = Object.fromEntries(
      [...merge(asked, ([least]) => least)].map(([thread, counts]) => [
        thread,
        sum(lessOf(counts, less.get(thread))),
      ]),
    );
  }
  agent.destroy();
  return walks;
}

/** The counts that are more than those of a time in which nothing was asked. */
function lessOf(counts, idle = new Map()) {
  const more = [...counts].map(([name, count]) => [name, count - (idle.get(name) ?? 0)]);
  return new Map(more.filter(([, count]) => count > 0));
}

/** By thread and function, what `choose` takes of the counts of all rounds in ascending order. */
function merge(counted, choose) {
  const merged = new Map();
  for (const thread of counted[0].keys()) {
    const names = new Set(counted.flatMap((one) => [...(one.get(thread)?.keys() ?? [])]));
    const countsOf = (name) => counted.map((one) => one.get(thread)?.get(name) ?? 0);
    const chosen = [...names].map((name) => [name, choose(countsOf(name).sort((a, b) => a - b))]);
    merged.set(thread, new Map(chosen.filter(([, count]) => count > 0)));
  }
  return merged;
}

function sum(counts) {
  const names = [...counts.keys()];
  const files = new Set(names.map((name) => name.split(' ', 1)[0]));
  const calls = [...counts.values()].reduce((all, one) => all + one, 0);
  return { calls, functions: names.length, files: files.size, counts: Object.fromEntries(counts) };
}

function describe(version, walks) {
  const lines = [version];
  for (const [name, threads] of Object.entries(walks)) {
    for (const [thread, { calls, functions, files, counts }] of Object.entries(threads)) {
      if (calls === 0) continue;
      lines.push(`${name}, ${thread}: ${calls} calls of ${functions} functions in ${files} files`);
      if (!values.functions) continue;
      const sorted = Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1));
      lines.push(...sorted.map(([place, count]) => `  ${count} ${place}`));
    }
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** Connects to the main thread's inspector, and through it to those of its workers. */
async function inspect(port) {
  const [{ webSocketDebuggerUrl }] = await (
    await fetch(`http://127.0.0.1:${port}/json/list`)
  ).json();
  const socket = new WebSocket(webSocketDebuggerUrl);
  await new Promise((open, fail) => {
    socket.addEventListener('open', open);
    socket.addEventListener('error', fail);
  });
  const waiting = new Map();
  const workers = new Map();
  let ids = 0;
  const receive = (message) => {
    if (message.id !== undefined) waiting.get(message.id)?.(message);
    else if (message.method === 'NodeWorker.attachedToWorker') {
      const { sessionId, workerInfo } = message.params;
      workers.set(sessionId, workerInfo.url.split('/').at(-1));
    } else if (message.method === 'NodeWorker.detachedFromWorker') {
      workers.delete(message.params.sessionId);
    } else if (message.method === 'NodeWorker.receivedMessageFromWorker') {
      receive(JSON.parse(message.params.message));
    }
  };
  socket.addEventListener('message', ({ data }) => receive(JSON.parse(data)));
  const call = (session, method, params = {}) =>
    new Promise((done, fail) => {
      const id = ++ids;
      waiting.set(id, ({ result, error }) => {
        waiting.delete(id);
        if (error) fail(new Error(`${method}: ${error.message}`));
        else done(result);
      });
      const message = JSON.stringify({ id, method, params });
      if (session === null) socket.send(message);
      else {
        const sent = { sessionId: session, message };
        socket.send(
          JSON.stringify({ id: ++ids, method: 'NodeWorker.sendMessageToWorker', params: sent }),
        );
      }
    });
  return {
    /** Of all threads that there are. */
    begin: async () => {
      await call(null, 'NodeWorker.enable', { waitForDebuggerOnStart: false });
      await sleep(afterMs);
      for (const session of [null, ...workers.keys()]) {
        await call(session, 'Profiler.enable');
        await call(session, 'Profiler.startPreciseCoverage', { callCount: true, detailed: false });
      }
    },
    /** What was called since it was last asked, by thread. */
    take: async () => {
      const taken = new Map();
      for (const [session, name] of [[null, 'main'], ...workers]) {
        const { result } = await call(session, 'Profiler.takePreciseCoverage');
        const counts = taken.get(name) ?? new Map();
        for (const [place, count] of countsOf(result)) {
          counts.set(place, (counts.get(place) ?? 0) + count);
        }
        taken.set(name, counts);
      }
      return taken;
    },
  };
}

/** Calls by file and function. */
function countsOf(scripts) {
  const counts = new Map();
  for (const { url, functions } of scripts) {
    if (!url.startsWith(dist)) continue;
    for (const { functionName, ranges } of functions) {
      const [{ count, startOffset }] = ranges;
      const place = `${url.slice(dist.length)} ${functionName || '(anonymous)'} @${startOffset}`;
      if (count > 0) counts.set(place, count);
    }
  }
  return counts;
}

function freePort() {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once('error', fail);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}
