// How long a gateway is missed whose machine dies: from SIGKILL to the first write that the
// promoted standby acknowledges. Both run on this machine, with one S3 server that has the store
// and what is shipped. Nobody is waited for who would notice the death and decide.
import { execFile, spawn } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { makeBucket } from './control.mjs';
import { number, table } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { backendEnv, startGateway, startVersitygw, urlOf } from './servers.mjs';
import { bucket, sizeBytes, withLoadTool } from './short-turns.mjs';
import { median } from './statistics.mjs';

const main = resolve(import.meta.dirname, '../app/main.js');
const run = promisify(execFile);
const shippedBucket = 'bursar-backups';
const place = `s3://${shippedBucket}/bursar`;
const waitMsMax = 300_000;
const steps = {
  promote: '`standby promote`',
  serve: '`serve`, until it is ready',
  put: 'the first write',
};

/** @param {{dir: string, effort: {standby: object}, say: (line: string) => void}} options */
export function benchStandby({ dir, effort: { standby: effort }, say }) {
  return withLoadTool(async (tool) => {
    const rounds = [];
    for (let round = 0; round < effort.rounds; round++) {
      const folder = join(dir, String(round));
      mkdirSync(folder);
      const seconds = await measureOne({ dir: folder, effort, tool });
      rounds.push(seconds);
      say(`standby: ${number(totalOf(seconds))} s from the kill to the first write`);
      await stopAll();
    }
    return { ...effort, rounds };
  });
}

async function measureOne({ dir, effort: { keyCount, seconds }, tool }) {
  const backend = await startVersitygw({ dir });
  await makeBucket(backend.target, shippedBucket);
  const first = join(dir, 'first');
  const second = join(dir, 'second');
  mkdirSync(first);
  const where = ['--backup-to', place, '--backup-endpoint', urlOf(backend), '--backup-path-style'];
  const args = [...where, '--backup-ship-every', '1s'];
  const gateway = await startGateway({ dir: first, backend, args });
  const { target } = gateway;
  await makeBucket(target, bucket);
  const plan = { target, bucket, keyPrefix: 'kept', keyCount, sizeBytes };
  const filled = await tool.run({ ...plan, kind: 'fill', connections: 16 });
  if (filled.errors > 0) throw new Error(filled.firstError);
  const data = join(second, 'bursar');
  cpSync(join(first, 'bursar', 'keys'), join(data, 'keys'), { recursive: true });
  const follower = follow(data, backend);
  try {
    await untilFollowed(data);
    const load = { ...plan, kind: 'put', connections: 16, seconds, warmupSeconds: 0, seed: 1 };
    const { errors, firstError } = await tool.run(load);
    if (errors > 0) throw new Error(firstError);
    process.kill(gateway.pid, 'SIGKILL');
    return await takeOver({ second, data, backend });
  } finally {
    follower.kill('SIGKILL');
  }
}

async function takeOver({ second, data, backend }) {
  const begunMs = performance.now();
  const store = ['--store', 's3://bursar-store', '--store-endpoint', urlOf(backend)];
  const promotion = [main, 'standby', 'promote', '--data', data, ...store, '--store-path-style'];
  await run(process.execPath, promotion, { env: { ...plainEnv(), ...backendEnv } });
  const promotedMs = performance.now();
  const { target } = await startGateway({ dir: second, backend, isStoreThere: true });
  const servedMs = performance.now();
  await makeBucket(target, 'after');
  const endMs = performance.now();
  return {
    promote: (promotedMs - begunMs) / 1000,
    serve: (servedMs - promotedMs) / 1000,
    put: (endMs - servedMs) / 1000,
  };
}

function follow(data, backend) {
  const where = ['--s3-endpoint', urlOf(backend), '--s3-path-style'];
  const args = [main, 'standby', 'follow', place, '--data', data, ...where];
  return spawn(process.execPath, args, {
    stdio: 'ignore',
    env: { ...plainEnv(), ...backendEnv },
  });
}

/** Waits until it has what is shipped by now. */
async function untilFollowed(data) {
  const sinceMs = Date.now();
  while (Date.now() - sinceMs < waitMsMax) {
    const asked = [main, 'standby', 'show', '--data', data, '--json'];
    const askedMs = Date.now();
    const told = await run(process.execPath, asked, { env: plainEnv() }).catch(() => null);
    const status = told && JSON.parse(told.stdout);
    if (status?.segment && askedMs - status.secondsBehind * 1000 > sinceMs) return;
    await sleep(500);
  }
  throw new Error('the standby does not follow');
}

/** Without settings of AWS and Bursar. */
function plainEnv() {
  const all = Object.entries(process.env);
  return Object.fromEntries(all.filter(([name]) => !/^(AWS|BURSAR)_/.test(name)));
}

function totalOf(seconds) {
  return Object.values(seconds).reduce((sum, one) => sum + one);
}

export function describeStandby({ keyCount, rounds }) {
  const middle = (of) => number(median(rounds.map(of)));
  return [
    `A gateway with ${keyCount} objects of 4 KiB in an S3 store is killed by SIGKILL under ` +
      'load, while a',
    '[standby](admin/standby.md) on the same machine follows what it ships each second. ' +
      'Seconds from then until',
    `the standby has acknowledged a write, medians of ${rounds.length}, the longest in ` +
      'brackets. Three of',
    'them are what a promotion waits for.',
    '',
    ...table({
      head: ['', 'seconds'],
      rows: [
        ...Object.entries(steps).map(([step, title]) => [title, middle((one) => one[step])]),
        ['all', `${middle(totalOf)} [${number(Math.max(...rounds.map(totalOf)))}]`],
      ],
    }),
  ];
}
