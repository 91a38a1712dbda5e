// How long a gateway takes to start among a million grants: the time from the process's begin until
// it listens, and the process's CPU, in alternating runs of builds that are given as folders.
//
//   node bench/sealed-start.mjs prepare DIR 1000000     a data folder with so many grants
//   node bench/sealed-start.mjs run DIR/A=BUILD ...     starts each three times, in turns
//
// A folder is prepared by the build under test itself; of an older release, with its own `dist`.
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { mainOf } from './servers.mjs';

const runs = 3;

/** @param {string} folder a data folder that was served once @param {number} count */
async function prepare(folder, count) {
  const { openDatabase } = await import('#bursar/core/database.js');
  const db = openDatabase(join(folder, 'bursar.db'), { readonly: false, cacheKib: 256 * 1024 });
  const sql = 'INSERT INTO grants VALUES (?, ?, ?, ?)';
  db.exec('BEGIN');
  for (let i = 0; i < count; i++) {
    const name = `grant-${String(i).padStart(8, '0')}`;
    const rule = {
      ...{ name, effect: 'allow', subjects: [`principal:default/p${i % 10_000}`] },
      ...{ actions: ['s3:GetObject', 's3:PutObject'], bucket: `dataset-${i % 1000}` },
      prefix: `run/${i}/`,
    };
    await db.tx.run(sql, 'default', name, JSON.stringify(rule), 1_764_000_000_000 + i);
  }
  db.exec('COMMIT');
  db.close();
  // They are nobody's until they are sealed. Of a release that seals nothing there is no such
  // command.
  const main = mainOf(resolve(import.meta.dirname, '..'));
  spawnSync(process.execPath, [main, 'database', 'accept', '--yes', '--data', folder]);
}

/** Milliseconds until it listens, and of CPU. @param {string} folder @param {string} build */
function start(folder, build) {
  const begun = performance.now();
  const main = mainOf(build);
  const args = [main, 'serve', '--data', folder, '--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  return new Promise((done, fail) => {
    let errors = '';
    child.stderr.on('data', (text) => {
      errors += text;
    });
    child.stdout.once('data', () => {
      const ms = performance.now() - begun;
      const cpuMs = cpuOf(child.pid);
      child.once('exit', () => done({ ms, cpuMs }));
      child.kill('SIGTERM');
    });
    child.once('error', fail);
    child.once('exit', (status) => status && fail(new Error(errors)));
  });
}

/** User and system time of all threads, in ticks of 10 ms on Linux. @param {number} pid */
function cpuOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

const [command, ...rest] = process.argv.slice(2);
if (command === 'prepare') await prepare(rest[0], Number(rest[1]));
else {
  for (let run = 0; run < runs; run++) {
    for (const one of rest) {
      const [folder, build] = one.split('=');
      const { ms, cpuMs } = await start(folder, build);
      process.stdout.write(`${build}: ${Math.round(ms)} ms, ${cpuMs} ms of CPU\n`);
    }
  }
}
