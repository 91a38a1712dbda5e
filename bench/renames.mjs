// `node bench/renames.mjs [ROUNDS]`: what a rename takes beside a PUT of 4 KiB, and whether that
// grows with the object. The largest has 5 TiB, in extents of 16 MiB that are all the same one: the
// ledger's own code makes it, as a copy. Rounds ask for each in turn, one request at a time, so
// that neighbours in time compare; medians, and the median of the ratios, are told.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { partCountMax } from '#bursar/core/limits.js';
import { emptySha256, signRequest } from '#bursar/core/sigv4.js';
import { makeBucket, send } from './control.mjs';
import { openBulkLedger } from './growth/bulk-ledger.mjs';
import { makeBody } from './load.mjs';
import { count, number, table, times } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { median } from './statistics.mjs';

const KiB = 1024;
const MiB = 1024 * KiB;
const bucket = 'renames';
const rounds = Number(process.argv[2] ?? 100);
const warmups = 10;
const agent = new Agent({ keepAlive: true });

/** By name, how many extents each object has. */
const objects = { 'of 4 KiB': 1, 'of 5 GiB': 320, 'of 5 TiB': 327_680 };
const body = makeBody(4 * KiB);

const dir = mkdtempSync(join(tmpdir(), 'bursar-renames-'));
try {
  // Each object has a gateway to itself, which also takes the PUTs that it is compared with.
  const gateways = [];
  for (const extents of Object.values(objects)) await fill(folderOf(extents), extents);
  for (const extents of Object.values(objects)) {
    gateways.push((await startGateway({ dir: folderOf(extents) })).target);
  }
  const took = gateways.map(() => ({ put: [], rename: [] }));
  for (let round = 0; round < warmups + rounds; round++) {
    for (const [i, target] of gateways.entries()) {
      const timed = async (name, work) => {
        const sinceMs = performance.now();
        await work();
        if (round >= warmups) took[i][name].push(performance.now() - sinceMs);
      };
      await timed('put', () => put(target, `put/${round}`, body));
      await timed('rename', () => rename(target, `key/${round}`, `key/${round + 1}`));
    }
  }
  const rows = Object.entries(objects).map(([title, extents], i) => {
    const { put, rename } = took[i];
    const ratio = median(rename.map((ms, j) => ms / put[j]));
    const shown = [put, rename].map((ms) => number(median(ms)));
    return [`rename ${title}`, count(extents), ...shown, times(ratio)];
  });
  const head = ['', 'extents', 'PUT of 4 KiB, ms', 'rename, ms', 'of a PUT'];
  process.stdout.write(`${table({ head, rows }).join('\n')}`);
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}

function folderOf(extents) {
  return join(dir, String(extents));
}

/** A folder with an object of so many extents, or a small one. */
async function fill(folder, extents) {
  mkdirSync(folder);
  const { target } = await startGateway({ dir: folder });
  await makeBucket(target, bucket);
  await put(
    target,
    extents === 1 ? 'key/0' : 'extent',
    makeBody(extents === 1 ? 4 * KiB : 16 * MiB),
  );
  agent.destroy();
  await stopAll();
  if (extents === 1) return;
  const ledger = await openBulkLedger(join(folder, 'bursar'));
  const changes = await ledger.changesOf(bucket);
  await ledger.commit(1, () => changes.repeat('key/0', extents, Math.min(extents, partCountMax)));
  await ledger.close();
}

async function put(target, key, bytes) {
  await asked(target, { method: 'PUT', path: `/${bucket}/${key}`, body: bytes });
}

function rename(target, from, to) {
  const headers = { 'x-amz-rename-source': from };
  return asked(target, { path: `/${bucket}/${to}`, query: [['renameObject', '']], headers });
}

/** Throws unless the answer is 200; gives its text. */
async function asked(target, { method = 'PUT', path, query = [], headers = {}, body: sent }) {
  if (sent) {
    const answer = await send(target, { method, path, body: sent, agent });
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.body}`);
    return String(answer.body);
  }
  const { host, port, accessKeyId, secretAccessKey: secret } = target;
  const given = { host: `${host}:${port}`, ...headers, 'content-length': '0' };
  const signed = signRequest({
    ...{ method, path, query, headers: given, accessKeyId, secret, region: 'us-east-1' },
    ...{ service: 's3', payloadHash: emptySha256, timeMs: Date.now() },
  });
  const search = query.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
  return new Promise((resolve, reject) => {
    const message = request(
      { host, port, method, path: `${path}?${search}`, headers: { ...given, ...signed }, agent },
      (answer) => {
        const pieces = [];
        answer.on('data', (piece) => pieces.push(piece));
        answer.on('error', reject);
        answer.on('end', () => {
          const text = String(Buffer.concat(pieces));
          if (answer.statusCode === 200) resolve(text);
          else reject(new Error(`${path}: ${answer.statusCode} ${text}`));
        });
      },
    );
    message.on('error', reject);
    message.end();
  });
}
