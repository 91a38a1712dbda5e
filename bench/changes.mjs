// `node bench/changes.mjs [ROUNDS] [--followers 0,1,…] [--beside TREE] [--profile DIR]`: how long
// after their commits changes reach those who follow a bucket, and what that leaves of its PUTs. In
// each round eight clients put objects of 4 KiB, with no follower, one, and many, in turn, so that
// neighbours in time compare; with `--beside` also of the gateway of another tree that is built, in
// turn with this one's. Each follower reads every change; it is held to the count of them. Of an
// answer it reads no more than that takes, since it shares the cores with the gateway.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { makeBucket, send } from './control.mjs';
import { makeBody } from './load.mjs';
import { count, number, table, times } from './markdown.mjs';
import { cpuSecondsOf, pause, resume, stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { median, quantile } from './statistics.mjs';

const bucket = 'changes';
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    followers: { type: 'string', default: '0,1,10,100' },
    beside: { type: 'string' },
    profile: { type: 'string' },
  },
});
const rounds = Number(positionals[0] ?? 5);
const secondsEach = 3;
const writers = 8;
const followers = values.followers.split(',').map(Number);
const path = '/_/v1/tenants/default/changes';
const body = makeBody(4 * 1024);
const agent = new Agent({ keepAlive: true });
const dir = mkdtempSync(join(tmpdir(), 'bursar-changes-'));

/** Gives when the changes of a page were, and where the next begins. */
async function read(target, after, wait) {
  const query = `after=${after}&bucket=${bucket}&wait=${wait}`;
  const { status, body: bytes } = await send(target, { method: 'GET', path, query, agent });
  if (status !== 200) throw new Error(`${path}: ${status} ${bytes}`);
  const text = bytes.toString('latin1');
  const times = Array.from(text.matchAll(/"eventTime":"([^"]+)"/g), ([, time]) => time);
  const [, next] = /"next":"(\d+)"/.exec(text.slice(-1000)) ?? [];
  return { times, next };
}

/** Follows until all of `state.written` was seen; gives how late each change was, milliseconds. */
async function follow(target, begin, state) {
  const lateMs = [];
  for (let after = begin; !state.isEnded || lateMs.length < state.written; ) {
    const page = await read(target, after, state.isEnded ? 1 : 5);
    const nowMs = Date.now();
    for (const time of page.times) lateMs.push(nowMs - Date.parse(time));
    after = page.next;
  }
  if (lateMs.length !== state.written) {
    throw new Error(`${lateMs.length} changes were told of ${state.written}`);
  }
  return lateMs;
}

async function write(target, worker, state) {
  for (let i = 0; !state.isEnded; i++) {
    const key = `${worker}/${i % 1000}`;
    const put = { method: 'PUT', path: `/${bucket}/${key}`, body, agent };
    const { status } = await send(target, put);
    if (status !== 200) throw new Error(`PUT ${key}: ${status}`);
    state.written += 1;
  }
}

async function measure({ target, pid }, many) {
  const { next } = await read(target, 'now', 0);
  const state = { written: 0, isEnded: false };
  const following = Array.from({ length: many }, () => follow(target, next, state));
  const sinceMs = performance.now();
  const sinceCpu = cpuSecondsOf(pid);
  const writing = Array.from({ length: writers }, (_, i) => write(target, i, state));
  await new Promise((resolve) => setTimeout(resolve, secondsEach * 1000));
  state.isEnded = true;
  await Promise.all(writing);
  const perSecond = (1000 * state.written) / (performance.now() - sinceMs);
  const lateMs = (await Promise.all(following)).flat();
  const cpuUs = ((cpuSecondsOf(pid) - sinceCpu) * 1e6) / state.written;
  return { perSecond, cpuUs, lateMs };
}

function show(name, found) {
  const rows = followers.map((many, i) => {
    const late = found[i].flatMap(({ lateMs }) => lateMs);
    const ratio = found[i].map(({ perSecond }, round) => perSecond / found[0][round].perSecond);
    const shown = [0.5, 0.99].map((part) => (many === 0 ? '' : number(quantile(late, part))));
    return [
      ...[count(many), count(Math.round(median(found[i].map((one) => one.perSecond))))],
      ...[
        times(median(ratio)),
        ...shown,
        count(Math.round(median(found[i].map((one) => one.cpuUs)))),
      ],
    ];
  });
  const head = ['followers', 'PUTs a second', `of those with ${followers[0]}`];
  head.push('told after, ms', 'p99', "of a core of the gateway's for each PUT, µs");
  process.stdout.write(`${name}\n${table({ head, rows }).join('\n')}\n\n`);
}

try {
  const trees = values.beside ? [undefined, values.beside] : [undefined];
  const servers = [];
  for (const [i, tree] of trees.entries()) {
    mkdirSync(join(dir, `${i}`));
    const own = { dir: join(dir, `${i}`), profileDir: i === 0 ? values.profile : undefined };
    servers.push(await startGateway({ ...own, ...(tree && { tree }) }));
  }
  for (const server of servers) {
    await makeBucket(server.target, bucket);
    await measure(server, 0);
    pause(server);
  }
  const found = servers.map(() => followers.map(() => []));
  for (let round = 0; round < rounds; round++) {
    for (const [i, many] of followers.entries()) {
      for (const [which, server] of servers.entries()) {
        resume(server);
        found[which][i].push(await measure(server, many));
        pause(server);
      }
    }
  }
  for (const server of servers) resume(server);
  for (const [which, measured] of found.entries()) show(trees[which] ?? 'this tree', measured);
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}
