// What `bursar probe` is asked for: what makes no sense is refused by name, and keys go to whom
// they are for.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { addProbeFlags, estimateBytes, readJob } from '#bursar/cli/probe-flags.js';

const folder = mkdtempSync(join(tmpdir(), 'bursar-probe-flags-'));
const credentials = join(folder, 'credentials');
writeFileSync(
  credentials,
  '[default]\naws_access_key_id = AWSKEY\naws_secret_access_key = awssecret\n' +
    'aws_session_token = awstoken\nregion = eu-west-1\n' +
    '[bursar]\naws_access_key_id = OWNKEY\naws_secret_access_key = ownsecret\n' +
    'endpoint_url = http://127.0.0.1:9000\n',
);

beforeEach(() => {
  for (const name of Object.keys(process.env)) {
    if (/^(AWS|BURSAR)_/.test(name)) vi.stubEnv(name, undefined);
  }
});
afterEach(() => {
  vi.unstubAllEnvs();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function jobOf(...flags: string[]) {
  const command = addProbeFlags(new Command().exitOverride());
  return readJob(command.parse(flags, { from: 'user' }).opts());
}

const there = ['--endpoint', 'https://s3.lab.example', '--credentials', credentials];
const lab = [...there, '--profile', 'default', '--bucket', 'lab'];

describe('the flags of bursar probe', () => {
  it.each([
    [['--bucket', ''], '--bucket is missing: it must be the name of a bucket'],
    [['--bucket', 'no/slash'], '--bucket "no/slash" must be the name of a bucket'],
    [['--sizes', '0B'], '--sizes "0B" must be 1B to 5GiB'],
    [['--sizes', '1B,,'], '--sizes "1B,," must be'],
    [['--series', 'all'], '--series "all" must be of sizes, latency, surge, parts'],
    [['--count', '0'], '--count "0" must be 1 to 1000000'],
    [['--count', '1', '--for', '1d'], '--count or --for, not both'],
    [['--for', '25d'], '--for "25d" must be 1s to 24d'],
    [['--mean-interval', '-1s'], '--mean-interval "-1s" must be'],
    [['--threads', '6-1'], '--threads 6-1 must be such as 1-6, at most 64'],
    [['--threads', '0-1'], '--threads 0-1 must be'],
    [['--threads', '1-65'], '--threads 1-65 must be'],
    [['--surge-seconds', '0'], '--surge-seconds "0" must be 1 to 3600'],
    [['--parts', '1,0'], '--parts "1,0" must be 1 to 64'],
    [['--part-size', '1MiB'], '--part-size "1MiB" must be 5MiB to 1GiB'],
    [['--timeout', '0s'], '--timeout "0s" must be 100ms to 10m'],
    [['--prefix', '/x'], '--prefix "/x" must be at most 512 bytes, and not begin with a slash'],
    [['--spend-max', '1'], '--spend-max needs prices: give --prices PROVIDER/REGION'],
    [['--spend-max', '0', '--prices', 'aws/us-east-1'], '--spend-max "0" must be US dollars'],
    [['--prices', 'aws/nowhere'], '--prices aws/nowhere has no price book in force'],
    [['--prices', 'aws/us-east-1', '--class', 'X'], '--prices aws/us-east-1 has no class X'],
    [['--endpoint', 'http://10.0.0.1', '--path-style', 'no'], 'is no host: give --path-style'],
    [
      ['--endpoint', 'https://s3.lab.example/path'],
      '--endpoint "https://s3.lab.example/path" must',
    ],
  ])('refuse %j', (flags, message) => {
    expect(() => jobOf(...lab, ...flags)).toThrow(message);
  });

  it('ask for a little of all sizes, once a second, where nothing else is said', () => {
    const job = jobOf(...lab);
    expect(job).toMatchObject({
      series: ['sizes', 'latency'],
      sizesBytes: [1, 1024, 1024 ** 2, 16 * 1024 ** 2, 100 * 1024 ** 2],
      ...{ count: 3, forMs: null, meanIntervalMs: 1000, isPathStyle: true, isKept: false },
      ...{ spendMax: null, places: [{ bucket: 'lab', name: 's3.lab.example', prices: null }] },
    });
    expect(estimateBytes(job)).toBe(3 * 2 * (1 + 1024 + 117 * 1024 ** 2 + 4096));
    expect(jobOf(...lab, '--for', '7d')).toMatchObject({
      ...{ count: null, forMs: 7 * 86_400_000, meanIntervalMs: 900_000 },
    });
  });

  it('know what AWS takes, with the dearest tier', () => {
    const aws = ['--endpoint', 'https://s3.us-east-1.amazonaws.com'];
    const job = jobOf(...lab, ...aws, '--spend-max', '0.50');
    expect(job).toMatchObject({ isPathStyle: false, spendMax: '500000000000' });
    const prices = job.places[0]?.prices;
    expect(prices).toMatchObject({ perPut: '5000000', perGet: '400000', perGbIn: '0' });
    expect(Number(prices?.perGbOut)).toBe(0.09 * 1e12);
  });
});

describe('the keys of bursar probe', () => {
  it('are a profile’s, with its token and its region', () => {
    expect(jobOf(...lab)).toMatchObject({
      region: 'eu-west-1',
      credentials: {
        ...{ accessKeyId: 'AWSKEY', secretAccessKey: 'awssecret', sessionToken: 'awstoken' },
      },
    });
  });

  it('are those of the environment for another server than the gateway', () => {
    vi.stubEnv('BURSAR_CREDENTIALS', credentials);
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'ENVKEY');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'envsecret');
    vi.stubEnv('AWS_REGION', 'eu-north-1');
    const there = jobOf('--endpoint', 'https://s3.lab.example', '--bucket', 'lab');
    expect(there).toMatchObject({ region: 'eu-north-1', credentials: { accessKeyId: 'ENVKEY' } });
    const here = jobOf('--endpoint', 'http://127.0.0.1:9000', '--bucket', 'lab');
    expect(here.credentials.accessKeyId).toBe('OWNKEY');
    expect(jobOf('--bucket', 'lab')).toMatchObject({
      ...{ endpoint: 'http://127.0.0.1:9000', credentials: { accessKeyId: 'OWNKEY' } },
    });
  });

  it('of the gateway sign for nobody else', () => {
    vi.stubEnv('BURSAR_CREDENTIALS', credentials);
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', join(folder, 'none'));
    const there = ['--endpoint', 'https://s3.lab.example', '--bucket', 'lab'];
    expect(() => jobOf(...there)).toThrow('no credentials for https://s3.lab.example: set AWS_');
    // What another server is sent could be sent on to the gateway.
    vi.stubEnv('BURSAR_ACCESS_KEY_ID', 'OPERATOR');
    vi.stubEnv('BURSAR_SECRET_ACCESS_KEY', 'operatorsecret');
    expect(() => jobOf(...there)).toThrow('no credentials for https://s3.lab.example: set AWS_');
    expect(jobOf('--bucket', 'lab').credentials.accessKeyId).toBe('OPERATOR');
  });
});
