// curl signs a path as it sends it: the native API takes that as well as the form that S3 signs.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startEmbeddedTarget, type Target } from '../../protocol/target.ts';

let target: Target;
beforeAll(async () => {
  target = await startEmbeddedTarget();
}, 60_000);
afterAll(() => target?.stop(), 60_000);

async function curl(path: string, secret = target.keys.secretAccessKey): Promise<string> {
  const { stdout } = await promisify(execFile)('curl', [
    ...['-s', '--path-as-is', '-o', '/dev/null', '-w', '%{http_code}', '--noproxy', '*'],
    ...['--aws-sigv4', 'aws:amz:us-east-1:s3', '-H', 'x-amz-content-sha256: UNSIGNED-PAYLOAD'],
    ...['--user', `${target.keys.accessKeyId}:${secret}`, `${target.endpoint}${path}`],
  ]);
  return stdout;
}

it.each([
  '/_/v1/usage/tenant:default/by/action',
  '/_/v1/usage/tenant%3Adefault/by/action',
  '/_/v1/usage/tenant%3adefault/by/action',
  '/_/v1/usage/principal:default%2Fadmin/by/action',
  '/_/v1/usage/%70rincipal%3Adefault%2Fadmin/by/action',
])('%s is answered to who signed it as it is', async (path) => {
  expect(await curl(path)).toBe('200');
  expect(await curl(path, 'another')).toBe('403');
});

it('of S3 the form that S3 signs alone is taken', async () => {
  expect(await curl('/first/a%3ab')).toBe('403');
});
