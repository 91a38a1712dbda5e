// A data folder with something of all that a gateway keeps in tables, for tests that alter it.
import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';

export const operator = {
  accessKeyId: 'DEEPTESTACCESSKEY000',
  secretAccessKey: 'a-secret-of-the-operator-0123456789',
};

/** Has a gateway make the operator. */
export const operatorSettings = {
  BURSAR_ROOT_ACCESS_KEY: operator.accessKeyId,
  BURSAR_ROOT_SECRET_KEY: operator.secretAccessKey,
};

export type Sending = Omit<NonNullable<Parameters<S3Client['send']>[2]>, 'body'> & {
  body?: Buffer | string;
};

/** Throws unless it is done. */
export async function send(
  client: S3Client,
  method: string,
  path: string,
  { body: content = '', headers, ...sending }: Sending = {},
): ReturnType<S3Client['send']> {
  const body = Buffer.from(content);
  const md5 = { 'content-md5': createHash('md5').update(body).digest('base64') };
  const all = { ...(body.length > 0 && md5), ...headers };
  const answer = await client.send(method, path, { ...sending, body, headers: all });
  expect(answer.status, `${method} ${path}: ${answer.body}`).toBeLessThan(300);
  return answer;
}

/** Of the native API. */
export async function call(client: S3Client, method: string, path: string, body?: object) {
  const [, account] = /^limits\/(.*)/.exec(path) ?? [];
  const answer = await client.send(method, `/_/v1/${path}`, {
    ...(account && { encodedPath: `/_/v1/limits/${encodeURIComponent(account)}` }),
    ...(body && {
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
    }),
  });
  expect(answer.status, `${method} ${path}: ${answer.body}`).toBeLessThan(300);
  return answer.body.length === 0 ? {} : JSON.parse(answer.body.toString());
}

/** More than two tiles of records. */
export async function fill(client: S3Client, endpoint: string): Promise<void> {
  await fillBuckets(client);
  await fillLong(client);
  await fillSnapshots(client);
  await fillIdentities(client, endpoint);
  await call(client, 'PUT', 'alarm-hook', { url: 'https://alarms.example.org/secret-path' });
  await call(client, 'PUT', 'limits/tenant:cms', { requests: { day: 4 } });
  const key = await client.send('GET', '/_/log/key');
  const [, id] = key.body.toString().trim().split('+');
  for (let i = 0; i < 2; i++) {
    await call(client, 'POST', 'log/keys/rotations', { overlapSeconds: 0 });
  }
  await call(client, 'DELETE', `log/keys/${id}`);
}

/**
 * An object of so many runs that its manifest does not lie in its row. Each round copies the object
 * and, behind it, the single bytes at its end, which it doubles: what has 257 runs then has few
 * bytes more than the first part, so that it is soon read.
 */
async function fillLong(client: S3Client): Promise<void> {
  const partBytes = 5 * 1024 * 1024;
  const upload = async (key: string, parts: Sending[]) => {
    const begun = await send(client, 'POST', `/data/${key}`, { query: [['uploads', '']] });
    const id = /<UploadId>(.*?)</.exec(String(begun.body))?.[1] ?? '';
    let all = '';
    for (const [i, part] of parts.entries()) {
      const query: [string, string][] = [
        ['partNumber', String(i + 1)],
        ['uploadId', id],
      ];
      const { body, headers } = await send(client, 'PUT', `/data/${key}`, { ...part, query });
      const etag = headers.etag ?? /<ETag>(.*?)<.ETag>/.exec(String(body))?.[1];
      all += `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`;
    }
    const body = `<CompleteMultipartUpload>${all}</CompleteMultipartUpload>`;
    await send(client, 'POST', `/data/${key}`, { query: [['uploadId', id]], body });
  };
  await upload('part', [{ body: Buffer.alloc(partBytes, 'x') }, { body: 'x' }]);
  for (let round = 0; round < 8; round++) {
    const source = { 'x-amz-copy-source': `data/${round === 0 ? 'part' : 'long'}` };
    const range = `bytes=${partBytes}-${partBytes + 2 ** round - 1}`;
    const tail = { ...source, 'x-amz-copy-source-range': range };
    await upload('long', [{ headers: source }, { headers: tail }]);
  }
}

/** Two snapshots and a window, and what they hold: a version, a marker's, and an image of one. */
async function fillSnapshots(client: S3Client): Promise<void> {
  const snapshots = 'tenants/default/buckets/data/snapshots';
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString();
  await call(client, 'PUT', `${snapshots}/one`, { expiresAt, lock: 'governance' });
  await send(client, 'PUT', '/data/many/2', { body: Buffer.from('after') });
  await call(client, 'PUT', `${snapshots}/two`, { prefix: 'many/' });
  await send(client, 'DELETE', '/data/many/3');
  const tags = '<Tagging><TagSet><Tag><Key>a</Key><Value>c</Value></Tag></TagSet></Tagging>';
  await send(client, 'PUT', '/data/many/4', { query: [['tagging', '']], body: tags });
  await send(client, 'DELETE', '/data/many/5');
  await call(client, 'PUT', 'tenants/default/buckets/data/undelete', { seconds: 86_400 });
  await send(client, 'DELETE', '/data/many/6');
  await send(client, 'PUT', '/data/many/7', { query: [['tagging', '']], body: tags });
}

async function fillBuckets(client: S3Client): Promise<void> {
  await send(client, 'PUT', '/data');
  const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
  await send(client, 'PUT', '/locked', { headers });
  for (let i = 0; i < 450; i += 10) {
    const ten = Array.from({ length: 10 }, (_, j) => `/data/many/${(i + j) % 300}`);
    await Promise.all(ten.map((path) => send(client, 'PUT', path, { body: Buffer.from(path) })));
  }
  await send(client, 'PUT', '/data/large', { body: Buffer.alloc(200_000, 'x') });
  await send(client, 'DELETE', '/data/many/1');
  await send(client, 'PUT', '/data/renamed', {
    query: [['renameObject', '']],
    headers: { 'x-amz-rename-source': 'many/2', 'x-amz-client-token': 'once' },
  });
  for (const body of ['first', 'second']) {
    await send(client, 'PUT', '/locked/key', { body: Buffer.from(body) });
  }
  await send(client, 'DELETE', '/locked/key');
  const tags = '<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
  await send(client, 'PUT', '/data', { query: [['tagging', '']], body: Buffer.from(tags) });
  const begun = await send(client, 'POST', '/data/parts', { query: [['uploads', '']] });
  const [, uploadId = ''] = /<UploadId>([^<]+)/.exec(begun.body.toString()) ?? [];
  const query: [string, string][] = [
    ['partNumber', '1'],
    ['uploadId', uploadId],
  ];
  await send(client, 'PUT', '/data/parts', { query, body: Buffer.alloc(150_000, 'p') });
  // A deletion that a conditional completion is to know of.
  await send(client, 'PUT', '/data/parts', { body: Buffer.from('meanwhile') });
  await send(client, 'DELETE', '/data/parts');
}

async function fillIdentities(client: S3Client, endpoint: string): Promise<void> {
  await call(client, 'POST', 'tenants', { name: 'cms' });
  await call(client, 'POST', 'tenants', { name: 'over' });
  await call(client, 'DELETE', 'tenants/over');
  for (const name of ['staff', 'gone']) {
    await call(client, 'POST', 'tenants/cms/groups', { name });
  }
  const principals = 'tenants/cms/principals';
  await call(client, 'POST', principals, { name: 'alice', role: 'admin', groups: ['staff'] });
  await call(client, 'DELETE', 'tenants/cms/groups/gone');
  const keys = await call(client, 'POST', `${principals}/alice/access-keys`);
  const rule = { effect: 'allow', actions: ['s3:GetObject'], bucket: 'data' };
  const subjects = ['principal:cms/alice'];
  await call(client, 'PUT', 'tenants/default/grants/one', { ...rule, subjects });
  await call(client, 'PUT', 'tenants/cms/mounts/theirs', {
    ...{ bucketTenant: 'default', bucket: 'data' },
  });
  const mapping = { pathPrefix: '/data', principals: { 1: 'alice' } };
  const url = 'https://iam.example.org';
  await call(client, 'PUT', 'tenants/cms/issuers/iam', { url, audience: 'x/cms', mapping });
  const hook = { kind: 'webhook', url: 'https://127.0.0.1:9/cms' };
  await call(client, 'PUT', 'tenants/cms/targets/hook', hook);
  const scope = { scope: 'storage.read:/data' };
  await call(client, 'POST', 'tokens', scope);
  const { jti } = await call(client, 'POST', 'tokens', scope);
  await call(client, 'DELETE', `tokens/${jti}`);
  await call(client, 'POST', 'shares', { bucket: 'data', key: 'large' });
  const alice = new S3Client({ endpoint, ...keys });
  await send(alice, 'GET', '/theirs/large');
  alice.close();
}
