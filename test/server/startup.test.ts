// What few need is loaded when it is first needed, so that gateways and commands start fast.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from 'vitest';

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'bursar-startup-'));
afterAll(() => rmSync(folder, { recursive: true }));

// What is told goes to a file: a pipe that is full when the process ends loses the last of it.
const hook = (told: string): string => `
import { appendFileSync } from 'node:fs';
export async function load(url, context, next) {
  appendFileSync(${JSON.stringify(told)}, url + '\\n');
  return next(url, context);
}`;
/** Tells of each module that is imported, and at the end of those that were required. */
const watch = (told: string): string => `
import { appendFileSync } from 'node:fs';
import { createRequire, register } from 'node:module';
register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hook(told))}`)});
await import(process.argv[1]);
const required = Object.keys(createRequire(process.argv[1]).cache);
appendFileSync(${JSON.stringify(told)}, required.join('\\n'));
process.exit();
`;

/** The npm packages that importing a file of ours loads. */
async function packagesOf(file: string): Promise<Set<string>> {
  const told = join(folder, file.replaceAll('/', '-'));
  await run(process.execPath, ['--input-type=module', '-e', watch(told), resolve('dist', file)]);
  const found = readFileSync(told, 'utf8').matchAll(/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//g);
  return new Set([...found].map(([, name]) => String(name)));
}

it('a gateway starts without what only some have: S3 stores, outside issuers, traces', async () => {
  const packages = await packagesOf('server/main.js');
  expect(packages).toContain('fastify');
  for (const name of ['undici', 'jose', '@aws-sdk/client-s3', '@aws-sdk/client-kms', 'echarts']) {
    expect(packages).not.toContain(name);
  }
  // Of OpenTelemetry prom-client has the interface.
  const traces = [...packages].filter((name) => name.startsWith('@opentelemetry/'));
  expect(traces).toEqual(['@opentelemetry/api']);
});

it('a command of the administration is loaded without the gateway', async () => {
  expect(await packagesOf('cli/identity-commands.js')).toEqual(new Set(['commander']));
});
