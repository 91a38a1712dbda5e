// How people of another tenant reach a bucket that was granted to them, by each client and each
// name: the table of docs/users/sharing.md, line by line, with unmodified clients.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readPage, rowsOf, sectionOf } from '../docs/markdown.ts';
import { S3Client } from '../fault/s3-client.ts';
import { call, send } from '../tooling/filled-folder.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import {
  awsCli,
  boto3Python,
  clientEnvironment,
  dataPython,
  describeWithTool,
  rclone,
  runTool,
  type ToolFailure,
} from '../tooling/tools.ts';

const timeoutMs = 240_000;
const main = resolve('app/main.js');
const content = 'what cms shares';

let gateway: ServedGateway;
let dir: string;
let bob: { accessKeyId: string; secretAccessKey: string };

/** `bursar`, as Bob. */
const bursar = (...args: string[]) =>
  runTool(process.execPath, [main, ...args], {
    ...clientEnvironment(bob),
    BURSAR_ENDPOINT: gateway.endpoint,
    BURSAR_ACCESS_KEY_ID: bob.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: bob.secretAccessKey,
  });
const failing = (run: Promise<string>) => run.then(String, (error: ToolFailure) => error.output);

beforeAll(async () => {
  gateway = await startServedGateway();
  dir = mkdtempSync(join(tmpdir(), 'bursar-sharing-'));
  const operator = new S3Client(gateway);
  for (const name of ['cms', 'atlas']) await call(operator, 'POST', 'tenants', { name });
  const enrol = async (tenant: string, name: string) => {
    const at = `tenants/${tenant}/principals`;
    await call(operator, 'POST', at, { name, kind: 'person', role: 'member', groups: [] });
    return (await call(operator, 'POST', `${at}/${name}/access-keys`)) as unknown as typeof bob;
  };
  bob = await enrol('atlas', 'bob');
  const owner = new S3Client({
    endpoint: gateway.endpoint,
    ...(await enrol('cms', 'alice')),
  });
  await send(owner, 'PUT', '/first');
  await send(owner, 'PUT', '/first/results/a.txt', { body: Buffer.from(content) });
  await call(operator, 'PUT', 'tenants/cms/grants/readers', {
    ...{ effect: 'allow', subjects: ['principal:atlas/bob'], actions: ['s3:GetObject'] },
    bucket: 'first',
  });
  owner.close();
  operator.close();
  await bursar('mount', 'create', 'data', '--from', 'cms:first');
}, timeoutMs);

afterAll(async () => {
  rmSync(dir, { recursive: true, force: true });
  await gateway?.stop();
}, timeoutMs);

it('a mount is listed and shown to its principal', { timeout: timeoutMs }, async () => {
  const line = /^MOUNT +BUCKET +SNAPSHOT +QUERY +CREATED\natlas\/bob\/data +cms:first +\d/;
  expect(await bursar('mount', 'list')).toMatch(line);
  expect(await bursar('mount', 'show', 'data')).toMatch(line);
  expect(await bursar('mount', 'list', 'atlas', '--own')).toMatch(line);
  expect(await failing(bursar('mount', 'create', 'x'))).toContain('say the bucket once');
  expect(await failing(bursar('mount', 'list', 'atlas'))).toContain('AccessDenied');
  await bursar('mount', 'create', 'short', 'cms:first');
  await bursar('mount', 'delete', 'short');
  const part = bursar('mount', 'create', 'part', 's3://cms:first/in/');
  expect(await failing(part)).toContain('a mount is of a whole bucket');
  expect(await failing(bursar('mount', 'show', 'short'))).toContain('NoSuchMount');
});

it('a snapshot of a member is mounted for them alone', { timeout: timeoutMs }, async () => {
  const client = new S3Client({ endpoint: gateway.endpoint, ...bob });
  await send(client, 'PUT', '/mine');
  await send(client, 'PUT', '/mine/a', { body: Buffer.from('first') });
  await bursar('snapshot', 'create', 's3://mine', 'one');
  await send(client, 'PUT', '/mine/a', { body: Buffer.from('second') });
  expect(await bursar('snapshot', 'mount', 's3://mine', 'one')).toContain('atlas/bob/mine-one ');
  expect((await client.send('GET', '/mine-one/a')).body.toString()).toBe('first');
  await bursar('mount', 'delete', 'mine-one');
  client.close();
});

it('who may read versions mounts a snapshot of others', { timeout: timeoutMs }, async () => {
  const operator = new S3Client(gateway);
  await call(operator, 'PUT', 'tenants/cms/buckets/first/snapshots/then', {});
  await call(operator, 'PUT', 'tenants/cms/grants/versions', {
    ...{ effect: 'allow', subjects: ['principal:atlas/bob'], actions: ['s3:GetObjectVersion'] },
    ...{ bucket: 'first', prefix: 'results/' },
  });
  operator.close();
  expect(await failing(bursar('snapshot', 'show', 's3://cms:first', 'then'))).toMatch('NoSuch');
  await bursar('snapshot', 'mount', 's3://cms:first', 'then', 'theirs');
  expect(await signed('theirs')).toBe(content);
  await bursar('mount', 'delete', 'theirs');
});

it('a name that a grant brings is listed, and is a bucket', { timeout: timeoutMs }, async () => {
  const operator = new S3Client(gateway);
  const body = {
    ...{ effect: 'allow', subjects: ['principal:atlas/bob'], actions: ['s3:GetObject'] },
    ...{ bucket: 'first', alias: 'cms-first' },
  };
  await call(operator, 'PUT', 'tenants/cms/grants/brought', body);
  operator.close();
  const lines = await bursar('mount', 'list', '--granted');
  expect(lines).toMatch(/^ALIAS +BUCKET .*\ncms-first +cms:first +cms\/brought +used\n$/);
  expect(await signed('cms-first')).toBe(content);
});

/** The cell of the page's table. */
function promised(client: string, column: 1 | 2): string {
  const table = sectionOf(readPage('docs/users/sharing.md').text, 'How others reach it');
  const row = rowsOf(table).find(([name]) => name === client);
  return row?.[column] ?? 'no such line';
}

/** `read`: what the client gives of the object in a bucket that is called so. */
function itReaches(
  client: string,
  read: (bucket: string) => Promise<string>,
  byTenant: { works: string[]; refused?: RegExp },
): void {
  it(`${client}, as the page says`, { timeout: timeoutMs }, async () => {
    expect(await read('data')).toContain(content);
    expect(promised(client, 2)).toBe('works');
    for (const name of byTenant.works) expect(await read(name)).toContain(content);
    const { refused } = byTenant;
    if (refused) expect(await failing(read('cms:first'))).toMatch(refused);
    expect(promised(client, 1)).toMatch(byTenant.works.length > 0 ? /^works/ : /^refused/);
    expect(/403|refused/.test(promised(client, 1))).toBe(refused !== undefined);
  });
}

const boto3Script = `
import sys, boto3
s3 = boto3.client("s3", endpoint_url=sys.argv[1])
print(s3.get_object(Bucket=sys.argv[2], Key="results/a.txt")["Body"].read().decode())
`;
const pyarrowScript = `
import sys
from urllib.parse import urlsplit
from pyarrow import fs
url = urlsplit(sys.argv[1])
s3 = fs.S3FileSystem(endpoint_override=url.netloc, scheme=url.scheme, region="us-east-1")
print(s3.open_input_stream(sys.argv[2] + "/results/a.txt").read().decode())
`;

function python(path: string, script: string): (bucket: string) => Promise<string> {
  return (bucket) => {
    const file = join(dir, 'read.py');
    writeFileSync(file, script);
    return runTool(path, [file, gateway.endpoint, bucket], clientEnvironment(bob));
  };
}

describeWithTool(awsCli, 'AWS CLI', (path) => {
  const read = (bucket: string) => {
    const args = ['--endpoint-url', gateway.endpoint, 's3', 'cp', `s3://${bucket}/results/a.txt`];
    return runTool(path, [...args, '-'], clientEnvironment(bob));
  };
  itReaches('AWS CLI', read, { works: [], refused: /Invalid bucket name "cms:first"/ });
});

describeWithTool(boto3Python, 'boto3', (path) => {
  const refused = /Invalid bucket name "cms:first"/;
  itReaches('boto3', python(path, boto3Script), { works: [], refused });
});

describeWithTool(dataPython, 'pyarrow', (path) => {
  const refused = /got a URI: 'cms:first/;
  itReaches('pyarrow', python(path, pyarrowScript), { works: [], refused });
});

describeWithTool(rclone, 'rclone', (path) => {
  const read = (bucket: string) => {
    const at = `:s3,provider=Other,env_auth=true,endpoint="${gateway.endpoint}":${bucket}`;
    const env = { ...clientEnvironment(bob), RCLONE_CONFIG: '/dev/null' };
    return runTool(path, ['--retries', '1', 'cat', `${at}/results/a.txt`], env);
  };
  itReaches('rclone', read, { works: ['cms:first'] });
});

const curl = (bucket: string, ...args: string[]) =>
  runTool('curl', ['-sS', ...args, `${gateway.endpoint}/${bucket}/results/a.txt`], {
    ...clientEnvironment(bob),
  });

function signed(bucket: string): Promise<string> {
  const user = `${bob.accessKeyId}:${bob.secretAccessKey}`;
  const header = 'x-amz-content-sha256: UNSIGNED-PAYLOAD';
  return curl(bucket, '--aws-sigv4', 'aws:amz:us-east-1:s3', '--user', user, '-H', header);
}

itReaches('curl with --aws-sigv4', signed, {
  ...{ works: ['cms%3Afirst'], refused: /SignatureDoesNotMatch/ },
});

itReaches(
  'curl with a token',
  async (bucket) => {
    const scope = 'storage.read:/cms:first';
    const token = await bursar('token', 'create', '--scope', scope, '--bearer');
    return curl(bucket, '-H', `Authorization: Bearer ${token.trim()}`);
  },
  { works: ['cms:first'] },
);
