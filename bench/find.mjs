// `node bench/find.mjs [OBJECTS [ROUNDS]]`: what finding objects costs. First the index alone, with
// a thousand, ten thousand, … objects (100,000 by default), each with four tags of which 10 to
// 10,000 objects have the same, two of metadata and a key of its own: how large it is, how fast it
// is written, and how long the first page of candidates takes by each kind of comparison. Then
// gateways, with and without an index, in turn: PUTs of 4 KiB, and then pages of 20,000 objects by
// each kind of comparison, with the longest turn of the main thread.
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
import { makeBody } from './load.mjs';
import { count, number, table, times } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { median, quantile } from './statistics.mjs';

const most = Number(process.argv[2] ?? 100_000);
/** In which PUTs with and without the index are compared; 0: no gateway is measured. */
const rounds = Number(process.argv[3] ?? 6);
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
  const writer = await ObjectIndexWriter.open(path, 'all', async () => true);
  const begunMs = performance.now();
  const begunCpu = process.cpuUsage();
  for (let at = 0; at < size; at += batch) {
    await writer.write(async () => {
      const rows = Array.from({ length: Math.min(batch, size - at) }, (_, i) =>
        objectAt(at + i, size),
      );
      await writer.put(rows.map((version) => ({ ...placeOf(version), version })));
      return { through: 0, commitment: null, scan: null };
    });
  }
  const writtenUs = (1000 * (performance.now() - begunMs)) / size;
  const { user, system } = process.cpuUsage(begunCpu);
  const cpuUs = (user + system) / size;
  writer.close();
  const reader = new CandidateReader(path, 'all');
  const cells = [];
  for (const text of queries(size)) {
    const query = parseQuery(text, Date.now());
    const wanted = { bucketId: 1, query, ...spanOf(query), exclusive: false, max: 1000 };
    const took = [];
    for (let i = 0; i < asks; i++) {
      const sinceMs = performance.now();
      await reader.find(wanted);
      took.push(performance.now() - sinceMs);
    }
    cells.push([text, took]);
  }
  reader.close();
  return { size, writtenUs, cpuUs, bytes: statSync(path).size / size, cells };
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
const body = makeBody(4 * 1024);
/** Objects that pages are asked of. */
const paged = 20_000;

async function put(target, seconds) {
  let written = 0;
  const endMs = performance.now() + seconds * 1000;
  const worker = async (_, w) => {
    for (let i = 0; performance.now() < endMs; i++, written++) {
      const path = `/found/${w}/${i % 2000}`;
      const { status } = await send(target, { method: 'PUT', path, body, agent });
      if (status !== 200) throw new Error(`PUT ${path}: ${status}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  return written / seconds;
}

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
  const longest = Math.max(...readTurns(turns, sinceMs));
  return [text, limit, count, median(took), quantile(took, 0.99), longest];
}

/** The longest turn of each tenth of a second since then, milliseconds. */
function readTurns(file, sinceMs) {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const pairs = lines.map((line) => line.split(' ').map(Number));
  return pairs.filter(([atMs]) => atMs > sinceMs).map(([, ms]) => ms);
}

async function measureGateways() {
  const targets = [];
  const turns = join(dir, 'turns');
  const nodeArgs = ['--import', join(import.meta.dirname, 'loop-delay.mjs')];
  for (const args of [['--object-index', 'off'], []]) {
    const options = { args, nodeArgs, env: { LOOP_DELAY_FILE: `${turns}${args.length}` } };
    const gateway = await startGateway({ dir: join(dir, `g${args.length}`), ...options });
    await makeBucket(gateway.target, 'found');
    await put(gateway.target, 2);
    targets.push(gateway.target);
  }
  const ratios = [];
  for (let i = 0; i < rounds; i++) {
    // Who is first has the machine as the other one left it.
    const [first, second] = i % 2 ? [1, 0] : [0, 1];
    const rate = [];
    rate[first] = await put(targets[first], 4);
    rate[second] = await put(targets[second], 4);
    ratios.push(rate[1] / rate[0]);
  }
  process.stdout.write(
    `PUTs with the index: ${times(median(ratios))} of those without ` +
      `(${ratios.map(times).join(', ')})\n`,
  );
  const [, target] = targets;
  await makeBucket(target, 'paged');
  await fill(target);
  const last = `meta.run = ${paged - 1}`;
  while ((await page(target, last, 10)).count === 0) await sleep(500);
  await sleep(2000);
  const rows = [];
  for (const limit of [100, 1000]) {
    for (const text of [...queries(paged), 'not size < 0', 'owner != "nobody" and size > 5']) {
      rows.push(await measurePages(target, `${turns}0`, text, limit));
    }
  }
  const head = ['through the gateway', 'limit', 'found', 'median, ms', 'p99', 'longest turn'];
  const shown = rows.map(([text, ...cells]) => [text, ...cells.map((one) => number(one))]);
  process.stdout.write(`${table({ head, rows: shown }).join('\n')}\n`);
}

try {
  const found = [];
  for (let size = 1000; size <= most; size *= 10) found.push(await measureIndex(size));
  if (found.length > 0) showIndexes(found);
  if (rounds > 0) await measureGateways();
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}
