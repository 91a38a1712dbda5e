// `node bench/changes.mjs [ROUNDS]`: how long after their commits changes reach those who follow a
// bucket, and what that leaves of its PUTs. In each round eight clients put objects of 4 KiB, with
// no follower, one, and many, in turn, so that neighbours in time compare. Each follower reads
// every change; it is held to the count of them.
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeBucket, send } from './control.mjs';
import { makeBody } from './load.mjs';
import { count, number, table, times } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { median, quantile } from './statistics.mjs';

const bucket = 'changes';
const rounds = Number(process.argv[2] ?? 5);
const secondsEach = 3;
const writers = 8;
const followers = [0, 1, 10, 100];
const path = '/_/v1/tenants/default/changes';
const body = makeBody(4 * 1024);
const agent = new Agent({ keepAlive: true });
const dir = mkdtempSync(join(tmpdir(), 'bursar-changes-'));

/** Gives a page. */
async function read(target, after, wait) {
  const query = `after=${after}&bucket=${bucket}&wait=${wait}`;
  const { status, body: bytes } = await send(target, { method: 'GET', path, query, agent });
  if (status !== 200) throw new Error(`${path}: ${status} ${bytes}`);
  return JSON.parse(bytes);
}

/** Follows until all of `state.written` was seen; gives how late each change was, milliseconds. */
async function follow(target, begin, state) {
  const lateMs = [];
  for (let after = begin; !state.isEnded || lateMs.length < state.written; ) {
    const page = await read(target, after, state.isEnded ? 1 : 5);
    const nowMs = Date.now();
    for (const { eventTime } of page.Records) lateMs.push(nowMs - Date.parse(eventTime));
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

async function measure(target, many) {
  const { next } = await read(target, 'now', 0);
  const state = { written: 0, isEnded: false };
  const following = Array.from({ length: many }, () => follow(target, next, state));
  const sinceMs = performance.now();
  const writing = Array.from({ length: writers }, (_, i) => write(target, i, state));
  await new Promise((resolve) => setTimeout(resolve, secondsEach * 1000));
  state.isEnded = true;
  await Promise.all(writing);
  const perSecond = (1000 * state.written) / (performance.now() - sinceMs);
  return { perSecond, lateMs: (await Promise.all(following)).flat() };
}

try {
  const { target } = await startGateway({ dir });
  await makeBucket(target, bucket);
  await measure(target, 0);
  const found = followers.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, many] of followers.entries()) found[i].push(await measure(target, many));
  }
  const rows = followers.map((many, i) => {
    const late = found[i].flatMap(({ lateMs }) => lateMs);
    const ratio = found[i].map(({ perSecond }, round) => perSecond / found[0][round].perSecond);
    const shown = [0.5, 0.99].map((part) => (many === 0 ? '' : number(quantile(late, part))));
    return [
      ...[count(many), count(Math.round(median(found[i].map((one) => one.perSecond))))],
      ...[times(median(ratio)), ...shown],
    ];
  });
  const head = ['followers', 'PUTs a second', 'of those without', 'told after, ms', 'p99'];
  process.stdout.write(`${table({ head, rows }).join('\n')}\n`);
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}
