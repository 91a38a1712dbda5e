// `node bench/find.mjs [OBJECTS [ROUNDS [PAGED]]] [--sorted]`: what finding objects costs. First
// the index alone, with a thousand, ten thousand, … objects (100,000 by default), each with four
// tags which 10 to 10,000 objects have in common, two of metadata and a key of its own: how large
// it is, how fast it is written, and how long the first page of candidates takes by each kind of
// comparison; with `--sorted` one index alone, of OBJECTS, which SQL fills in order. Then gateways,
// with and without an index, in many short turns: PUTs of 4 KiB, what of a core the threads that
// serve them take for one, and how far the index is behind them. And then pages of PAGED objects
// (20,000) by each kind of comparison, with how long they hold up others: the longest turns of the
// main thread and of the ledger's, of their processor's time and by the clock.
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentEncode } from '#bursar/core/canonical-request.js';
import { emptySha256, signRequest } from '#bursar/core/sigv4.js';
import { CandidateReader } from '#bursar/search/candidates.js';
import { ObjectIndexWriter } from '#bursar/search/object-index.js';
import { spanOf } from '#bursar/search/plan.js';
import { parseQuery } from '#bursar/search/query.js';
import { makeBucket, send } from './control.mjs';
import { count, interval, number, table } from './markdown.mjs';
import { pause, resume, stopAll } from './processes.mjs';
import { metricsToken, startGateway } from './servers.mjs';
import {
  bucket,
  compareInTurns,
  ratioBetween,
  smallWorkload,
  withLoadTool,
} from './short-turns.mjs';
import { fillSorted } from './sorted-index.mjs';
import { median, quantile } from './statistics.mjs';

const isSorted = process.argv.includes('--sorted');
const [mostText, roundsText, pagedText] = process.argv.slice(2).filter((one) => one !== '--sorted');
const most = Number(mostText ?? 100_000);
/** In which PUTs with and without the index are compared; 0: no gateway is measured. */
const rounds = Number(roundsText ?? (isSorted ? 0 : 20));
const dir = mkdtempSync(join(tmpdir(), 'bursar-find-'));
const batch = 1024;
const asks = 200;
const widths = [10, 100, 1000, 10_000];

/** An object in a bucket of so many. Each `width` of them have a tag in common. */
function objectAt(i, size) {
  const tags = widths.map((width) => [`of${width}`, String(i % Math.max(size / width, 1))]);
  const metadata = { run: String(i), taken: new Date(1.7e12 + i * 60_000).toISOString() };
  return {
    ...{ bucketId: 1, isMarker: 0, key: `run${i % 97}/2026/file-${i}.root`, sizeBytes: i },
    ...{ etag: i.toString(16).padStart(32, '0'), sha256: null, class: 'STANDARD', owner: 'admin' },
    createdMs: 1.7e12 + i,
    attributes: JSON.stringify({ headers: { 'content-type': 'x/y' }, metadata, tags }),
  };
}

const placeOf = ({ bucketId, key }) => ({ bucketId, key });

const queries = (size) => [
  ...widths.map((width) => `tag.of${width} = "0"`),
  'tag.of1000 = "0" and tag.of10000 = "0"',
  'tag.of10 = "0" and class = "STANDARD"',
  `meta.run = ${size / 2}`,
  `meta.run >= ${size - 500}`,
  `meta.run > ${Math.max(size - 40_000, 0)}`,
  'meta.taken < 2023-11-15',
  `meta.run in (1, 2, ${size - 1})`,
  'etag like "0000000000000000000000000000000*"',
  `size > ${size - 100} or tag.of10 = "0"`,
];

async function measureIndex(size) {
  const path = join(dir, `${size}.db`);
  const begunMs = performance.now();
  const begunCpu = process.cpuUsage();
  await (isSorted ? fillInOrder(path, size) : write(path, size));
  const writtenUs = (1000 * (performance.now() - begunMs)) / size;
  const { user, system } = process.cpuUsage(begunCpu);
  const cpuUs = (user + system) / size;
  const cells = await askIndex(path, size);
  return { size, writtenUs, cpuUs, bytes: statSync(path).size / size, cells };
}

function fillInOrder(path, size) {
  const sinceMs = performance.now();
  const say = (what) => {
    const seconds = Math.round((performance.now() - sinceMs) / 1000);
    process.stderr.write(`${seconds} s: ${what}\n`);
  };
  return fillSorted(path, { size, widths, objectAt, say });
}

async function write(path, size) {
  const writer = await ObjectIndexWriter.open(path, 'all', async () => true);
  for (let at = 0; at < size; at += batch) {
    await writer.write(async () => {
      const rows = Array.from({ length: Math.min(batch, size - at) }, (_, i) =>
        objectAt(at + i, size),
      );
      await writer.put(rows.map((version) => ({ ...placeOf(version), version })));
      return { through: 0, commitment: null, scan: null };
    });
  }
  writer.close();
}

async function askIndex(path, size) {
  const reader = new CandidateReader(path, 'all');
  const cells = [];
  for (const text of queries(size)) {
    const query = parseQuery(text, Date.now());
    const wanted = {
      bucketId: 1,
      query,
      ...spanOf(query),
      exclusive: false,
      max: 1000,
      isBlind: false,
    };
    const took = [];
    for (let i = 0; i < asks; i++) {
      const sinceMs = performance.now();
      await reader.find(wanted);
      took.push(performance.now() - sinceMs);
    }
    cells.push([text, took]);
  }
  reader.close();
  return cells;
}

function showIndexes(found) {
  const shown = (took) => `${number(median(took))}, ${number(quantile(took, 0.99))}`;
  const head = [
    'first page of candidates, ms: median, p99',
    ...found.map((one) => count(one.size)),
  ];
  const rows = [
    ['written, µs an object', ...found.map((one) => number(one.writtenUs))],
    ['of that of a core', ...found.map((one) => number(one.cpuUs))],
    ['size, bytes an object', ...found.map((one) => count(Math.round(one.bytes)))],
    ...found[0].cells.map(([text], i) => [
      found.at(-1).cells[i][0] === text ? text : text.replace(/\d{3,}/g, 'N'),
      ...found.map((one) => shown(one.cells[i][1])),
    ]),
  ];
  process.stdout.write(`${table({ head, rows }).join('\n')}\n\n`);
}

const agent = new Agent({ keepAlive: true });
/** Objects that pages are asked of. */
const paged = Number(pagedText ?? 20_000);
const lagSeconds = 15;
/** The threads that a PUT waits for. */
const serving = ['MainThread', 'ledger', 'libuv-worker'];

/** Objects with tags and metadata, as the index alone has them. */
async function fill(target) {
  let next = 0;
  const worker = async () => {
    while (next < paged) await putDescribed(target, objectAt(next++, paged));
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

async function putDescribed({ host, port, accessKeyId, secretAccessKey: secret }, object) {
  const path = `/paged/${object.key}`;
  const { metadata, tags } = JSON.parse(object.attributes);
  const headers = {
    ...{ host: `${host}:${port}`, 'content-length': '0', 'content-type': 'x/y' },
    'x-amz-tagging': new URLSearchParams(tags).toString(),
    ...Object.fromEntries(Object.entries(metadata).map(([n, value]) => [`x-amz-meta-${n}`, value])),
  };
  const signed = signRequest({
    ...{ accessKeyId, secret, region: 'us-east-1', method: 'PUT', path, query: [], headers },
    ...{ payloadHash: emptySha256, timeMs: Date.now() },
  });
  const asked = request({
    host,
    port,
    path,
    method: 'PUT',
    agent,
    headers: { ...headers, ...signed },
  });
  asked.end();
  const [answer] = await once(asked, 'response');
  const said = Buffer.concat(await answer.toArray()).toString();
  if (answer.statusCode !== 200) throw new Error(`PUT ${path}: ${answer.statusCode} ${said}`);
}

async function page(target, text, limit) {
  const query = `limit=${limit}&where=${percentEncode(text, false)}`;
  const path = '/_/v1/tenants/default/buckets/paged/objects';
  const sinceMs = performance.now();
  const { status, body: bytes } = await send(target, { method: 'GET', path, query, agent });
  if (status !== 200) throw new Error(`${path}: ${status} ${bytes}`);
  return { tookMs: performance.now() - sinceMs, count: JSON.parse(bytes).count };
}

/** Pages one after the other, and then four at a time, while the main thread's turns are noted. */
async function measurePages(target, turns, text, limit) {
  const took = [];
  let count = 0;
  for (let i = 0; i < asks; i++) {
    const one = await page(target, text, limit);
    took.push(one.tookMs);
    count = one.count;
  }
  const sinceMs = Date.now();
  const many = async () => {
    while (Date.now() < sinceMs + 1500) await page(target, text, limit);
  };
  await Promise.all(Array.from({ length: 4 }, many));
  await sleep(200);
  const [main, ledger] = ['main', 'ledger'].map((name) => longestOf(`${turns}-${name}`, sinceMs));
  return [text, limit, count, median(took), quantile(took, 0.99), ...main, ...ledger];
}

/** The longest turn since then, milliseconds of the thread's processor and by the clock. */
function longestOf(file, sinceMs) {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const noted = lines.map((line) => line.split(' ').map(Number)).filter(([at]) => at > sinceMs);
  return [1, 2].map((column) => Math.max(...noted.map((one) => one[column])));
}

/** PUTs beside those of a gateway without an index, and what of a core the threads take for one. */
async function comparePuts(servers) {
  for (const server of Object.values(servers)) {
    await makeBucket(server.target, bucket);
    pause(server);
  }
  const workloads = [smallWorkload('put', 8)];
  const say = (line) => process.stdout.write(`${line}\n`);
  const [compared] = await withLoadTool((tool) =>
    compareInTurns(servers, { workloads, rounds, tool, say }),
  );
  for (const turn of Object.values(compared.turns).flat()) {
    turn.servingMs = serving.reduce((sum, name) => sum + (turn.byThread[name] ?? 0), 0);
  }
  const ratio = (of) => interval(ratioBetween(compared, { ours: 'with', other: 'without', of }));
  say(`with the index, ratios: PUTs a second ${ratio('perSecond')}; of a core for one, in threads`);
  say(`that serve ${ratio('servingMs')}, in all ${ratio('cpuMs')}\n`);
  for (const server of Object.values(servers)) resume(server);
}

/** How far the index is behind while objects of 4 KiB are put as fast as can be. */
async function measureLag({ target }) {
  const lags = [];
  let isEnded = false;
  const look = async () => {
    for (; !isEnded; await sleep(200)) lags.push(await readLagSeconds(target));
  };
  const looking = look();
  const load = await withLoadTool((tool) =>
    tool.run({
      ...{ target, bucket, kind: 'put', keyPrefix: 'lag', keyCount: 20_000, sizeBytes: 4096 },
      ...{ connections: 16, seconds: lagSeconds, warmupSeconds: 0.1, seed: 1 },
    }),
  );
  isEnded = true;
  await looking;
  const sinceMs = performance.now();
  while ((await readLagSeconds(target)) > 0) await sleep(100);
  const after = number((performance.now() - sinceMs) / 1000);
  const [half, most] = [median(lags), Math.max(...lags)].map(number);
  process.stdout.write(
    `at ${count(Math.round(load.perSecond))} PUTs a second for ${lagSeconds} s the index is ` +
      `${half} s behind, ${most} at most, and ${after} s after them not at all\n\n`,
  );
}

async function readLagSeconds({ host, port }) {
  const headers = { authorization: `Bearer ${metricsToken}` };
  const answer = await fetch(`http://${host}:${port}/_/metrics`, { headers });
  const [, lag] = /^bursar_object_index_lag_seconds (\S+)$/m.exec(await answer.text()) ?? [];
  return Number(lag);
}

async function measureGateways() {
  const turns = join(dir, 'turns');
  const nodeArgs = ['--import', join(import.meta.dirname, 'loop-delay.mjs')];
  const begin = (name, args) =>
    startGateway({ dir: join(dir, name), args, nodeArgs, env: { LOOP_DELAY_FILE: turns + name } });
  const without = await begin('without', ['--object-index', 'off']);
  const servers = { with: await begin('with', []), without };
  await comparePuts(servers);
  pause(without);
  await measureLag(servers.with);
  const { target } = servers.with;
  await makeBucket(target, 'paged');
  await fill(target);
  const last = `meta.run = ${paged - 1}`;
  while ((await page(target, last, 10)).count === 0) await sleep(500);
  await sleep(2000);
  const rows = [];
  for (const limit of [100, 1000]) {
    for (const text of [...queries(paged), 'not size < 0', 'owner != "nobody" and size > 5']) {
      rows.push(await measurePages(target, `${turns}with`, text, limit));
    }
  }
  const head = ['through the gateway', 'limit', 'found', 'median, ms', 'p99'];
  head.push('main thread: longest turn, ms', 'by the clock', "ledger's", 'by the clock');
  const shown = rows.map(([text, ...cells]) => [text, ...cells.map((one) => number(one))]);
  process.stdout.write(`${table({ head, rows: shown }).join('\n')}\n`);
}

try {
  const found = [];
  for (let size = isSorted ? most : 1000; size <= most; size *= 10) {
    if (size > 0) found.push(await measureIndex(size));
  }
  if (found.length > 0) showIndexes(found);
  if (rounds > 0) await measureGateways();
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}
