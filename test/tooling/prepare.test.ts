// scripts/prepare.mjs, in a checkout with an `npm` and a compiler that only say what they are asked
// for: what is installed, and when.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

/** Installs a SQLite whose module loads if the checkout has its build. */
const npm = `#!/bin/sh
echo "npm $*" >> calls
if [ "$1" = rebuild ]; then touch built; exit; fi
rm -rf node_modules
mkdir -p node_modules/.bin node_modules/better-sqlite3
cp tsc node_modules/.bin/tsc
cp better-sqlite3.js node_modules/better-sqlite3/index.js
`;
const sqlite = `module.exports = class {
  constructor() {
    if (!require('node:fs').existsSync('built')) throw new Error('no build for this platform');
  }
};`;

let checkout = '';
const write = (name: string, text: string) => {
  writeFileSync(join(checkout, name), text);
  chmodSync(join(checkout, name), 0o755);
};

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'bursar-prepare-'));
  for (const folder of ['scripts', 'programs']) mkdirSync(join(checkout, folder));
  cpSync(resolve('scripts/prepare.mjs'), join(checkout, 'scripts/prepare.mjs'));
  write('programs/npm', npm);
  write('tsc', '#!/bin/sh\necho "tsc $*" >> calls');
  write('scripts/build.mjs', "import fs from 'node:fs'; fs.appendFileSync('calls', 'build\\n');");
  write('better-sqlite3.js', sqlite);
  write('package-lock.json', '{}');
  write('built', '');
});

afterEach(() => rmSync(checkout, { recursive: true, force: true }));

/** What it did. */
function prepare(...args: string[]): string[] {
  write('calls', '');
  const path = [join(checkout, 'programs'), dirname(process.execPath), process.env.PATH].join(':');
  execFileSync(process.execPath, ['scripts/prepare.mjs', ...args], {
    cwd: checkout,
    env: { ...process.env, PATH: path },
  });
  return readFileSync(join(checkout, 'calls'), 'utf8').trim().split('\n');
}

const build = 'build';
const modules = 'tsc -p tsconfig.json --noCheck';
const serving = 'npm ci --omit=dev --no-audit --no-fund';
const all = 'npm ci --include=dev --no-audit --no-fund';
const rest = 'npm install --no-save --include=dev --no-audit --no-fund';

it('installs what serving needs, and nothing again while the lock file stays', () => {
  expect(prepare()).toEqual([serving, build]);
  expect(prepare()).toEqual([build]);
  write('package-lock.json', '{ "changed": true }');
  expect(prepare()).toEqual([serving, build]);
});

it('adds the rest when that is asked for, which serving has no need to take away', () => {
  expect(prepare()).toEqual([serving, build]);
  expect(prepare('all')).toEqual([rest, build, modules]);
  expect(prepare('all')).toEqual([build, modules]);
  expect(prepare()).toEqual([build]);
});

it('installs all anew where the lock file is another', () => {
  expect(prepare('all')).toEqual([all, build, modules]);
  write('package-lock.json', '{ "changed": true }');
  expect(prepare('all')).toEqual([all, build, modules]);
});

it('makes SQLite’s module from its source where it has no build for the platform', () => {
  rmSync(join(checkout, 'built'));
  const rebuild = 'npm rebuild --ignore-scripts=false better-sqlite3';
  expect(prepare()).toEqual([serving, rebuild, build]);
  expect(prepare()).toEqual([build]);
});

it('an installation that fails is done again', () => {
  write('programs/npm', '#!/bin/sh\nexit 3');
  expect(() => prepare()).toThrow();
  write('programs/npm', npm);
  expect(prepare()).toEqual([serving, build]);
});
