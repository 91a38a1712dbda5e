// `node bench/legs.mjs [ROUNDS]`: how fast PUTs are into a class of two legs that waits for both,
// beside those into a class of one leg. The legs are folders of one disk, and the data folder. All
// take short turns, so that neighbours in time compare; medians of the ratios are told, with their
// interval of 95%.
import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { signRequest } from '#bursar/core/sigv4.js';
import { callNative, makeBucket } from './control.mjs';
import { makeBody } from './load.mjs';
import { interval, number, table } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { median, medianInterval } from './statistics.mjs';

const KiB = 1024;
const bucket = 'legs';
const rounds = Number(process.argv[2] ?? 20);
const connections = 4;
const agent = new Agent({ keepAlive: true });
const sizes = { '64 KiB': 64 * KiB, '8 MiB': 8 * KiB * KiB };
/** By size, how many PUTs a turn has. */
const puts = { '64 KiB': 64, '8 MiB': 12 };
const classes = {
  one: ['disk1'],
  two: ['disk1', 'disk2'],
  near: ['local', 'disk1'],
};

const dir = mkdtempSync(join(tmpdir(), 'bursar-legs-'));
try {
  const stores = {};
  for (const name of ['disk1', 'disk2']) {
    mkdirSync(join(dir, name));
    stores[name] = { url: pathToFileURL(join(dir, name)).href };
  }
  const { target } = await startGateway({ dir, env: { BURSAR_STORES: JSON.stringify(stores) } });
  await makeBucket(target, bucket);
  for (const [name, legs] of Object.entries(classes)) {
    const durability = { legs: legs.map((store) => ({ store })) };
    await callNative(target, 'POST', ['tenants', 'default', 'classes'], { name, durability });
  }
  const rows = [];
  for (const [title, sizeBytes] of Object.entries(sizes)) {
    const rates = Object.fromEntries(Object.keys(classes).map((name) => [name, []]));
    // The first round warms all up.
    for (let round = 0; round <= rounds; round++) {
      for (const name of Object.keys(classes)) {
        const rate = await takeTurn(target, name, makeBody(sizeBytes), puts[title]);
        if (round > 0) rates[name].push(rate);
      }
    }
    const ratio = (name) =>
      interval(medianInterval(rates[name].map((rate, i) => rate / rates.one[i])));
    const shown = Object.values(rates).map((of) => number(median(of)));
    rows.push([`PUT of ${title}`, ...shown, ratio('two'), ratio('near')]);
  }
  const head = [
    '',
    'one leg, /s',
    'two, /s',
    'data folder and one, /s',
    'two',
    'data folder and one',
  ];
  process.stdout.write(`${table({ head, rows }).join('\n')}`);
} finally {
  agent.destroy();
  await stopAll();
  rmSync(dir, { recursive: true, force: true });
}

/** PUTs a second, of so many. The keys are written anew each time. */
async function takeTurn(target, storageClass, body, count) {
  const payloadHash = hash('sha256', body, 'hex');
  const sinceMs = performance.now();
  let next = 0;
  const writer = async () => {
    while (next < count)
      await put(target, `${storageClass}/${next++}`, { storageClass, body, payloadHash });
  };
  await Promise.all(Array.from({ length: connections }, writer));
  return (count * 1000) / (performance.now() - sinceMs);
}

function put(target, key, { storageClass, body, payloadHash }) {
  const { host, port, accessKeyId, secretAccessKey: secret } = target;
  const path = `/${bucket}/${key}`;
  const headers = {
    host: `${host}:${port}`,
    'content-length': String(body.length),
    'x-amz-content-sha256': payloadHash,
    'x-amz-storage-class': storageClass,
  };
  const signed = signRequest({
    ...{ method: 'PUT', path, query: [], headers, accessKeyId, secret, region: 'us-east-1' },
    ...{ service: 's3', payloadHash, timeMs: Date.now() },
  });
  return new Promise((resolve, reject) => {
    const sent = request(
      { host, port, method: 'PUT', path, headers: { ...headers, ...signed }, agent },
      (answer) => {
        answer.resume();
        answer.on('error', reject);
        answer.on('end', () => {
          if (answer.statusCode === 200) resolve();
          else reject(new Error(`PUT ${path}: ${answer.statusCode}`));
        });
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}
