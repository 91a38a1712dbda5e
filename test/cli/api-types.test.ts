// What commands take the gateway's answers for is what its description says of them.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeRoutes } from '#bursar/gateway/native/openapi.js';
import { routes } from '#bursar/gateway/native/routes.js';
import { type Fixture, openFixture } from '../gateway/native/fixture.ts';

let gateway: Fixture;

beforeEach(async () => {
  gateway = await openFixture();
});
afterEach(() => gateway.close());

describe('the types of answers', () => {
  it('are made of the description that a gateway serves', async () => {
    const { json } = await gateway.inject({ url: '/_/v1/openapi.json' });
    const made = JSON.parse(JSON.stringify(await describeRoutes(routes)));
    expect(made.paths).toEqual(json.paths);
  });

  it('are up to date: else run `npm run api-types`', () => {
    const made = execFileSync(process.execPath, ['scripts/api-types.mjs'], { encoding: 'utf8' });
    expect(readFileSync('src/cli/api-types.ts', 'utf8')).toBe(made);
  });

  it('do not let a command read what is not answered', () => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-planted-'));
    try {
      const types = resolve('src/cli/api-types.ts');
      const text = `import type { Answers } from '${types}';
export const told = (tenant: Answers['GetTenant']): string => tenant.colour;
`;
      writeFileSync(join(folder, 'planted.ts'), text);
      expect(() => compile(join(folder, 'planted.ts'))).toThrow("Property 'colour' does not exist");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

function compile(file: string): void {
  const compiler = resolve('node_modules/.bin/tsc');
  const flags = ['--noEmit', '--strict', '--allowImportingTsExtensions', '--ignoreConfig'];
  try {
    execFileSync(compiler, [...flags, file], { stdio: 'pipe' });
  } catch (error) {
    throw new Error(String((error as { stdout: Buffer }).stdout));
  }
}
