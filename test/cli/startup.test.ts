// What few need is loaded when it is first needed, so that gateways and commands start fast.
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const run = promisify(execFile);

/** Tells of each module that is imported. */
const hook = `
import { writeSync } from 'node:fs';
export async function load(url, context, next) {
  writeSync(1, url + '\\n');
  return next(url, context);
}`;
/** Tells at the end of those that were required, too. */
const watch = `
import { createRequire, register } from 'node:module';
register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(hook)}`)});
await import(process.argv[1]);
for (const path of Object.keys(createRequire(process.argv[1]).cache)) console.log(path);
process.exit();
`;

/** The npm packages that importing a file of ours loads. */
async function packagesOf(file: string): Promise<Set<string>> {
  const args = ['--input-type=module', '-e', watch, resolve('dist', file)];
  const { stdout } = await run(process.execPath, args);
  const found = stdout.matchAll(/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//g);
  return new Set([...found].map(([, name]) => String(name)));
}

it('a gateway starts without what only some have: S3 stores, outside issuers, traces', async () => {
  const packages = await packagesOf('cli/serve.js');
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
