// `node bench/profile.mjs DIR`: where the time goes, from the CPU profiles that
// `npm run bench -- --profile DIR` wrote: one per thread and path, self time by function.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const shownFunctions = 30;
const dir = process.argv[2];
if (dir === undefined) throw new Error('usage: node bench/profile.mjs DIR');

const files = readdirSync(dir, { recursive: true });
for (const file of files.filter((name) => name.endsWith('.cpuprofile'))) {
  const profile = JSON.parse(readFileSync(join(dir, file), 'utf8'));
  const { totalMs, idleMs, functions } = selfTimes(profile);
  const busyMs = totalMs - idleMs;
  console.log(`\n${file}: ${ms(totalMs)}, busy ${ms(busyMs)} (${share(busyMs, totalMs)})`);
  for (const [name, selfMs] of functions.slice(0, shownFunctions)) {
    if (selfMs < busyMs / 200) break;
    console.log(`  ${share(selfMs, busyMs).padStart(6)}  ${name}`);
  }
}

/** Adds up the samples of each function; `(idle)` is kept apart. */
function selfTimes({ nodes, samples, timeDeltas }) {
  const names = nameNodes(nodes);
  const times = new Map();
  let totalMs = 0;
  samples.forEach((id, index) => {
    const deltaMs = timeDeltas[index] / 1000;
    const name = names.get(id);
    totalMs += deltaMs;
    times.set(name, (times.get(name) ?? 0) + deltaMs);
  });
  const idleMs = times.get('(idle)') ?? 0;
  times.delete('(idle)');
  return { totalMs, idleMs, functions: [...times].sort((a, b) => b[1] - a[1]) };
}

/** A function of Node itself is named together with the nearest caller that is not. */
function nameNodes(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const names = new Map();
  const visit = (node, owner) => {
    const name = nameOf(node.callFrame);
    const foreign = /^(file:|\/)/.test(node.callFrame.url);
    names.set(node.id, foreign || owner === '' ? name : `${name} <- ${owner}`);
    for (const id of node.children ?? []) visit(byId.get(id), foreign ? name : owner);
  };
  visit(nodes[0], '');
  return names;
}

function nameOf({ functionName, url, lineNumber }) {
  const place = url.replace(/^.*?(node_modules|dist)\//, '$1/');
  return place ? `${functionName || '(anonymous)'} ${place}:${lineNumber + 1}` : functionName;
}

function ms(value) {
  return `${Math.round(value)} ms`;
}

function share(part, whole) {
  return `${((part / whole) * 100).toFixed(1)}%`;
}
