// The rooms' import rules (ARCHITECTURE.md) hold, and so do the linter's rules that belong to them.
// Each rule is tried on a planted violation, in a copy, so that one that checks nothing cannot
// pass.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const biome = resolve('node_modules/.bin/biome');
const checker = resolve('scripts/check-imports.mjs');
let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-rooms-'));
  cpSync('biome.json', join(folder, 'biome.json'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function plant(path: string, text: string): void {
  mkdirSync(join(folder, dirname(path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

/** What the linter and the check of imports say against what was planted. */
const lint = (): string => complaints(biome, ['lint', '--max-diagnostics=none', 'src']);
const checkImports = (): string => complaints(process.execPath, [checker, 'src']);

function complaints(program: string, args: string[]): string {
  try {
    execFileSync(program, args, { cwd: folder, stdio: 'pipe' });
    return '';
  } catch (error) {
    const { stdout, stderr } = error as { stdout: Buffer; stderr: Buffer };
    return `${stdout}${stderr}`;
  }
}

const used = (specifier: string): string =>
  `import { thing } from '${specifier}';\n\nexport const used = thing;\n`;

describe('the rooms', () => {
  it.each([
    ['src/core/planted.ts', '../authz/identity.ts'],
    ['src/authz/planted.ts', '../catalog/buckets.ts'],
    ['src/quota/planted.ts', '../audit/record.ts'],
    ['src/catalog/planted.ts', '../tiering/chunk-format.ts'],
    ['src/audit/planted.ts', '../quota/usage.ts'],
    ['src/tiering/stores/planted.ts', '../../catalog/extents.ts'],
    ['src/ledger/planted.ts', '../gateway/server.ts'],
    ['src/ledger/planted.ts', '../backup/create.ts'],
    ['src/ledger/planted.ts', '../state/state.ts'],
    ['src/state/planted.ts', '../gateway/server.ts'],
    ['src/backup/planted.ts', '../gateway/server.ts'],
    ['src/backup/forward/planted.ts', '../../server/settings/config.ts'],
    ['src/gateway/planted.ts', '../backup/create.ts'],
    ['src/gateway/planted.ts', '../cli/api-client.ts'],
    ['src/server/planted.ts', '../cli/api-client.ts'],
    ['src/server/folder/planted.ts', '../../cli/output.ts'],
    ['src/cli/planted.ts', '../server/composition.ts'],
    ['src/cli/planted.ts', '../server/opened-ledger.ts'],
    ['src/gateway/s3/operations/planted.ts', '../../../server/settings/config.ts'],
    ['src/ledger/planted.ts', 'fastify'],
    ['src/catalog/planted.ts', 'better-sqlite3'],
    ['src/core/planted.ts', 'better-sqlite3'],
    ['src/gateway/planted.ts', '@aws-sdk/client-s3'],
    ['src/gateway/planted.ts', '@aws-sdk/client-sqs'],
    ['src/authz/tokens/planted.ts', 'jose'],
    ['src/gateway/planted.ts', 'jose'],
    ['src/authz/oidc/planted.ts', '../../catalog/buckets.ts'],
  ])('refuse that %s imports %s', (path, specifier) => {
    plant(path, used(specifier));
    expect(checkImports()).toContain(`${path} imports ${specifier}`);
  });

  it.each([
    ["import type { Thing } from '../gateway/server.ts';", '../gateway/server.ts'],
    ["export * from '../cli/main.ts';", '../cli/main.ts'],
    ["import {\n  thing,\n} from '../cli/main.ts';", '../cli/main.ts'],
    ["import '../backup/create.ts';", '../backup/create.ts'],
    ["const loaded = await import('../cli/main.ts');", '../cli/main.ts'],
    ["new Worker(new URL('../cli/worker.js', import.meta.url));", '../cli/worker.js'],
    ["const jose = createRequire(import.meta.url)('jose');", 'jose'],
    ["import { S3Client } from '@aws-sdk/client-s3/dist/index.js';", '@aws-sdk/client-s3'],
  ])('refuse %s', (line, specifier) => {
    plant('src/ledger/planted.ts', `${line}\n`);
    expect(checkImports()).toContain(`src/ledger/planted.ts imports ${specifier}`);
  });

  it('refuse files outside them', () => {
    plant('src/elsewhere/planted.ts', 'export const one = 1;\n');
    expect(checkImports()).toContain('src/elsewhere/planted.ts elsewhere is no room');
  });

  it('hold in the tree', () => {
    expect(execFileSync(process.execPath, [checker, 'src'], { encoding: 'utf8' })).toBe('');
  });

  it.each([
    ['src/ledger/planted.ts', '../catalog/buckets.ts'],
    ['src/gateway/s3/operations/planted.ts', '../../../ledger/commit.ts'],
    ['src/gateway/planted.ts', 'fastify'],
    ['src/core/database.ts', 'better-sqlite3'],
    ['src/authz/oidc/planted.ts', 'jose'],
    ['src/server/planted.ts', '../gateway/server.ts'],
    ['src/cli/planted.ts', '../server/main.ts'],
    ['src/cli/planted.ts', '../server/settings/config.ts'],
    ['src/cli/planted.ts', '../server/folder/data-folder.ts'],
    ['src/cli/planted.ts', '../server/processes/probe-job.ts'],
    ['src/backup/planted.ts', '../ledger/commit.ts'],
    ['src/ledger/backup/planted.ts', '../../audit/record.ts'],
    ['src/ledger/planted.ts', './backup/planted.ts'],
    ['src/quota/prices/planted.ts', '../../../price-books/some.js'],
  ])('allow that %s imports %s', (path, specifier) => {
    plant(path, used(specifier));
    expect(checkImports()).toBe('');
  });

  it('refuse a cycle of imports', () => {
    plant(
      'src/core/one.ts',
      `import { two } from './two.ts';\n\nexport const one = (): number => two();\n`,
    );
    plant(
      'src/core/two.ts',
      `import { one } from './one.ts';\n\nexport const two = (): number => one();\n`,
    );
    expect(lint()).toContain('noImportCycles');
  });

  it('refuse the environment outside server/settings/config', () => {
    plant('src/gateway/planted.ts', 'export const home = process.env.HOME;\n');
    expect(lint()).toContain('noProcessEnv');
  });
});

/** What only main programs may touch: they alone speak on a terminal, and end the process. */
const ofMains = /\bprocess\.(?:stdout|stderr|exit|abort|kill)\b|\bconsole\.|\bwriteSync\([12],/;
/** In a thread, `process.exit` ends the thread alone. */
const mains = [
  ...['src/cli/', 'src/server/main.ts'],
  ...['src/ledger/worker.ts', 'src/server/threads/http-thread.ts'],
];

/** Files under `src` that speak or end where only a main program may. */
function loudFiles(): string[] {
  return readdirSync(join(folder, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => `src/${path}`)
    .filter((path) => path.endsWith('.ts') && !mains.some((main) => path.startsWith(main)))
    .filter((path) => ofMains.test(readFileSync(join(folder, path), 'utf8')));
}

describe('what an operator is told, and the end of the process', () => {
  it('are for cli/ and server/main.ts: all else fails upwards and writes to the log', () => {
    cpSync('src', join(folder, 'src'), { recursive: true });
    expect(loudFiles()).toEqual([]);
  });

  it.each([
    ['src/server/planted.ts', "process.stderr.write('lost');"],
    ['src/instruments/planted.ts', "process.stdout.write('lost');"],
    ['src/tiering/stores/planted.ts', 'process.exit(1);'],
    ['src/gateway/planted.ts', "console.error('lost');"],
    ['src/tiering/planted.ts', "fs.writeSync(2, 'lost');"],
  ])('are found in %s: %s', (path, text) => {
    plant(path, text);
    expect(loudFiles()).toEqual([path]);
  });
});
