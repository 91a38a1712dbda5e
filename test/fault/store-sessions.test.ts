// A gateway whose store is another gateway, which it uses with the temporary keys of a web
// identity, as a machine of a cluster does: its token is revoked while it serves, and another takes
// its place.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { S3Client } from './s3-client.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const body = Buffer.alloc(100_000, 'body');
const dir = mkdtempSync(join(tmpdir(), 'store-sessions-'));
const tokenFile = join(dir, 'token');
let store: ServedGateway;
let operator: S3Client;
let gateway: ServedGateway;
let client: S3Client;

beforeAll(async () => {
  store = await startServedGateway();
  operator = new S3Client(store);
  expect((await operator.send('PUT', '/backing')).status).toBe(200);
  await useNewToken();
  gateway = await startServedGateway({
    args: [
      ...['--store', 's3://backing/store', '--store-endpoint', store.endpoint],
      ...['--store-path-style', '--store-region', 'us-east-1'],
    ],
    env: {
      AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
      AWS_ROLE_ARN: 'arn:aws:iam::default:role/store',
      AWS_ENDPOINT_URL_STS: store.endpoint,
      AWS_REGION: 'us-east-1',
      AWS_EC2_METADATA_DISABLED: 'true',
    },
  });
  client = new S3Client(gateway);
});
afterAll(async () => {
  client?.close();
  operator?.close();
  await gateway?.stop();
  await store?.stop();
  rmSync(dir, { recursive: true });
});

/** The id of a token that is in the file from now on. */
async function useNewToken(): Promise<string> {
  const wanted = { scope: 'storage.read:/backing storage.modify:/backing', expiresIn: 3600 };
  const { jti, token } = await ask('POST', '/_/v1/tokens', wanted);
  writeFileSync(tokenFile, token);
  return jti;
}

async function ask(method: string, path: string, value?: object) {
  const sent = value && Buffer.from(JSON.stringify(value));
  const headers: Record<string, string> = sent ? { 'content-type': 'application/json' } : {};
  const answer = await operator.send(method, path, { body: sent, headers });
  expect(answer.status, String(answer.body)).toBeLessThan(300);
  return answer.body.length > 0 ? JSON.parse(String(answer.body)) : {};
}

it('is refused with a session that is revoked, and serves with the one that follows', async () => {
  expect((await client.send('PUT', '/data')).status).toBe(200);
  expect((await client.send('PUT', '/data/kept', { body })).status).toBe(200);
  const { tokens } = await ask('GET', '/_/v1/tokens');
  for (const { jti } of tokens) await ask('DELETE', `/_/v1/tokens/${jti}`);
  expect((await client.send('PUT', '/data/refused', { body })).status).toBe(503);
  expect((await client.send('GET', '/data/kept')).status).toBe(503);
  await useNewToken();
  await vi.waitFor(
    async () => expect((await client.send('PUT', '/data/next', { body })).status).toBe(200),
    { timeout: 60_000, interval: 500 },
  );
  for (const key of ['kept', 'next']) {
    const read = await client.send('GET', `/data/${key}`);
    expect(read.body.equals(body), key).toBe(true);
  }
  expect(gateway.output()).not.toMatch(/is missing|lost the mark|not there any more/);
});
