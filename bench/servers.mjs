// Which servers are compared on each path, and how each is started: on a fresh data folder, with
// the same keys.
import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { makeBucket } from './control.mjs';
import { accessKeyId, secretAccessKey, start } from './processes.mjs';

/** With which gateways tell their metrics. */
export const metricsToken = 'metrics-token-of-the-bench';

/** @typedef {import('./processes.mjs').Server} Server */

const ownTree = resolve(import.meta.dirname, '..');
const storeBucket = 'bursar-store';
/** Where the gateways find the backend's keys, and that they look nowhere else. */
export const backendEnv = {
  AWS_ACCESS_KEY_ID: accessKeyId,
  AWS_SECRET_ACCESS_KEY: secretAccessKey,
  AWS_CONFIG_FILE: '/dev/null',
  AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
  AWS_EC2_METADATA_DISABLED: 'true',
};

/** Binaries that a path's comparison wants. */
export const peersOf = { embedded: ['versitygw', 'minio'], s3: ['versitygw'] };

/** The path of a peer's binary: from the variable of its name, or on PATH; or undefined. */
export function findBinary(name) {
  if (process.env[name.toUpperCase()]) return process.env[name.toUpperCase()];
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return join(folder, name);
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/**
 * Starts the servers of a path, the gateway first.
 * @param {'embedded' | 's3'} path
 * @param {{dir: string, gateway: boolean, peers: boolean, profileDir?: string}} options
 * @returns {Promise<Server[]>}
 */
export function startServers(path, options) {
  return path === 's3' ? startS3Path(options) : startEmbeddedPath(options);
}

async function startEmbeddedPath({ dir, gateway, peers, profileDir }) {
  const servers = gateway ? [await startGateway({ dir, profileDir })] : [];
  if (peers && findBinary('versitygw')) servers.push(await startVersitygw({ dir }));
  if (peers && findBinary('minio')) servers.push(await startMinio({ dir }));
  return servers;
}

/** One backend for all: it alone, with the gateway before it, with versitygw's proxy before it. */
async function startS3Path({ dir, gateway, peers, profileDir }) {
  const backend = await startVersitygw({ dir });
  const servers = [];
  if (gateway) servers.push(await startGateway({ dir, profileDir, backend }));
  if (peers) {
    const version = `versitygw ${backend.version}`;
    servers.push({ ...backend, name: 'direct', version, bucketPrefix: 'direct-' });
    servers.push(await startVersitygwProxy({ backend }));
  }
  return servers;
}

/** What `npm start` of a tree starts Node with. */
function nodeFlags(tree) {
  const { scripts } = JSON.parse(readFileSync(join(tree, 'package.json'), 'utf8'));
  const [flags] = /(?<=exec node )(--\S+ )+/.exec(scripts.start) ?? [''];
  return flags.split(' ').filter(Boolean);
}

/**
 * What runs the command of a tree that is built. `isApart`: with each module in a file of its own,
 * as profiles name them and hooks replace them; so it is in releases before 0.2, too.
 */
export function mainOf(tree, { isApart = false } = {}) {
  const whole = join(tree, 'app/main.js');
  return existsSync(whole) && !isApart ? whole : join(tree, 'dist/cli/main.js');
}

/**
 * The gateway on a folder in `dir`, of this tree or of another that is built; `nodeArgs` are for
 * Node itself, `args` are more of the gateway's, and `env` is its. `isStoreThere`: another gateway
 * had the backend.
 */
export async function startGateway(options) {
  const { dir, tree = ownTree, profileDir, backend, nodeArgs = [], env = {} } = options;
  const { args = [], isStoreThere = false } = options;
  const profiling = profileDir ? ['--cpu-prof', `--cpu-prof-dir=${resolve(profileDir)}`] : [];
  const storeArgs = [];
  if (backend) {
    if (!isStoreThere) await makeBucket(backend.target, storeBucket);
    storeArgs.push('--store', `s3://${storeBucket}`, '--store-region', 'us-east-1');
    storeArgs.push('--store-endpoint', urlOf(backend), '--store-path-style');
  }
  const started = await start({
    name: 'bursar',
    version: gatewayVersion(tree),
    command: process.execPath,
    argsFor: (address) => [
      ...[
        ...nodeFlags(tree),
        ...nodeArgs,
        ...profiling,
        mainOf(tree, { isApart: [...nodeArgs, ...profiling].length > 0 }),
        'serve',
        ...storeArgs,
      ],
      ...['--data', join(dir, 'bursar'), '--listen', address, ...args],
    ],
    env: {
      BURSAR_ROOT_ACCESS_KEY: accessKeyId,
      BURSAR_ROOT_SECRET_KEY: secretAccessKey,
      BURSAR_METRICS_TOKEN: metricsToken,
      ...(backend && backendEnv),
      ...env,
    },
    ready: { path: '/_/health', isUnsigned: true },
  });
  return { ...started, backend };
}

/** A folder of its own in `dir`. */
export function startVersitygw({ dir }) {
  const data = join(dir, 'versitygw', 'data');
  const versions = join(dir, 'versitygw', 'versions');
  mkdirSync(data, { recursive: true });
  mkdirSync(versions);
  const mode = ['posix', '--versioning-dir', versions, data];
  return startVersitygwMode({ name: 'versitygw', mode });
}

async function startVersitygwProxy({ backend }) {
  const started = await startVersitygwMode({
    name: 'versitygw-proxy',
    // Over plain HTTP it can store nothing while it computes checksums of its own.
    mode: [
      ...['s3', '--access', accessKeyId, '--secret', secretAccessKey],
      ...['--endpoint', urlOf(backend), '--use-path-style'],
      ...['--disable-checksum', '--disable-data-integrity-check'],
    ],
    env: backendEnv,
  });
  return { ...started, backend, bucketPrefix: 'proxy-' };
}

function startVersitygwMode({ name, mode, env }) {
  const path = findBinary('versitygw');
  return start({
    name,
    version: firstMatch(path, /Version\s*:\s*(\S+)/) ?? moduleVersion(path) ?? 'unknown',
    command: path,
    // Its default closes each connection after one request and prints each request; neither is
    // what is to be compared.
    argsFor: (address) => ['--keep-alive', '--quiet', '--port', address, ...mode],
    env: { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey, ...env },
  });
}

function startMinio({ dir }) {
  const path = findBinary('minio');
  const data = join(dir, 'minio', 'data');
  mkdirSync(data, { recursive: true });
  return start({
    name: 'minio',
    version: moduleVersion(path) ?? firstMatch(path, /version (\S+)/) ?? 'unknown',
    command: path,
    argsFor: (address) => ['server', '--quiet', '--address', address, data],
    env: {
      MINIO_ROOT_USER: accessKeyId,
      MINIO_ROOT_PASSWORD: secretAccessKey,
      MINIO_BROWSER: 'off',
      MINIO_UPDATE: 'off',
      // MinIO declines to use the disk that the operating system is on unless it is told that
      // this is a test.
      MINIO_CI_CD: '1',
    },
  });
}

export function urlOf({ target }) {
  return `http://${target.host}:${target.port}`;
}

function gatewayVersion(tree) {
  const { version } = JSON.parse(readFileSync(join(tree, 'package.json'), 'utf8'));
  const told = { cwd: tree, encoding: 'utf8' };
  const commit = spawnSync('git', ['describe', '--always', '--dirty'], told);
  return commit.status === 0 ? `${version} (${commit.stdout.trim()})` : version;
}

/** What `go install` wrote into the binary. */
function moduleVersion(path) {
  const told = spawnSync('go', ['version', '-m', path], { encoding: 'utf8' });
  return told.status === 0 ? /^\s*mod\s+\S+\s+(\S+)/m.exec(told.stdout)?.[1] : undefined;
}

function firstMatch(path, pattern) {
  const found = pattern.exec(execFileSync(path, ['--version'], { encoding: 'utf8' }))?.[1];
  return found === 'git' || found === 'DEVELOPMENT.GOGET' ? undefined : found;
}
