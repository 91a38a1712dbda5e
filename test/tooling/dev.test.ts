// `npm run dev`, on a copy of the tree: a change is served, one that does not compile leaves the
// gateway as it was, and nothing stays behind when it is killed.
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { environmentWithoutSettings } from './served-gateway.ts';

const root = resolve(import.meta.dirname, '../..');
const timeoutMs = 400_000;
/** Compiling on a machine that is busy with other tests takes its time. */
const patience = { timeout: 120_000, interval: 100 };
const changed = 'src/cli/command-table.ts';

let folder = '';
let dev: ChildProcess;
let output = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-dev-'));
  for (const part of ['src', 'dist', 'scripts', 'price-books', 'package.json', 'tsconfig.json']) {
    cpSync(join(root, part), join(folder, part), { recursive: true, preserveTimestamps: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  output = '';
  const args = ['scripts/dev.mjs', '--data', join(folder, 'data'), '--listen', '127.0.0.1:0'];
  dev = spawn(process.execPath, args, {
    cwd: folder,
    env: environmentWithoutSettings(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [dev.stdout, dev.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
}, timeoutMs);

afterEach(() => {
  dev.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

/** The addresses that were served at, in order. */
const served = (): string[] =>
  [...output.matchAll(/^Bursar serves (http:\S+)/gm)].map(([, url]) => String(url));

async function nthServed(count: number): Promise<string> {
  await expect.poll(() => served().length, patience).toBe(count);
  return String(served().at(-1));
}

const isAlive = (url: string): Promise<boolean> =>
  fetch(`${url}/_/health/live`).then(
    ({ ok }) => ok,
    () => false,
  );

function change(text: string): void {
  const path = join(folder, changed);
  writeFileSync(path, `${readFileSync(join(root, changed), 'utf8')}\n${text}\n`);
}

it('serves what was changed, and goes on as it was where that does not compile', {
  timeout: timeoutMs,
}, async () => {
  const first = await nthServed(1);
  change("export const wrong: number = 'text';");
  await expect.poll(() => output, patience).toContain('the gateway goes on as it was');
  expect(output).toContain('TS2322');
  expect(await isAlive(first)).toBe(true);

  change("process.stdout.write('what was changed\\n');");
  const second = await nthServed(2);
  expect(output.indexOf('what was changed')).toBeLessThan(output.indexOf(second));
  expect(await isAlive(second)).toBe(true);

  dev.kill('SIGTERM');
  await expect.poll(() => dev.exitCode, patience).toBe(0);
  expect(await isAlive(second)).toBe(false);
});

it('leaves no gateway behind when it is killed', { timeout: timeoutMs }, async () => {
  const url = await nthServed(1);
  expect(await isAlive(url)).toBe(true);
  dev.kill('SIGKILL');
  await expect.poll(() => isAlive(url), patience).toBe(false);
});
