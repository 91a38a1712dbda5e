// How long a gateway takes to start with a long log: `node bench/log-start.mjs [RECORDS]` has a gateway
// make a data folder, appends records (1,000,000 by default) to it while none runs, and starts one again,
// five times. Prints the milliseconds from the start of the process to its first answer that it is
// ready, beside the same for the new folder.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecordLog } from '#bursar/audit/record-log.js';
import { openDatabase } from '#bursar/core/database.js';

const count = Number(process.argv[2] ?? 1_000_000);
const folder = mkdtempSync(join(tmpdir(), 'bursar-log-start-'));
const port = 20_000 + (process.pid % 20_000);

/** Starts a gateway, gives the milliseconds until it is ready, and ends it. */
async function start() {
  const begunMs = performance.now();
  const listen = `127.0.0.1:${port}`;
  const child = spawn(
    process.execPath,
    ['dist/cli/main.js', 'serve', '--data', folder, '--listen', listen],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  const exited = once(child, 'exit');
  while (!(await isReady(listen))) {
    if (child.exitCode !== null) throw new Error('the gateway did not start');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const tookMs = performance.now() - begunMs;
  child.kill('SIGTERM');
  await exited;
  return tookMs;
}

async function isReady(listen) {
  try {
    return (await fetch(`http://${listen}/_/health`)).ok;
  } catch {
    return false;
  }
}

async function startSome() {
  const times = [];
  for (let i = 0; i < 5; i++) times.push(await start());
  return times.map((ms) => Math.round(ms)).join(', ');
}

async function append() {
  const db = openDatabase(join(folder, 'bursar.db'), { readonly: false, cacheKib: 64 * 1024 });
  const log = await RecordLog.open(db.tx);
  const end = log.size + count;
  while (log.size < end) {
    db.exec('BEGIN');
    for (const until = Math.min(log.size + 50_000, end); log.size < until; ) {
      const index = log.size;
      const draft = {
        ...{ action: 's3:GetObject', tenant: `lab-${index % 10}`, principal: `p${index % 500}` },
        ...{ evidence: 'shared-secret', bucket: 'raw', bucketOwner: 'admin', class: 'STANDARD' },
        ...{ key: `run/${index % 7919}.root`, bytesIn: 0, bytesOut: 4096, status: 200 },
        ...{ requestId: 'B4CDB7E28A4A7046', source: `10.0.${index % 7}.${index % 250}` },
      };
      await log.append(draft, {
        ...{ index, timeMs: Date.now(), storedBytes: 0, storedObjects: 0, cost: 5_000_000n },
      });
    }
    await log.flush();
    db.exec('COMMIT');
  }
  db.close();
}

console.log(`a new folder: ${Math.round(await start())} ms, then ${await startSome()}`);
await append();
const mebibytes = Math.round(statSync(join(folder, 'bursar.db')).size / 2 ** 20);
console.log(`${count} records (${mebibytes} MiB): ${await startSome()} ms`);
rmSync(folder, { recursive: true });
