// The rooms' import rules (DESIGN section 3) hold because the linter enforces them. Each rule is tried
// on a planted violation, in a copy, so that a rule that checks nothing cannot pass.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const biome = resolve('node_modules/.bin/biome');
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

/** The linter's complaints about what was planted. */
function lint(): string {
  try {
    execFileSync(biome, ['lint', '--max-diagnostics=none', 'src'], { cwd: folder, stdio: 'pipe' });
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
    ['src/core/planted.ts', '../authz/directory.ts'],
    ['src/authz/planted.ts', '../catalog/buckets.ts'],
    ['src/quota/planted.ts', '../audit/records.ts'],
    ['src/catalog/planted.ts', '../tiering/chunk-format.ts'],
    ['src/audit/planted.ts', '../quota/usage.ts'],
    ['src/tiering/stores/planted.ts', '../../catalog/extents.ts'],
    ['src/ledger/planted.ts', '../gateway/server.ts'],
    ['src/ledger/planted.ts', '../backup/create.ts'],
    ['src/backup/planted.ts', '../gateway/server.ts'],
    ['src/backup/forward/planted.ts', '../../cli/config.ts'],
    ['src/gateway/planted.ts', '../backup/create.ts'],
    ['src/gateway/operations/planted.ts', '../../cli/config.ts'],
    ['src/ledger/planted.ts', 'fastify'],
    ['src/catalog/planted.ts', 'better-sqlite3'],
    ['src/core/planted.ts', 'better-sqlite3'],
    ['src/gateway/planted.ts', '@aws-sdk/client-s3'],
    ['src/authz/tokens/planted.ts', 'jose'],
    ['src/gateway/planted.ts', 'jose'],
    ['src/authz/oidc/planted.ts', '../../catalog/buckets.ts'],
  ])('refuse that %s imports %s', (path, specifier) => {
    plant(path, used(specifier));
    expect(lint()).toContain('noRestrictedImports');
  });

  it.each([
    ['src/ledger/planted.ts', '../catalog/buckets.ts'],
    ['src/gateway/operations/planted.ts', '../../ledger/commit.ts'],
    ['src/gateway/planted.ts', 'fastify'],
    ['src/core/database.ts', 'better-sqlite3'],
    ['src/authz/oidc/planted.ts', 'jose'],
    ['src/cli/planted.ts', '../gateway/server.ts'],
    ['src/backup/planted.ts', '../ledger/commit.ts'],
  ])('allow that %s imports %s', (path, specifier) => {
    plant(path, used(specifier));
    expect(lint()).toBe('');
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

  it('refuse the environment outside cli/config', () => {
    plant('src/gateway/planted.ts', 'export const home = process.env.HOME;\n');
    expect(lint()).toContain('noProcessEnv');
  });
});
