// Clients that know nothing of tokens, on temporary keys: as SDKs get them at STS with a token
// file, and as `bursar credentials` gives them with the proof of a key.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { generatePrivateKey, renderPrivateKey } from '#bursar/authz/tokens/keys.js';
import { callNative, send, type Target } from '../protocol/target.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import {
  awsCli,
  boto3Python,
  clientEnvironment,
  describeWithTool,
  rclone,
  runTool,
} from '../tooling/tools.ts';

const timeoutMs = 120_000;
const key = generatePrivateKey('EdDSA');

let gateway: ServedGateway;
let dir: string;

beforeAll(async () => {
  gateway = await startServedGateway();
  dir = mkdtempSync(join(tmpdir(), 'bursar-temporary-keys-'));
  const { accessKeyId, secretAccessKey, endpoint } = gateway;
  const target = { endpoint, keys: { accessKeyId, secretAccessKey } } as Target;
  const scope = 'storage.read:/raw/open storage.modify:/raw/out';
  const bearer = await callNative(target, 'POST', '/_/v1/tokens', { scope, expiresIn: 3600 });
  const cnf = { jwk: key.publicKey.jwk };
  const bound = await callNative(target, 'POST', '/_/v1/tokens', { scope, expiresIn: 3600, cnf });
  writeFileSync(join(dir, 'token'), `${bearer.token}\n`);
  writeFileSync(join(dir, 'bound'), bound.token);
  writeFileSync(join(dir, 'key'), renderPrivateKey(key, 'jwk'), { mode: 0o600 });
  writeFileSync(join(dir, 'data.txt'), 'some data');
  const common = `region = us-east-1\nendpoint_url = ${endpoint}\n`;
  const command = [process.execPath, resolve('app/main.js'), 'credentials'];
  const files = ['--token-file', join(dir, 'bound'), '--key', join(dir, 'key')];
  writeFileSync(
    join(dir, 'config'),
    `[profile token-file]\nrole_arn = arn:aws:iam::default:role/job\n` +
      `web_identity_token_file = ${join(dir, 'token')}\n${common}` +
      `[profile process]\ncredential_process = ${[...command, ...files].join(' ')}\n${common}`,
  );
  await putAsOperator(target);
}, timeoutMs);

afterAll(async () => {
  if (dir) rmSync(dir, { recursive: true, force: true });
  await gateway?.stop();
}, timeoutMs);

async function putAsOperator(target: Target): Promise<void> {
  for (const [path, body] of [
    ['/raw', ''],
    ['/raw/open/a', 'open'],
    ['/raw/shut/a', 'shut'],
  ] as const) {
    expect((await send(target, { method: 'PUT', path, body })).status).toBe(200);
  }
}

/**
 * With the file of profiles and no keys, in a home of its own: there the AWS CLI keeps temporary
 * keys.
 */
function withProfiles(): NodeJS.ProcessEnv {
  const {
    AWS_ACCESS_KEY_ID: _id,
    AWS_SECRET_ACCESS_KEY: _secret,
    ...rest
  } = clientEnvironment(gateway);
  return { ...rest, AWS_CONFIG_FILE: join(dir, 'config') };
}

/** What SDKs take from the environment to ask STS by themselves; rclone needs the last endpoint. */
function withTokenFile(): NodeJS.ProcessEnv {
  return {
    ...withProfiles(),
    AWS_CONFIG_FILE: '/dev/null',
    AWS_ENDPOINT_URL: gateway.endpoint,
    AWS_ENDPOINT_URL_STS: gateway.endpoint,
    AWS_ROLE_ARN: 'arn:aws:iam::default:role/job',
    AWS_WEB_IDENTITY_TOKEN_FILE: join(dir, 'token'),
  };
}

describeWithTool(awsCli, 'AWS CLI', (path) => {
  it('works from a token file', { timeout: timeoutMs }, async () => {
    const aws = (...args: string[]) => runTool(path, args, withTokenFile());
    await aws('s3', 'cp', join(dir, 'data.txt'), 's3://raw/out/cli');
    await expect(aws('s3', 'cp', 's3://raw/shut/a', '-')).rejects.toThrow(/403|Forbidden/);
  });

  it('works from `bursar credentials`, which proves the key', { timeout: timeoutMs }, async () => {
    const env = { ...withProfiles(), AWS_PROFILE: 'process' };
    expect(await runTool(path, ['s3', 'ls', 's3://raw/open/'], env)).toMatch(/ a$/m);
  });

  it('is told plainly that a token is bound to a key', { timeout: timeoutMs }, async () => {
    const env = { ...withTokenFile(), AWS_WEB_IDENTITY_TOKEN_FILE: join(dir, 'bound') };
    await expect(runTool(path, ['s3', 'ls'], env)).rejects.toThrow(/InvalidProof.*bound to a key/);
  });
});

describeWithTool(boto3Python, 'boto3', (path) => {
  it.each(['token-file', 'process'])(
    'works from a profile with %s',
    {
      timeout: timeoutMs,
    },
    async (profile) => {
      const script = `
import boto3
s3 = boto3.Session(profile_name="${profile}").client("s3")
assert s3.get_object(Bucket="raw", Key="open/a")["Body"].read() == b"open"
s3.put_object(Bucket="raw", Key="out/boto3", Body=b"x")
try:
    s3.get_object(Bucket="raw", Key="shut/a")
    raise SystemExit("read what it may not")
except s3.exceptions.ClientError as error:
    assert error.response["Error"]["Code"] == "AccessDenied", error
`;
      await runTool(path, ['-c', script], withProfiles());
    },
  );
});

describeWithTool(rclone, 'rclone', (path) => {
  const at = (target: string) =>
    `:s3,provider=Other,env_auth=true,region=us-east-1,endpoint="${gateway.endpoint}":${target}`;

  function run(env: NodeJS.ProcessEnv, ...args: string[]): Promise<string> {
    return runTool(path, ['--retries', '1', ...args], { ...env, RCLONE_CONFIG: '/dev/null' });
  }

  it('works from a token file', { timeout: timeoutMs }, async () => {
    const env = withTokenFile();
    const upload = ['copyto', '--s3-no-check-bucket', join(dir, 'data.txt'), at('raw/out/rclone')];
    await run(env, ...upload);
    expect(await run(env, 'lsf', at('raw/open'))).toBe('a\n');
    await expect(run(env, 'copyto', at('raw/shut/a'), join(dir, 'shut'))).rejects.toThrow(/403/);
  });

  it('works from `bursar credentials`', { timeout: timeoutMs }, async () => {
    const env = { ...withProfiles(), AWS_PROFILE: 'process' };
    expect(await run(env, 'cat', at('raw/open/a'))).toBe('open');
  });
});
