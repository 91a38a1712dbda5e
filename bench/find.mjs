// `node bench/find.mjs [OBJECTS]`: what finding objects costs. First the index alone, with a
// thousand, ten thousand, … objects (100,000 by default), each with four tags of which 10 to 10,000
// objects have the same, two of metadata and a key of its own: how large it is, how fast it is
// written, and how long the first page of candidates takes by each kind of comparison. Then
// gateways, with and without an index, in turn: PUTs of 4 KiB, and pages of two equal values.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

async function page(target, limit) {
  const where = encodeURIComponent('class = "STANDARD" and size = 4096');
  const query = `limit=${limit}&where=${where}`;
  const path = '/_/v1/tenants/default/buckets/found/objects';
  const sinceMs = performance.now();
  const { status, body: bytes } = await send(target, { method: 'GET', path, query, agent });
  if (status !== 200) throw new Error(`${path}: ${status} ${bytes}`);
  return performance.now() - sinceMs;
}

async function measureGateways(rounds) {
  const targets = [];
  for (const args of [['--object-index', 'off'], []]) {
    const gateway = await startGateway({ dir: join(dir, `g${args.length}`), args });
    await makeBucket(gateway.target, 'found');
    await put(gateway.target, 2);
    targets.push(gateway.target);
  }
  const ratios = [];
  for (let i = 0; i < rounds; i++) {
    const [without, whole] = [await put(targets[0], 4), await put(targets[1], 4)];
    ratios.push(whole / without);
  }
  await new Promise((resolve) => setTimeout(resolve, 3000));
  process.stdout.write(`PUTs with the index: ${times(median(ratios))} of those without\n`);
  for (const limit of [100, 1000]) {
    const took = [];
    for (let i = 0; i < asks; i++) took.push(await page(targets[1], limit));
    const shown = [0.5, 0.99].map((part) => number(quantile(took, part)));
    process.stdout.write(
      `a page of two equal values, up to ${limit}: ${shown.join(' ms, p99 ')} ms\n`,
    );
  }
}

try {
  const found = [];
  for (let size = 1000; size <= most; size *= 10) found.push(await measureIndex(size));
  showIndexes(found);
  await measureGateways(3);
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}
