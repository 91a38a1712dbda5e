// What `bursar verify deep` takes: `node bench/verify-deep.mjs [RECORDS ...]` makes folders with so
// many records and as many objects (100,000 and 1,000,000 if none are given), and compares each
// with its records in a process of its own. Prints how long that took, and the most memory that it
// had. `--identities COUNT ...` makes instead so many principals, each with an account and a token.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { verifyDeep } from '#bursar/server/folder/deep-verification.js';
import { loadConfig } from '#bursar/server/settings/config.js';
import { makeBucket } from './control.mjs';
import { openBulkLedger } from './growth/bulk-ledger.mjs';
import { keyAt } from './load.mjs';
import { number, table } from './markdown.mjs';
import { stopAll } from './processes.mjs';
import { startGateway } from './servers.mjs';
import { bucket, withLoadTool } from './short-turns.mjs';

const first = 1000;
const [what, ...rest] = process.argv.slice(2);
if (what === 'measure') await measure(...rest);
else if (what === '--identities') await bench(rest.map(Number), fillIdentities);
else await bench([what, ...rest].filter(Boolean).map(Number), fill);

async function bench(given, fillFolder) {
  const sizes = given.length > 0 ? given : [100_000, 1_000_000];
  const dir = mkdtempSync(join(process.env.TMPDIR ?? '/var/tmp', 'bursar-verify-deep-'));
  try {
    const rows = [];
    for (const size of sizes) {
      const folder = join(dir, String(size));
      await fillFolder(folder, size);
      const data = join(folder, 'bursar');
      const script = fileURLToPath(import.meta.url);
      const said = execFileSync(process.execPath, [script, 'measure', data], { encoding: 'utf8' });
      const { seconds, rssMib, records } = JSON.parse(said);
      const databaseMib = statSync(join(data, 'bursar.db')).size / 2 ** 20;
      const perSecond = records / seconds;
      rows.push([records, seconds, perSecond, rssMib, databaseMib].map((one) => number(one)));
    }
    const head = ['records', 'seconds', 'records a second', 'most memory, MiB', 'database, MiB'];
    console.log(table({ head, rows }).join('\n'));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function fill(folder, size) {
  await withLoadTool(async (tool) => {
    const { target } = await startGateway({ dir: folder });
    await makeBucket(target, bucket);
    const plan = { target, bucket, keyPrefix: 'get', keyCount: first, sizeBytes: 4096 };
    const filled = await tool.run({ ...plan, kind: 'fill', connections: 16 });
    if (filled.errors > 0) throw new Error(filled.firstError);
    await stopAll();
  });
  const ledger = await openBulkLedger(join(folder, 'bursar'));
  const changes = await ledger.changesOf(bucket);
  await ledger.commit(size - first, (i) => {
    const commit = changes.copyTo(keyAt('get', first + i), i);
    const { etag, sha256 } = commit.change.object;
    const digests = { etag, sha256: Buffer.from(sha256).toString('hex') };
    return { ...commit, record: { ...commit.record, ...digests } };
  });
  await ledger.close();
}

async function fillIdentities(folder, count) {
  await startGateway({ dir: folder });
  await stopAll();
  const ledger = await openBulkLedger(join(folder, 'bursar'));
  const issuedMs = Date.now();
  const expiresMs = issuedMs + 7 * 24 * 3600 * 1000;
  await ledger.commit(2 * count, (i) => {
    const name = `person-${i >> 1}`;
    if (i % 2 === 0) {
      const made = { name, principalKind: 'person', role: 'member', groups: [] };
      const told = { action: 'bursar:CreatePrincipal', principal: 'admin' };
      const target = `tenants/default/principals/${name}`;
      return ledger.identityChange({ kind: 'createPrincipal', ...made }, { ...told, target });
    }
    const details = {
      scope: 'storage.read:/',
      holder: null,
      depthMax: 0,
      conditions: {},
      label: null,
    };
    const id = `token-${i >> 1}`;
    const made = { id, principal: name, accessKeyId: null, details, issuedMs, expiresMs };
    const told = { action: 'bursar:CreateToken', target: `tokens/${id}`, principal: name };
    return ledger.identityChange({ kind: 'addToken', ...made }, told);
  });
  await ledger.close();
}

/** Without the stored bytes, which `verify data` reads. */
async function measure(data) {
  const startMs = performance.now();
  const found = [];
  const { records } = await verifyDeep(loadConfig({ data }, {}), {
    ...{ checkpointFiles: [], keys: [], withData: false },
    onDifference: (difference) => found.push(difference),
    onProgress: () => {},
  });
  const seconds = (performance.now() - startMs) / 1000;
  if (found.length > 0) console.error(found.slice(0, 10));
  const rssMib = process.resourceUsage().maxRSS / 1024;
  console.log(JSON.stringify({ records, seconds, rssMib, found: found.length }));
}
