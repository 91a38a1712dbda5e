// Who and where one is to the gateway by the files and variables of AWS's clients, as the AWS CLI
// understands them, where that is installed.
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
let home = '';
const nobody = 'http://127.0.0.1:1';
const keys: Record<string, { id: string; secret: string }> = {};

const json = async (...args: string[]) => {
  const { stdout, stderr } = await place.run([...args, '--json']);
  expect(stderr).toBe('');
  return JSON.parse(stdout);
};

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve();
  home = join(place.folder, 'home');
  mkdirSync(join(home, '.aws'), { recursive: true });
  await json('tenant', 'create', 'cms');
  for (const name of ['alice', 'bob', 'carol']) {
    await json('principal', 'create', `cms/${name}`);
    const made = await json('key', 'create', `cms/${name}`);
    keys[name] = { id: made.accessKeyId, secret: made.secretAccessKey };
  }
  const script = join(home, 'keys.sh');
  const { id: AccessKeyId, secret: SecretAccessKey } = keys.carol ?? {};
  const told = JSON.stringify({ Version: 1, AccessKeyId, SecretAccessKey });
  writeFileSync(script, `#!/bin/sh\necho '${told}'\n`);
  chmodSync(script, 0o755);
  writeFileSync(
    join(home, '.aws/config'),
    `[default]
region = eu-west-1
endpoint_url = ${served.endpoint}
# a comment
[profile bob]
services = lab
endpoint_url = ${nobody}
[profile process]
credential_process = ${script}
endpoint_url=${served.endpoint}
[profile aws]
region = us-east-1
[services lab]
ec2 =
  endpoint_url = ${nobody}
s3 =
  endpoint_url = ${served.endpoint}
`,
  );
  const section = (profile: string, name: string) =>
    `[${profile}]\naws_access_key_id = ${keys[name]?.id}\n` +
    `aws_secret_access_key = ${keys[name]?.secret}\n`;
  writeFileSync(
    join(home, '.aws/credentials'),
    `${section('default', 'alice')}${section('bob', 'bob')}${section('aws', 'bob')}`,
  );
  writeFileSync(join(home, 'other'), `${section('default', 'carol')}endpoint_url = ${nobody}\n`);
});

afterAll(() => place.remove());

const ofCarol = () => ({
  AWS_ACCESS_KEY_ID: keys.carol?.id ?? '',
  AWS_SECRET_ACCESS_KEY: keys.carol?.secret ?? '',
});

// Of each what is said, and who that is.
const cases: [string, () => Record<string, string>, string[], string][] = [
  ['the default profile', () => ({}), [], 'alice'],
  ['a profile, whose services have endpoints', () => ({ AWS_PROFILE: 'bob' }), [], 'bob'],
  ['a profile by a flag', () => ({ AWS_PROFILE: 'nothing' }), ['--profile', 'bob'], 'bob'],
  ['a credential_process', () => ({ AWS_PROFILE: 'process' }), [], 'carol'],
  ['keys in the environment, and the profile’s endpoint', ofCarol, [], 'carol'],
  ['a flag wins over keys', ofCarol, ['--profile', 'bob'], 'bob'],
  [
    'another credentials file, and an endpoint in the environment',
    () => ({
      AWS_SHARED_CREDENTIALS_FILE: join(home, 'other'),
      AWS_ENDPOINT_URL_S3: served.endpoint,
      AWS_ENDPOINT_URL: nobody,
    }),
    [],
    'carol',
  ],
  [
    'an endpoint for a profile without one',
    () => ({ AWS_PROFILE: 'aws', AWS_ENDPOINT_URL: served.endpoint }),
    [],
    'bob',
  ],
];

test.each(cases)('%s', async (_, environment, flags, who) => {
  // In a folder without bursar-data.
  const given = { HOME: home, BURSAR_DATA: home, ...environment() };
  const { stdout, stderr } = await place.run(['whoami', ...flags, '--json'], given);
  expect(stderr).toBe('');
  expect(JSON.parse(stdout)).toMatchObject({ tenant: 'cms', principal: who });
  if (process.env.AWS_CLI === undefined) return;
  const env = { PATH: process.env.PATH ?? '', NO_PROXY: '127.0.0.1', HOME: home, ...environment() };
  const listing = ['s3api', 'list-buckets', '--query', 'Owner.ID', '--output', 'text', ...flags];
  const told = await promisify(execFile)(process.env.AWS_CLI, listing, { env });
  expect(told.stdout.trim()).toMatch(/\S/);
  const records = ['records', '--tenant', 'cms', '--action', 's3:ListAllMyBuckets', '--json'];
  await expect
    .poll(async () => {
      const lines = (await place.run(records)).stdout.trim().split('\n');
      return JSON.parse(lines.at(-1) || '{}').principal;
    })
    .toBe(who);
});

test('AWS itself is not asked: a profile without an endpoint leads nowhere', async () => {
  const given = { HOME: home, BURSAR_DATA: home, AWS_PROFILE: 'aws' };
  const { code, stderr } = await place.run(['whoami'], given);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^bursar: no credentials: set .*the profile aws of .* an endpoint_url/);
});

test('what is said counts before what happens to be there', async () => {
  const who = async (environment: Record<string, string>) =>
    JSON.parse((await place.run(['whoami', '--json'], { HOME: home, ...environment })).stdout)
      .principal;
  // ./bursar-data/credentials before ~/.aws.
  expect(await who({})).toBe('admin');
  expect(await who({ AWS_PROFILE: 'aws' })).toBe('admin');
  expect(await who({ AWS_PROFILE: 'bob' })).toBe('bob');
  expect(await who({ AWS_PROFILE: 'bob', BURSAR_PROFILE: 'bursar' })).toBe('admin');
});
