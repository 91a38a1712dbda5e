// What the machine itself can do, measured in the same run: the numbers beside which the servers'
// have to be read.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { list, number } from './markdown.mjs';
import { runLoad } from './turns.mjs';

const MiB = 1024 * 1024;
const measureMs = 1000;

/** @returns {Promise<{title: string, value: number, unit: string}[]>} */
export async function measureMachineLimits({ dir }) {
  const answers = await measureAnswers();
  return [
    { title: 'write 4 KiB and fdatasync, one after another', value: fsyncRate(dir), unit: '/s' },
    { title: 'write 16 MiB and fdatasync', value: writeRate(dir), unit: 'MB/s' },
    ...answers,
    ...hashRates(),
  ];
}

export function describeMachineLimits(limits) {
  return list(limits.map(({ title, value, unit }) => `${title}: ${number(value)} ${unit}`));
}

/** Runs `step` for about a second and gives the rate of its steps. */
function ratePerSecond(step) {
  const startMs = performance.now();
  let steps = 0;
  while (performance.now() - startMs < measureMs) {
    step();
    steps++;
  }
  return (steps / (performance.now() - startMs)) * 1000;
}

function withFile(dir, use) {
  const path = join(dir, 'limits.tmp');
  const fd = openSync(path, 'w');
  try {
    return use(fd);
  } finally {
    closeSync(fd);
    rmSync(path);
  }
}

function fsyncRate(dir) {
  const block = Buffer.alloc(4096, 1);
  return withFile(dir, (fd) =>
    ratePerSecond(() => {
      writeSync(fd, block);
      fdatasyncSync(fd);
    }),
  );
}

function writeRate(dir) {
  const block = Buffer.alloc(16 * MiB, 1);
  return withFile(dir, (fd) => {
    const steps = ratePerSecond(() => {
      writeSync(fd, block, 0, block.length, 0);
      fdatasyncSync(fd);
    });
    return (steps * block.length) / 1e6;
  });
}

function hashRates() {
  const block = Buffer.alloc(MiB, 1);
  const megabytes = (step) => (ratePerSecond(step) * block.length) / 1e6;
  const rates = ['md5', 'sha256'].map((name) => ({
    title: `${name.toUpperCase()}, one core`,
    value: megabytes(() => createHash(name).update(block).digest()),
    unit: 'MB/s',
  }));
  try {
    const { Blake3Hasher } = createRequire(import.meta.url)('@napi-rs/blake-hash');
    const value = megabytes(() => new Blake3Hasher().update(block).digestBuffer());
    rates.push({ title: 'BLAKE3, one core', value, unit: 'MB/s' });
  } catch {
    // The native module is optional: without it there is no such limit to report.
  }
  return rates;
}

/**
 * How fast the load tool can go against a server that does nothing: its own ceiling for small
 * answers, and the loopback's bandwidth for large ones.
 */
async function measureAnswers() {
  const small = await measureAnswer({ sizeBytes: 4096, connections: 32 });
  const large = await measureAnswer({ sizeBytes: 16 * MiB, connections: 4 });
  return [
    {
      title: 'load tool against an empty server, 4 KiB answers, 32 connections',
      value: small.perSecond,
      unit: '/s',
    },
    {
      title: 'loopback, 16 MiB answers, 4 connections',
      value: large.bytesPerSecond / 1e6,
      unit: 'MB/s',
    },
  ];
}

async function measureAnswer({ sizeBytes, connections }) {
  const server = spawn(process.execPath, [import.meta.filename, String(sizeBytes)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = await new Promise((resolve) => server.stdout.once('data', (text) => resolve(+text)));
  const target = { host: '127.0.0.1', port, accessKeyId: 'none', secretAccessKey: 'none' };
  try {
    return await runLoad({
      target,
      ...{ kind: 'get', bucket: 'limits', keyPrefix: 'get', keyCount: 100 },
      ...{ sizeBytes, connections, seconds: 1, warmupSeconds: 0.5 },
    });
  } finally {
    server.kill();
  }
}

/** Answers each read with the same bytes: each of the load tool's GETs arrives in one read. */
function serveAnswers(sizeBytes) {
  const answerBody = Buffer.alloc(sizeBytes, 1);
  const answerHead = `HTTP/1.1 200 OK\r\nContent-Length: ${sizeBytes}\r\n\r\n`;
  const answer = Buffer.concat([Buffer.from(answerHead), answerBody]);
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('data', () => socket.write(answer));
    socket.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1', () => process.stdout.write(String(server.address().port)));
}

if (process.argv[1] === import.meta.filename) serveAnswers(Number(process.argv[2]));
