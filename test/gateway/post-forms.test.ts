// Forms and what narrows their signers: temporary keys made of tokens, and budgets. A form gives
// nobody more than the requests that it stands for.
import {
  CreateBucketCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Fields, formBody, postForm, signPolicy } from '../protocol/forms.ts';
import {
  type Answer,
  callNative,
  clientOf,
  elementOf,
  exchange,
  type Keys,
  patternOf,
  refusalOf,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let target: Target;
let client: S3Client;
const Bucket = 'raw';

beforeAll(async () => {
  target = await startEmbeddedTarget();
  client = clientOf(target);
  await client.send(new CreateBucketCommand({ Bucket }));
});

afterAll(() => target?.stop());

interface TemporaryKeys extends Keys {
  sessionToken: string;
  jti: string;
}

/** Keys made of a token of the operator's. */
async function tradeToken(given: object): Promise<TemporaryKeys> {
  const asked = { expiresIn: 600, ...given };
  const { token, jti } = await callNative(target, 'POST', '/_/v1/tokens', asked);
  const form = new URLSearchParams({
    ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15', RoleSessionName: 'forms' },
    ...{ RoleArn: 'arn:aws:iam::default:role/any', WebIdentityToken: token },
  }).toString();
  const type = { 'content-type': 'application/x-www-form-urlencoded' };
  const { text } = await exchange(target, 'POST', '/', type, form);
  const [accessKeyId = '', secretAccessKey = '', sessionToken = ''] = [
    ...['AccessKeyId', 'SecretAccessKey', 'SessionToken'],
  ].map((name) => elementOf(text, name));
  return { accessKeyId, secretAccessKey, sessionToken, jti };
}

function post(
  keys: Keys & { sessionToken?: string },
  key: string,
  content: Buffer | string = 'content',
  without?: string,
): Promise<Answer> {
  const { sessionToken } = keys;
  const signed: Fields = signPolicy(
    keys,
    [{ bucket: Bucket }, { key }],
    sessionToken === undefined ? {} : { sessionToken },
  );
  const fields = [['key', key] as const, ...signed].filter(([name]) => name !== without);
  return postForm(target, Bucket, formBody(fields, { content }));
}

const codesOf = ({ status, code }: Answer) => [status, code];

test('temporary keys sign forms for what their token covers, until it is revoked', async () => {
  const keys = await tradeToken({ scope: `storage.create:/${Bucket}/in` });
  expect((await post(keys, 'in/a')).status).toBe(204);
  // Who may create does not replace.
  expect(codesOf(await post(keys, 'in/a'))).toEqual([403, 'AccessDenied']);
  expect(codesOf(await post(keys, 'out/a'))).toEqual([403, 'AccessDenied']);
  expect(codesOf(await post(keys, 'in/b', 'x', 'x-amz-security-token'))).toEqual([
    ...[403, 'InvalidAccessKeyId'],
  ]);
  const other = await tradeToken({ scope: `storage.create:/${Bucket}/in` });
  const mixed = { ...keys, sessionToken: other.sessionToken };
  expect(codesOf(await post(mixed, 'in/b'))).toEqual([400, 'InvalidToken']);
  await callNative(target, 'DELETE', `/_/v1/tokens/${keys.jti}`);
  const refused = await post(keys, 'in/b');
  expect(codesOf(refused)).toEqual([403, 'AccessDenied']);
  // Who it was is known, so it is recorded.
  expect(refused.headers['x-bursar-receipt']).toEqual(expect.any(String));
});

test('a token that bounds objects bounds the file of a form, to the byte', async () => {
  const conditions = { objectBytesMax: 70_000 };
  const keys = await tradeToken({ scope: `storage.modify:/${Bucket}`, conditions });
  expect((await post(keys, 'bounded', patternOf(70_000))).status).toBe(204);
  expect(codesOf(await post(keys, 'more', patternOf(70_001)))).toEqual([403, 'AccessDenied']);
  const head = client.send(new HeadObjectCommand({ Bucket, Key: 'more' }));
  expect(await refusalOf(head)).toMatchObject({ status: 404 });
});

test('a form is charged for what it moved and stored, or refused by a limit', async () => {
  const before = patternOf(100_000);
  const body = formBody([['key', 'k']], { content: before });
  const made = await post(target.keys, 'charged', before);
  const index = made.headers['x-bursar-receipt'];
  const query = [['prefix', 'charged'] as const];
  const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, query);
  const record = records.find((one: { index: number }) => String(one.index) === index);
  expect(record).toMatchObject({ size: 100_000, storedBytes: 100_000, storedObjects: 1 });
  expect(record.bytesIn).toBeGreaterThan(body.length);
  const storedBytes = await sumStored();
  const account = `bucket:default/${Bucket}`;
  await putLimits(target, account, { storedBytes: { total: storedBytes + 50_000 } });
  const refused = await post(target.keys, 'large', patternOf(60_000));
  expect(codesOf(refused)).toEqual([403, 'QuotaExceeded']);
  expect((await post(target.keys, 'small', patternOf(40_000))).status).toBe(204);
  await putLimits(target, account, null);
});

/** What lies in the bucket, bytes. */
async function sumStored(): Promise<number> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  return Contents.reduce((sum, { Size = 0 }) => sum + Size, 0);
}
