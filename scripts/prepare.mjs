// Makes the checkout ready to run: installs the locked dependencies when they are missing or have
// changed, then builds. Runs before `npm start` and `npm test`, so each works as the first command.
//
//   node scripts/prepare.mjs [all]
//
// Without `all` it leaves out what only tests, checks and the bench need.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';

const stamp = 'node_modules/.bursar-lock';
const lock = createHash('sha256').update(readFileSync('package-lock.json')).digest('hex');
const wanted = process.argv[2] === 'all' ? [`${lock} all`] : [`${lock} all`, `${lock} serving`];
const installed = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';

if (!wanted.includes(installed)) {
  const extent = wanted.at(-1);
  const omit = extent.endsWith(' all') ? '--include=dev' : '--omit=dev';
  // What serves may be running from this folder: where only packages for tests are missing, it
  // stays as it is and they are added.
  const isAdding = installed === `${lock} serving`;
  const install = isAdding ? ['install', '--no-save'] : ['ci'];
  run('npm', [...install, omit, '--no-audit', '--no-fund']);
  // Where SQLite's module has no build for the platform, it is made from its source.
  if (!loadsSqlite()) run('npm', ['rebuild', '--ignore-scripts=false', 'better-sqlite3']);
  writeFileSync(stamp, extent);
}
run(process.execPath, ['scripts/build.mjs']);
// The modules, each for itself, as tests import them. Types are for `npm run check`: what does not
// pass there is built all the same.
if (process.argv[2] === 'all') run('node_modules/.bin/tsc', ['-p', 'tsconfig.json', '--noCheck']);

function loadsSqlite() {
  const script = "new (require('better-sqlite3'))(':memory:')";
  return spawnSync(process.execPath, ['-e', script], { stdio: 'ignore' }).status === 0;
}

function run(command, args) {
  try {
    execFileSync(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  } catch (error) {
    process.exit(error.status ?? 1);
  }
}
