// `npm run dev`: serves the tree, and when something in src/ or price-books/ has changed, builds it
// and starts the gateway anew. Arguments are those of `bursar serve`.
//
// A build that fails writes nothing, so the gateway goes on as it was and its errors are shown. The
// gateway ends with this process, also where that is killed (end-with-parent.mjs).
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { resolve } from 'node:path';

/** How long nothing must change before a build: editors and git write many files at a time. */
const settleMs = 100;
/** How long a gateway may take to let requests finish before it is killed. */
const stopMsMax = 10_000;

const root = resolve(import.meta.dirname, '..');
const tether = resolve(import.meta.dirname, 'end-with-parent.mjs');
let gateway;
let settling;
/** Builds and restarts go one after another. */
let work = Promise.resolve();
let hasChanged = false;
let isEnding = false;

for (const folder of ['src', 'price-books']) {
  watch(resolve(root, folder), { recursive: true }, () => {
    hasChanged = true;
    clearTimeout(settling);
    settling = setTimeout(() => enqueue(takeChange), settleMs);
  });
}
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, end);
enqueue(start);

function enqueue(step) {
  work = work.then(step);
}

async function takeChange() {
  if (!hasChanged || isEnding) return;
  hasChanged = false;
  const isBuilt = await build();
  if (isEnding) return;
  if (!isBuilt) {
    say(gateway ? 'the build failed; the gateway goes on as it was' : 'the build failed');
    return;
  }
  say('built; the gateway starts anew');
  await stop();
  start();
}

async function build() {
  const tsc = resolve(root, 'node_modules/.bin/tsc');
  const args = ['-p', 'tsconfig.json', '--noEmitOnError', '--pretty'];
  const [status] = await once(spawn(tsc, args, { cwd: root, stdio: 'inherit' }), 'exit');
  return status === 0;
}

function start() {
  if (isEnding) return;
  const main = resolve(root, 'dist/cli/main.js');
  const args = [
    '--max-semi-space-size=16',
    '--enable-source-maps',
    '--import',
    tether,
    main,
    'serve',
    ...process.argv.slice(2),
  ];
  const child = spawn(process.execPath, args, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  gateway = child;
  child.once('exit', (status, signal) => {
    if (gateway !== child) return;
    gateway = undefined;
    if (isEnding) process.exit(status ?? 1);
    say(`the gateway ended (${signal ?? status}); it starts with the next change`);
  });
}

async function stop() {
  const child = gateway;
  gateway = undefined;
  if (!child) return;
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax);
  await once(child, 'exit');
  clearTimeout(timer);
}

/** Lets the gateway finish, and ends with its exit code. A second signal kills it. */
function end() {
  if (!gateway) process.exit(0);
  gateway.kill(isEnding ? 'SIGKILL' : 'SIGTERM');
  isEnding = true;
}

function say(text) {
  process.stderr.write(`dev: ${text}\n`);
}
