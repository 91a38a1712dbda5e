// Tests see nothing of the configuration of the person who runs them, and clients nothing of each
// other's.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { clientEnvironment } from './tools.ts';

const keys = { accessKeyId: 'id', secretAccessKey: 'secret' };
const isInside = process.env.BURSAR_TEST_PLANTED === '1';

it('has a home, a time zone, a locale and a umask of its own, no others’ settings', () => {
  expect(homedir()).toMatch(/bursar-home-\w+$/);
  expect(new Date(0).getTimezoneOffset()).toBe(0);
  expect(process.env).toMatchObject({ TZ: 'UTC', LC_ALL: 'C.UTF-8' });
  expect(process.umask()).toBe(0o022);
  const others = /^(AWS_(?!CLI$)|RCLONE_|XDG_|npm_|OTEL_|\w+_proxy$|NODE_OPTIONS$)/i;
  expect(Object.keys(process.env).filter((name) => others.test(name))).toEqual([]);
});

it('gives each client a home of its own', () => {
  const homes = [clientEnvironment(keys).HOME ?? '', clientEnvironment(keys).HOME ?? ''];
  expect(new Set(homes).size).toBe(2);
  for (const home of homes) expect(dirname(home)).toBe(homedir());
});

it.skipIf(isInside)('keeps that from whoever has all of it', { timeout: 120_000 }, () => {
  const home = mkdtempSync(join(tmpdir(), 'bursar-planted-home-'));
  try {
    mkdirSync(join(home, '.aws'));
    writeFileSync(join(home, '.aws/config'), '[default]\nregion = nowhere\noutput = table\n');
    writeFileSync(join(home, '.npmrc'), 'ignore-scripts=true\n');
    const env = {
      PATH: process.env.PATH,
      HOME: home,
      XDG_CONFIG_HOME: home,
      TZ: 'Pacific/Chatham',
      LC_ALL: 'tr_TR.UTF-8',
      AWS_PROFILE: 'theirs',
      AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
      RCLONE_CONFIG: join(home, 'rclone.conf'),
      BURSAR_REGION: 'theirs',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
      https_proxy: 'http://127.0.0.1:1',
      npm_config_ignore_scripts: 'true',
      BURSAR_TEST_PLANTED: '1',
      NO_COLOR: '1',
    };
    const vitest = resolve('node_modules/vitest/vitest.mjs');
    const script = `umask 077; exec "$0" "$@"`;
    const command = [process.execPath, vitest, 'run', 'test/tooling/own-environment.test.ts'];
    const printed = execFileSync('sh', ['-c', script, ...command], { env, encoding: 'utf8' });
    expect(printed).toMatch(/2 passed \| 1 skipped/);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});
