// The README's tour, pasted into a shell as a newcomer would: every block, in order, in a copy of
// the checkout and on a free port.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { awsCli, boto3Python, describeWithTool } from '../tooling/tools.ts';
import { blocksOf, readPage, root, sectionOf } from './markdown.ts';

const timeoutMs = 240_000;
const documentedAddress = '127.0.0.1:9000';

describeWithTool(awsCli, "the README's tour", (aws) => {
  describeWithTool(boto3Python, 'in a fresh copy', (python) => {
    let copy: string;
    let address: string;
    let ended: { code: number | null; stdout: string; stderr: string };

    beforeAll(async () => {
      copy = copyCheckout();
      address = `127.0.0.1:${await findFreePort()}`;
      const tools = join(copy, 'tools');
      mkdirSync(tools);
      writeLauncher(join(tools, 'aws'), aws);
      writeLauncher(join(tools, 'python3'), python);
      ended = await runBash(tourScript(address), copy, {
        ...cleanEnvironment(),
        PATH: [tools, dirname(process.execPath), process.env.PATH].join(':'),
        BURSAR_LISTEN: address,
      });
    }, timeoutMs);

    afterAll(() => rmSync(copy, { recursive: true, force: true }));

    it('runs from its first line to its last', () => {
      expect(ended).toMatchObject({ code: 0 });
    });

    it('gives back what it stored, by CLI, by presigned URL and from Python', () => {
      expect(ended.stdout.match(/^hello from the tour$/gm)).toHaveLength(2);
      expect(ended.stdout).toMatch(/^hello from boto3 {'kind': 'demo'}$/m);
      expect(ended.stdout).toMatch(/ notes\/readme\.md$/m);
    });

    it('measures the gateway, and says what limits it', () => {
      expect(ended.stdout).toMatch(/^SERIES +KIND +SIZE /m);
      expect(ended.stdout).toMatch(/by probes: 120 samples, /);
      expect(ended.stdout).toMatch(/^bursar_requests_total\{operation="GetObject",status="2xx"/m);
    });

    it('takes a receipt away that verifies, as the whole log does', () => {
      expect(ended.stdout).toMatch(/^It proves that .* says: .* cms\/alice did s3:PutObject /m);
      expect(ended.stdout).toMatch(/^\d+ entries of .*, all as they were signed /m);
    });

    it('lets a token read until it is revoked', () => {
      expect(ended.stdout).toMatch(/^# Bursar\nrefused, as it should be$/m);
      expect(ended.stderr).toMatch(/^curl: .* 403$/m);
    });

    it('refuses who would list tenants or go beyond a limit, and the byte that was changed', () => {
      expect(ended.stdout.match(/^refused, as it should be$/gm)).toHaveLength(4);
      expect(ended.stderr).toMatch(/AccessDenied/);
      expect(ended.stderr).toMatch(/QuotaExceeded.*principal:cms\/alice on egressBytes per day/);
      expect(ended.stderr).toMatch(/BursarIntegrityError/);
    });

    it('shows usage and records of both tenants', () => {
      expect(ended.stdout).toMatch(/^bucket:cms\/first .* 2 +0 B +owner$/m);
      expect(ended.stdout).toMatch(/^bucket:default\/first .* 2 +0 B +owner$/m);
      expect(ended.stdout).toMatch(
        / cms\/alice +key:\w+ +shared-secret +127\.0\.0\.1 +s3:\w+ +\w+ +\w+ +first\/zeros$/m,
      );
      expect(ended.stdout).toMatch(/^{"accessKeyId":.*"key":"notes\/readme\.md".*}$/m);
    });

    it('leaves nothing running', async () => {
      await expect(fetch(`http://${address}/_/health`)).rejects.toThrow();
    });
  });
});

function tourScript(address: string): string {
  const tour = sectionOf(readPage('README.md').text, 'A tour');
  const lines = blocksOf(tour).map((block) => block.code);
  // Jobs are stopped whole, as in a terminal; and whatever fails, none outlives the test.
  const guard = ['set -m', "trap 'kill %1 2> /dev/null; wait' EXIT"];
  // npx takes longer than what it starts: the first shows that it finds that.
  const first = 'command npx "$@" && touch found';
  const then = 'shift; node app/main.js "$@"';
  const npx = `npx() { if [ -e found ]; then ${then}; else ${first}; fi; }`;
  return [...guard, npx, ...lines].join('\n').replaceAll(documentedAddress, address);
}

/** The files of a clone; its dependencies are links, so that nothing can change the real ones. */
function copyCheckout(): string {
  const copy = mkdtempSync(join(tmpdir(), 'bursar-tour-'));
  const files = ['package.json', 'package-lock.json', 'tsconfig.json', 'README.md'];
  for (const name of [...files, 'price-books', 'scripts', 'src']) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  mkdirSync(join(copy, 'node_modules'));
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name === '.bursar-lock') continue;
    symlinkSync(join(root, 'node_modules', name), join(copy, 'node_modules', name));
  }
  // As scripts/prepare.mjs leaves it: the dependencies are there and need not be fetched again.
  const lock = readFileSync(join(root, 'package-lock.json'));
  const stamp = `${createHash('sha256').update(lock).digest('hex')} all`;
  writeFileSync(join(copy, 'node_modules', '.bursar-lock'), stamp);
  return copy;
}

/**
 * A link would not do: a virtual environment's Python finds its packages by its own name. And a
 * tool that is a script starts what it starts elsewhere, not this launcher again.
 */
function writeLauncher(file: string, path: string): void {
  writeFileSync(file, `#!/bin/sh\nPATH='${process.env.PATH}' exec '${path}' "$@"\n`);
  chmodSync(file, 0o755);
}

/** Without what tests are told. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const own = /^(BURSAR_|CI$)/;
  const entries = Object.entries(process.env).filter(([name]) => !own.test(name));
  return { ...Object.fromEntries(entries), AWS_PAGER: '', NO_PROXY: '*' };
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

/** Stops at the first command that fails. */
async function runBash(script: string, cwd: string, env: NodeJS.ProcessEnv) {
  const child = spawn('bash', ['-e', '-c', script], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutMs - 30_000,
  });
  const out = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (piece: string) => {
      out[name] += piece;
    });
  }
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...out };
}
