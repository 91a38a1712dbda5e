// Settings: where they come from, which wins, and what is said of those that do not fit.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { CommandFailure } from '#bursar/core/command-failure.js';
import { type Environment, type Flags, loadConfig } from '#bursar/server/settings/config.js';
import {
  parseDuration,
  parseListen,
  parseSize,
  parseUrl,
} from '#bursar/server/settings/quantities.js';
import { flagOf, type Setting, variableOf } from '#bursar/server/settings/setting.js';
import { settings } from '#bursar/server/settings/settings.js';
import { Workplace } from '../../cli/command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-config-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

function yaml(text: string): string {
  const file = join(folder, 'bursar.yaml');
  writeFileSync(file, text);
  return file;
}

function refusal(flags: Flags, environment: Environment = {}): string {
  try {
    loadConfig(flags, environment);
  } catch (error) {
    expect(error).toBeInstanceOf(CommandFailure);
    expect((error as CommandFailure).exitCode).toBe(2);
    expect((error as CommandFailure).message).not.toContain('\n');
    return (error as CommandFailure).message;
  }
  throw new Error('was not refused');
}

/** Of a witness. */
const verifier = 'witness.test/w1+01d04467+BB+vmcBNE4edydMOMpJpf494MjwKUjmljQ83lzZhd0ML';

describe('settings', () => {
  test('have their documented defaults', () => {
    expect(loadConfig({}, {})).toEqual({
      data: './bursar-data',
      listen: { host: '127.0.0.1', port: 9000 },
      config: undefined,
      domains: undefined,
      publicUrl: undefined,
      acceptHosts: undefined,
      shareUrl: undefined,
      storedPages: 'sandbox',
      trustedProxies: undefined,
      logOrigin: undefined,
      region: 'us-east-1',
      blockPublicAccess: true,
      rootAccessKey: undefined,
      rootSecretKey: undefined,
      metricsToken: undefined,
      store: { name: 'local' },
      storeEndpoint: undefined,
      storeRegion: undefined,
      storePathStyle: false,
      journalWithKeys: false,
      stores: undefined,
      prices: 'aws/us-east-1',
      priceBooks: undefined,
      bufferMemoryBytes: 134_217_728,
      objectMemoryBytes: 33_554_432,
      stallTimeoutMs: 30_000,
      minRate: 1024,
      refusalRecords: 300,
      revokedDownloads: 'cut',
      shutdownTimeoutMs: 30_000,
      drainMs: 0,
      freeBytesMin: 64 * 1024 * 1024,
      sweepIntervalMs: 60_000,
      sweepGraceMs: 3_600_000,
      lifecycleDayMs: 86_400_000,
      encryption: 'on',
      objectIndex: 'all',
      inlineBytes: 65_536,
      httpThreads: 1,
      connectionsMax: 4096,
      backupTo: undefined,
      backupEveryMs: undefined,
      backupShipEveryMs: undefined,
      backupKeep: 30,
      backupEndpoint: undefined,
      backupRegion: undefined,
      backupPathStyle: false,
      archiveAfterMs: 90 * 24 * 3_600_000,
      archiveStore: undefined,
      witnesses: undefined,
      serverTiming: 'admins',
      migrateWithoutCopy: false,
      trustTraceparent: false,
      trafficSamples: true,
      probe: false,
      probeIntervalMs: 3_600_000,
      probeSpendMax: 5_000_000_000_000n,
      requestLog: true,
      slowRequestMs: 1000,
      logLevel: 'info',
    });
  });

  test('a flag wins over the environment, that over the file, that over the default', () => {
    const config = yaml('region: from-file\nstallTimeout: 1s\nsweepGrace: 2m\n');
    const environment = { BURSAR_REGION: 'from-environment', BURSAR_STALL_TIMEOUT: '2s' };
    expect(loadConfig({ config, region: 'from-flag' }, environment)).toMatchObject({
      region: 'from-flag',
      stallTimeoutMs: 2000,
      sweepGraceMs: 120_000,
      shutdownTimeoutMs: 30_000,
    });
  });

  test('each can be given in all three ways, under names that agree', () => {
    const samples: Record<string, string> = {
      data: '/srv/bursar',
      listen: '[::1]:9001',
      domains: 'a.example,b.example',
      publicUrl: 'https://s3.example.org',
      acceptHosts: 'bursar,*.example.org,192.0.2.1',
      shareUrl: 'https://share.example.org',
      storedPages: 'same-origin',
      trustedProxies: '10.0.0.0/8,::1',
      logOrigin: 'log.example.org/bursar',
      region: 'eu-west-3',
      blockPublicAccess: 'no',
      store: 's3://bucket/prefix',
      storeEndpoint: 'https://s3.example.org',
      storeRegion: 'eu-west-3',
      storePathStyle: 'yes',
      journalWithKeys: 'yes',
      stores: '{cold: {url: s3://archive}}',
      prices: 'none',
      priceBooks: '/etc/bursar/price-books',
      bufferMemoryBytes: '70MiB',
      objectMemoryBytes: '7MiB',
      stallTimeoutMs: '7s',
      minRate: '2KiB',
      refusalRecords: '9',
      revokedDownloads: 'finish',
      shutdownTimeoutMs: '7s',
      drainMs: '3s',
      freeBytesMin: '2GiB',
      adminListen: '127.0.0.1:9001',
      sweepIntervalMs: '7s',
      sweepGraceMs: '7s',
      lifecycleDayMs: '7s',
      kmsKey: 'alias/bursar',
      kmsRegion: 'eu-west-3',
      kmsEndpoint: 'https://kms.example.org',
      encryption: 'off',
      objectIndex: 'taken,run',
      inlineBytes: '7KiB',
      httpThreads: '3',
      connectionsMax: '7',
      privateIssuers: 'sso.example.org,10.0.0.1:8443',
      privateWebhooks: '[fd00::1]:*',
      smtp: 'smtps://me:secret@mail.example.org?from=me@example.org',
      mailDomains: 'cern.ch,example.org',
      backupTo: 's3://backups/bursar',
      backupEveryMs: '7m',
      backupShipEveryMs: '7s',
      backupKeep: '7',
      backupEndpoint: 'http://127.0.0.1:9',
      backupRegion: 'eu-west-1',
      backupPathStyle: 'yes',
      archiveAfterMs: '7s',
      archiveStore: 'cold',
      witnesses: `${verifier} https://w.example/prefix`,
      serverTiming: 'everyone',
      migrateWithoutCopy: 'yes',
      trustTraceparent: 'yes',
      trafficSamples: 'no',
      probe: 'yes',
      probeIntervalMs: '7s',
      probeSpendMax: '0.07',
      requestLog: 'no',
      slowRequestMs: '7s',
      logLevel: 'warn',
      rootAccessKey: 'ROOTKEY',
      rootSecretKey: 'rootsecret',
      metricsToken: 'metrics-token-0123',
    };
    expect(Object.keys(samples).sort()).toEqual(
      Object.keys(settings)
        .filter((property) => property !== 'config')
        .sort(),
    );
    const environment: Record<string, string> = {};
    const lines: string[] = [];
    for (const [property, one] of Object.entries(settings)) {
      const sample = samples[property];
      if (sample === undefined) continue;
      environment[variableOf(one)] = sample;
      lines.push(`${one.key}: "${sample}"`);
    }
    const byFlag = loadConfig(samples, {});
    expect(loadConfig({}, environment)).toEqual(byFlag);
    const config = yaml(lines.join('\n'));
    expect(loadConfig({ config }, {})).toEqual({ ...byFlag, config });
    expect(byFlag).not.toMatchObject({ region: 'us-east-1' });
  });

  test('a list may be a YAML list, a number a YAML number', () => {
    const config = yaml('domain: [a.example, B.example]\ninlineBytes: 4096\n');
    expect(loadConfig({ config }, {})).toMatchObject({
      domains: ['a.example', 'b.example'],
      inlineBytes: 4096,
    });
  });

  test('an empty variable is one that is not set', () => {
    expect(loadConfig({}, { BURSAR_REGION: '', BURSAR_CONFIG: '' }).region).toBe('us-east-1');
  });

  test('the file itself may be named by the environment', () => {
    const config = yaml('region: from-file');
    expect(loadConfig({}, { BURSAR_CONFIG: config }).region).toBe('from-file');
  });

  test('an empty file sets nothing', () => {
    expect(loadConfig({ config: yaml('# nothing\n') }, {}).region).toBe('us-east-1');
  });
});

describe('what does not fit', () => {
  test('an unknown key, variable or value is named, with where it came from', () => {
    expect(refusal({ config: yaml('regoin: x') })).toMatch(/bursar\.yaml: unknown key regoin$/);
    expect(refusal({ config: yaml('config: x') })).toMatch(/unknown key config$/);
    expect(refusal({}, { BURSAR_REGOIN: 'x' })).toBe('unknown environment variable BURSAR_REGOIN');
    expect(refusal({ stallTimeoutMs: '30' })).toMatch(/^--stall-timeout "30" must be a duration/);
    for (const value of ['999ms', '25h', '0s', 'a day']) {
      expect(refusal({ lifecycleDayMs: value })).toMatch(/^--lifecycle-day ".*" must be /);
    }
    expect(refusal({}, { BURSAR_LISTEN: '9000' })).toMatch(/^BURSAR_LISTEN "9000" must be HOST/);
    expect(refusal({ config: yaml('inlineBytes: 1MiB') })).toMatch(
      /bursar\.yaml: inlineBytes "1MiB" must be at most 65536$/,
    );
  });

  test('a bad value is refused even where a better one would win', () => {
    const config = yaml('region: NOT A REGION');
    expect(refusal({ config, region: 'us-east-1' })).toMatch(/region "NOT A REGION"/);
  });

  test('the variables of the other commands are known', () => {
    const environment = {
      BURSAR_ENDPOINT: 'x',
      BURSAR_ACCESS_KEY_ID: 'x',
      BURSAR_SECRET_ACCESS_KEY: 'x',
      BURSAR_PROFILE: 'x',
      BURSAR_CREDENTIALS: 'x',
      BURSAR_FUZZ_SECONDS: 'x',
    };
    expect(loadConfig({}, environment).region).toBe('us-east-1');
  });

  test('a file that is missing, broken or no mapping is refused on one line', () => {
    expect(refusal({ config: join(folder, 'none.yaml') })).toMatch(/cannot read .* ENOENT/);
    expect(refusal({ config: yaml('a: [1\nb: 2') })).toMatch(/bursar\.yaml: .*line/);
    expect(refusal({ config: yaml('region: a\nregion: b') })).toMatch(/unique/);
    expect(refusal({ config: yaml('- region') })).toMatch(/must hold settings/);
    expect(refusal({ config: yaml('region: {a: b}') })).toMatch(/region must be a plain value/);
    expect(refusal({ config: yaml('region:') })).toMatch(/region must be a plain value/);
  });

  test('the root key and its secret come together, and a bad secret is not shown', () => {
    const both = { BURSAR_ROOT_ACCESS_KEY: 'ROOTKEY', BURSAR_ROOT_SECRET_KEY: 'rootsecret' };
    expect(loadConfig({}, both)).toMatchObject({ rootAccessKey: 'ROOTKEY' });
    const names = /^BURSAR_ROOT_ACCESS_KEY and BURSAR_ROOT_SECRET_KEY must be given both/;
    expect(refusal({}, { BURSAR_ROOT_ACCESS_KEY: 'ROOTKEY' })).toMatch(names);
    expect(refusal({}, { BURSAR_ROOT_SECRET_KEY: 'rootsecret' })).toMatch(names);
    const short = refusal({}, { ...both, BURSAR_ROOT_SECRET_KEY: 'hunter2' });
    expect(short).toMatch(/^BURSAR_ROOT_SECRET_KEY must be 8 to 256/);
    for (const token of ['fifteen-letters', 'sixteen letters!', 'a'.repeat(259)]) {
      expect(refusal({}, { BURSAR_METRICS_TOKEN: token })).toMatch(
        /^BURSAR_METRICS_TOKEN must be 16/,
      );
    }
    expect(short).not.toContain('hunter2');
    expect(refusal({}, { ...both, BURSAR_ROOT_ACCESS_KEY: 'a/b/c' })).toMatch(/ACCESS_KEY must/);
  });

  test.each([
    ['listen', ['', 'x', '127.0.0.1', '127.0.0.1:', ':65536', '::1:9000', '[::1]', 'a b:1']],
    ['domains', ['', '.example', 'a..b', 'a,', 'a/b', 'a:9000', '-a.example', '*']],
    ['acceptHosts', ['', '*', '.example', 'a..b', 'a,', 'a/b', 'a:9000', '[::1]', 'a.*', '*a']],
    [
      'trustedProxies',
      ['', ',', '10.0.0.0/33', '10.0.0.1:80', '10.1', 'lo', '::1,', '*', 'fe80::1%0'],
    ],
    [
      'witnesses',
      [
        '',
        verifier,
        'https://w.example',
        `${verifier} w.example`,
        // What it says counts, and nobody signs it.
        `${verifier} http://w.example`,
        `${verifier} https://w.example,`,
        `${verifier} https://w.example,${verifier} https://w2.example`,
        `${verifier.replace('w1', 'w2')} https://w.example`,
      ],
    ],
    ['logOrigin', ['', 'a b', 'a+b', '/a', 'é', 'x'.repeat(129)]],
    ['region', ['', 'US', 'a/b', 'x'.repeat(65)]],
    ['publicUrl', ['', 'example.org', 'ftp://x', 'http://x/path', 'http://x?y', 'http://u@x']],
    ['shareUrl', ['', 'example.org', 'http://x/path']],
    ['storedPages', ['', 'open', 'Sandbox', 'sandbox,same-origin']],
    ['stallTimeoutMs', ['', '0s', '1', '-1s', '1w', '1e3s', 's', '1 2s', '99999999999999d']],
    [
      'store',
      ['', 's3:', 's3://', 's3://ab', 's3://abc//d', 's3://abc/../d', 'http://x', 'A', '-a'],
    ],
    ['storePathStyle', ['', 'maybe', '1']],
    ['journalWithKeys', ['', 'maybe', '1']],
    ['prices', ['', 'aws', 'aws/', '/us-east-1', 'AWS/us-east-1', 'a/b/c', 'free']],
    ['priceBooks', ['']],
    ['privateIssuers', ['', 'yes', 'a,', 'a b', 'a:0', 'a/b', 'u@a']],
    ['privateWebhooks', ['', 'yes', 'http://a']],
    ['smtp', ['', 'mail.example.org', 'smtps://m', 'https://m?from=a@b', 'smtp://m/x?from=a@b']],
    [
      'smtp',
      ['smtp://m?from=a', 'smtp://m?from=a@b&x=1', 'smtp://m?from=a@b%0Ac', 'smtp://?from=a@b'],
    ],
    ['mailDomains', ['', 'a b', '@a', 'a,']],
    ['bufferMemoryBytes', ['', '15MiB', '-1']],
    ['objectMemoryBytes', ['', '-1', '1.5']],
    ['encryption', ['', 'yes', 'On']],
    ['objectIndex', ['', 'run,', 'Run', 'a b', 'on\n']],
    ['inlineBytes', ['', '-1', '1.5', '64KiBs', '65537', '1GiB', '0x10']],
    ['connectionsMax', ['', '0', '-1', '1.5', 'many', '99999999999999999999']],
    ['logLevel', ['', 'debug', 'INFO']],
  ] as const)('%s takes no nonsense', (property, values) => {
    for (const value of values) {
      expect(refusal({ [property]: value })).toContain(flagOf(settings[property]));
    }
  });
});

describe('quantities', () => {
  test('are no longer than a timer waits, where there is one', () => {
    for (const key of ['stallTimeout', 'shutdownTimeout', 'sweepInterval'] as const) {
      expect(loadConfig({ [`${key}Ms`]: '24d' }, {})[`${key}Ms`]).toBe(24 * 86_400_000);
      expect(refusal({ [`${key}Ms`]: '25d' })).toMatch(/must be at most 24d/);
    }
  });

  test('durations, sizes, addresses and URLs are read as people write them', () => {
    expect(['500ms', '30s', '1.5m', '1h', '7d', '0s'].map(parseDuration)).toEqual([
      500, 30_000, 90_000, 3_600_000, 604_800_000, 0,
    ]);
    expect(['0', '65536', '64KiB', '1 MiB', '1kB', '10KB', '5B'].map(parseSize)).toEqual([
      0, 65_536, 65_536, 1_048_576, 1000, 10_000, 5,
    ]);
    expect(['127.0.0.1:9000', 'localhost:0', '[::1]:9000', ':80'].map(parseListen)).toEqual([
      { host: '127.0.0.1', port: 9000 },
      { host: 'localhost', port: 0 },
      { host: '::1', port: 9000 },
      { host: '0.0.0.0', port: 80 },
    ]);
    expect(parseUrl('https://s3.example.org/')).toBe('https://s3.example.org');
  });
});

describe('the command', () => {
  let workplace: Workplace;

  beforeEach(() => {
    workplace = new Workplace();
  });

  afterEach(() => workplace.remove());

  test('ends in peace when nobody reads on what it prints', () => {
    const line = 'set -o pipefail; "$0" app/main.js cost example --list | true';
    // None of what tests are told by: of the command's own, unknown variables are refused.
    const isOurs = ([name]: [string, unknown]) => name.startsWith('BURSAR_');
    const env = Object.fromEntries(Object.entries(process.env).filter((one) => !isOurs(one)));
    const { status, stderr } = spawnSync('bash', ['-c', line, process.execPath], { env });
    expect([status, stderr.toString()]).toEqual([0, '']);
  });

  test('lists every setting, by flag, variable and key, in its help', async () => {
    const { code, stdout } = await workplace.run(['serve', '--help']);
    expect(code).toBe(0);
    for (const one of Object.values(settings) as Setting<unknown>[]) {
      expect(stdout).toContain(variableOf(one));
      if (!one.secret && !one.isMapping) expect(stdout).toContain(`  ${flagOf(one)} `);
    }
    expect(stdout).not.toContain('--root');
  });

  test.each([
    [['serve', '--port', '1'], {}, "unknown option '--port' (bursar serve --help lists all)"],
    [['serve', '--root-secret-key', 'x'], {}, "unknown option '--root-secret-key'"],
    [['serve', 'extra'], {}, 'Expected 0 arguments but got 1. (bursar serve [options])'],
    [['serve', '--listen', 'x'], {}, '--listen "x" must be'],
    [['serve', '--domain', 'a.example', '--domain', '!'], {}, '--domain "a.example,!" must be'],
    [['serve'], { BURSAR_X: '1' }, 'unknown environment variable BURSAR_X'],
    [['tenant', 'list'], { BURSAR_ENDPOIT: '1' }, 'unknown environment variable BURSAR_ENDPOIT'],
    [['tenant', 'list'], {}, 'no credentials'],
    [['tenant', 'list'], { BURSAR_ACCESS_KEY_ID: 'x' }, 'must be given both'],
    [
      ['tenant', 'show'],
      {},
      "missing required argument 'name' (bursar tenant show [options] <name>)",
    ],
    [['why', 'x'], {}, "argument 'request-id' is invalid: 'x'. Must be 16 hexadecimal digits"],
    [['share', 's3://a/b', '--downloads', '0'], {}, 'Must be a whole number from 1 on'],
    [
      ['audit', 'access', 's3://a:b', '--at', 'now', '--records', 'x'],
      {},
      '--at now is no time. Must',
    ],
    [['verify', 'log', '.', '--key', 'none'], {}, 'none is not the verifier line of a log'],
    [['verify', 'receipt', 'none', '--key', 'x'], {}, 'x is not the verifier line'],
    [['principal', 'show', 'alice'], {}, 'must be TENANT/NAME'],
    [['records', '--limit', '0'], {}, 'Must be a whole number'],
    [['frobnicate'], {}, "unknown command 'frobnicate'"],
  ] as [string[], Record<string, string>, string][])(
    '%j with %j ends with one line and exit code 2',
    async (args, environment, message) => {
      const keys = { BURSAR_ACCESS_KEY_ID: 'x', BURSAR_SECRET_ACCESS_KEY: 'x' };
      const given = args[0] === 'principal' ? keys : environment;
      const { code, stdout, stderr } = await workplace.run(args, given);
      expect(stderr).toMatch(/^bursar: [^\n]*\n$/);
      expect(stderr).toContain(message);
      expect([code, stdout]).toEqual([2, '']);
    },
  );
});
