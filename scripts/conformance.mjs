// Runs ceph/s3-tests, a public suite of S3 conformance, against a gateway of its own: serves one
// from a temporary folder, makes the users that the suite asks for, writes its configuration, and
// calls pytest. How to get the suite is in docs/conformance.md.
//
//   node scripts/conformance.mjs SUITE [PYTEST-ARGUMENT...]
//
// SUITE is a checkout of the suite; PYTHON names the Python that has what it needs (`python3`).
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '..');
const main = join(root, 'app/main.js');
const plugins = join(root, 'test/conformance');
/** How long a day of lifecycle rules lasts: what the suite waits for takes seconds. */
const daySeconds = 2;
/** A region that answers name, as none does of us-east-1. */
const region = 'eu-central-1';

const [suite, ...given] = process.argv.slice(2);
if (suite === undefined) {
  process.stderr.write('usage: node scripts/conformance.mjs SUITE [PYTEST-ARGUMENT...]\n');
  process.exit(2);
}
const folder = mkdtempSync(join(tmpdir(), 'bursar-conformance-'));
const operator = { id: 'CONFORMANCEOPERATOR0', secret: 'secret-of-the-conformance-operator-01234' };
const gateway = spawn(
  process.execPath,
  [main, 'serve', '--data', join(folder, 'data'), '--listen', '127.0.0.1:0'],
  {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      BURSAR_ROOT_ACCESS_KEY: operator.id,
      BURSAR_ROOT_SECRET_KEY: operator.secret,
      BURSAR_LIFECYCLE_DAY: `${daySeconds}s`,
      BURSAR_REGION: region,
      // The suite opens buckets as soon as they are made, as one could on AWS until 2023.
      BURSAR_BLOCK_PUBLIC_ACCESS: 'no',
    },
  },
);
try {
  const endpoint = await listening();
  administer(endpoint, ['tenant', 'create', 'elsewhere']);
  const users = new Map(
    [
      ['main', 'default/main'],
      ['alt', 'default/alt'],
      ['tenant', 'elsewhere/somebody'],
    ].map(([role, id]) => [role, makeUser(endpoint, id)]),
  );
  const file = join(folder, 's3tests.conf');
  writeFileSync(file, configuration(new URL(endpoint), users));
  process.exitCode = runSuite(file);
} finally {
  gateway.kill('SIGTERM');
  await new Promise((done) => gateway.once('close', done));
  rmSync(folder, { recursive: true, force: true });
}

/** Where the gateway listens. */
function listening() {
  return new Promise((done, fail) => {
    let output = '';
    gateway.once('exit', (status) => fail(new Error(`bursar serve ended with ${status}`)));
    gateway.stdout.setEncoding('utf8').on('data', (text) => {
      output += text;
      const found = /^Bursar serves (http:\S+)/m.exec(output)?.[1];
      if (found === undefined) return;
      gateway.removeAllListeners('exit');
      done(found);
    });
  });
}

function administer(endpoint, words) {
  const env = {
    ...process.env,
    BURSAR_ENDPOINT: endpoint,
    BURSAR_ACCESS_KEY_ID: operator.id,
    BURSAR_SECRET_ACCESS_KEY: operator.secret,
  };
  return execFileSync(process.execPath, [main, ...words], { env, encoding: 'utf8' });
}

function makeUser(endpoint, id) {
  administer(endpoint, ['principal', 'create', id]);
  return { id, ...JSON.parse(administer(endpoint, ['key', 'create', id, '--json'])) };
}

/** The suite has sections for more users than its tests for gateways tell apart. */
function configuration({ hostname, port }, users) {
  const section = (name, role, more = []) => {
    const { id, accessKeyId, secretAccessKey } = users.get(role);
    return [
      `[${name}]`,
      `user_id = ${id}`,
      `display_name = ${id}`,
      `email = ${role}@example.com`,
      `access_key = ${accessKeyId}`,
      `secret_key = ${secretAccessKey}`,
      ...more,
    ];
  };
  const lines = [
    ...['[DEFAULT]', `host = ${hostname}`, `port = ${port}`, 'is_secure = False'],
    ...['ssl_verify = False', '[fixtures]', 'bucket prefix = conformance-{random}-'],
    ...['iam name prefix = conformance-', 'iam path prefix = /conformance/'],
    ...section('s3 main', 'main', [`api_name = ${region}`, `lc_debug_interval = ${daySeconds}`]),
    ...section('s3 alt', 'alt'),
    ...section('s3 tenant', 'tenant', ['tenant = elsewhere']),
    ...section('iam', 'main'),
    ...section('iam root', 'main'),
    ...section('iam alt root', 'alt'),
    '[webidentity]',
    ...['token', 'aud', 'sub', 'azp', 'user_token', 'thumbprint', 'KC_REALM'].map(
      (n) => `${n} = x`,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

/** What pytest says of the tests that apply: its exit code. */
function runSuite(configurationFile) {
  const list = readFileSync(join(plugins, 's3-tests.txt'), 'utf8').split('\n');
  const ids = list.filter((line) => line !== '' && !line.startsWith('#'));
  const { status } = spawnSync(
    process.env.PYTHON ?? 'python3',
    [
      ...['-m', 'pytest', '-p', 'resign', '-p', 'bypass', '-p', 'ownership'],
      ...['-q', '--tb=no', '-W', 'ignore', ...given],
      ...ids.map((id) => join('s3tests/functional', id)),
    ],
    {
      cwd: suite,
      stdio: 'inherit',
      env: {
        ...process.env,
        S3TEST_CONF: configurationFile,
        PYTHONPATH: plugins,
        AWS_DEFAULT_REGION: 'us-east-1',
        AWS_MAX_ATTEMPTS: '1',
      },
    },
  );
  return status ?? 2;
}
