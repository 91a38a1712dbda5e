// Who leaves: `bursar principal delete` says what is in the way, and `bursar principal transfer`
// gives it to somebody else, as often as it is run.
import { createHash } from 'node:crypto';
import { chmodSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { S3Bucket } from '#bursar/cli/s3-bucket.js';
import { S3Client } from '../fault/s3-client.ts';
import { call, operator, operatorSettings, send } from '../tooling/filled-folder.ts';
import { servedThreads } from '../tooling/served-gateway.ts';
import { awsCli, clientEnvironment, describeWithTool, runTool } from '../tooling/tools.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const main = resolve('app/main.js');
const place = new Workplace();
let served: Served;
let root: S3Client;
let boss: Record<string, string>;
let student: S3Client;
/** Of the student's. */
const made = { upload: '', share: '', url: '', token: '' };

async function serve(): Promise<void> {
  const settings = { ...operatorSettings, ...servedThreads() };
  served = await place.serve(['--data', place.data, '--sweep-interval', '1h'], settings);
  root = new S3Client({ endpoint: served.endpoint, ...operator });
}

async function add(name: string, role = 'member') {
  await call(root, 'POST', 'tenants/cms/principals', { name, role });
  return call(root, 'POST', `tenants/cms/principals/${name}/access-keys`);
}

function run(...args: string[]): Promise<Outcome> {
  return place.run([...args, '--endpoint', served.endpoint], boss);
}

const get = async (path: string) => (await call(root, 'GET', path)) as Record<string, unknown>;

beforeAll(async () => {
  await serve();
  await call(root, 'POST', 'tenants', { name: 'cms' });
  const { accessKeyId, secretAccessKey } = await add('boss', 'admin');
  boss = { BURSAR_ACCESS_KEY_ID: accessKeyId, BURSAR_SECRET_ACCESS_KEY: secretAccessKey };
  for (const name of ['lab', 'poor', 'other']) await add(name);
  student = new S3Client({ endpoint: served.endpoint, ...(await add('student')) });
  for (const bucket of ['raw', 'notes']) {
    await send(student, 'PUT', `/${bucket}`);
    await send(student, 'PUT', `/${bucket}/key`, { body: `of ${bucket}` });
  }
  const begun = await send(student, 'POST', "/raw/it's big", { query: [['uploads', '']] });
  made.upload = /<UploadId>([^<]+)/.exec(begun.body.toString())?.[1] ?? '';
  const link = await call(student, 'POST', 'shares', { bucket: 'notes', key: 'key' });
  [made.share, made.url] = [link.id, link.url];
  await call(
    student,
    'DELETE',
    `shares/${(await call(student, 'POST', 'shares', { bucket: 'raw' })).id}`,
  );
  await call(root, 'PUT', 'tenants/cms/grants/readers', {
    ...{ effect: 'allow', actions: ['s3:GetObject'], bucket: 'notes' },
    subjects: ['principal:cms/student', 'principal:cms/other', 'principal:cms/lab'],
  });
  const lent = await call(student, 'POST', 'tokens', { scope: 'storage.read:/raw' });
  made.token = lent.jti;
  await call(root, 'POST', 'tenants', { name: 'atlas' });
  await call(student, 'PUT', 'tenants/cms/principals/student/mounts/theirs', {
    ...{ bucketTenant: 'atlas', bucket: 'data' },
  });
  await call(root, 'POST', 'tenants/cms/groups', { name: 'readers' });
  await call(root, 'PATCH', 'tenants/cms/principals/student', { groups: ['readers'] });
  await call(root, 'PUT', 'limits/principal:cms/student', { requests: { day: 1_000_000 } });
  const named = { AWS: 'arn:aws:iam::cms:user/student' };
  const statement = { Effect: 'Allow', Principal: named, Action: 's3:GetObject' };
  const Resource = 'arn:aws:s3:::raw/*';
  const policy = { Version: '2012-10-17', Statement: [{ ...statement, Resource }] };
  const body = JSON.stringify(policy);
  await send(student, 'PUT', '/raw', { query: [['policy', '']], body });
  await call(root, 'PUT', 'tenants/cms/grants/others', {
    ...{ effect: 'deny', actions: ['s3:PutObject'], subjects: ['principal:cms/other'] },
  });
});
afterAll(() => place.remove());

async function download(): Promise<[status: number, text: string]> {
  const response = await fetch(`${served.endpoint}${new URL(made.url).pathname}`);
  return [response.status, await response.text()];
}

it('is told what is in the way of deleting them, and the command for each', async () => {
  const said = await run('principal', 'delete', 'cms/student');
  expect([said.code, said.stdout]).toEqual([1, '']);
  expect(said.stderr).toContain('cms/student owns buckets: notes, raw.');
  const commands = [
    'bursar bucket chown cms/notes OTHER',
    'bursar bucket chown cms/raw OTHER',
    `--cli-input-json '{"Bucket":"raw","Key":"it\\u0027s big","UploadId":"${made.upload}"}'`,
    `bursar share delete ${made.share}`,
    'bursar grant delete cms/readers',
    'aws s3api get-bucket-policy --bucket raw',
    'bursar group remove cms/readers student',
    'bursar limit delete principal:cms/student',
    `bursar token delete ${made.token}`,
    'bursar mount delete cms/student/theirs',
    'bursar principal transfer cms/student --to cms/OTHER',
  ];
  for (const one of commands) expect(said.stderr).toContain(one);
  const told = await run('principal', 'delete', 'cms/student', '--json');
  const { deleted, holdings } = JSON.parse(told.stdout);
  expect([told.code, deleted]).toEqual([1, false]);
  const parts = (holdings as Record<string, unknown>[]).map(({ kind, name, blocks, command }) => {
    expect(commands.some((one) => String(command).endsWith(one))).toBe(true);
    return `${kind} ${name} ${blocks}`;
  });
  expect(parts).toEqual([
    ...['bucket notes true', 'bucket raw true', `upload ${made.upload} false`],
    ...[`share ${made.share} false`, 'grant readers false', 'policy raw false'],
    ...['group readers false', 'limit principal:cms/student false'],
    ...[`token ${made.token} false`, 'mount theirs false'],
  ]);
});

it('is planned, and nothing is given then', async () => {
  const plan = await run('principal', 'transfer', 'cms/student', '--to', 'cms/lab', '--dry-run');
  expect(plan.code).toBe(0);
  expect(plan.stdout.split('\n').map((line) => line.split(/ +/)[0])).toEqual([
    ...['KIND', 'bucket', 'bucket', 'upload', 'share', 'grant', ''],
  ]);
  expect(await get('tenants/cms/buckets/raw')).toMatchObject({ owner: 'student' });
});

it('is not asked about a bucket that is not there, nor about one that is not empty', async () => {
  for (const [bucket, why] of [
    ['cms/rawx', 'The specified bucket does not exist'],
    ['cms/raw', 'bucket cms/raw is not empty: bursar bucket delete cms/raw --all deletes every'],
  ] as const) {
    const { code, stdout, stderr } = await run('bucket', 'delete', bucket);
    expect([code, stdout, stderr.includes(`bursar: ${why}`)]).toEqual([1, '', true]);
    expect(stderr).not.toContain('[y/N]');
  }
  const named = await run('bucket', 'delete', 'cms/ab', '--json');
  expect(JSON.parse(named.stdout).error).toMatchObject({
    code: 'InvalidBucketName',
    message: expect.stringContaining('a name has 3 to 63 of a-z'),
    status: 400,
  });
});

it('is refused for another tenant, and for nobody', async () => {
  for (const [to, told] of [
    ['atlas/lab', 'must be a principal of cms'],
    ['cms/student', 'both are the same'],
    ['cms/nobody', 'NoSuchPrincipal'],
  ] as const) {
    const said = await run('principal', 'transfer', 'cms/student', '--to', to);
    expect([said.code === 0, said.stderr]).toEqual([false, expect.stringContaining(told)]);
  }
});

it('goes on where it could not give everything', async () => {
  await call(root, 'PUT', 'limits/principal:cms/poor', { storedBytes: { total: 9 } });
  await call(root, 'PUT', 'tenants/cms/grants/poor', {
    ...{ effect: 'allow', actions: ['s3:GetObject'], bucket: 'notes' },
    subjects: ['principal:cms/poor'],
  });
  const some = await run('principal', 'transfer', 'cms/student', '--to', 'cms/poor', '--json');
  const { given, failed } = JSON.parse(some.stdout);
  expect([some.code, given]).toEqual([1, 4]);
  expect(failed).toMatchObject([
    { kind: 'bucket', reason: expect.stringContaining('storedBytes') },
  ]);
  // All of the rest, and what was given, to somebody who has room.
  for (const from of ['cms/student', 'cms/poor']) {
    const all = await run('principal', 'transfer', from, '--to', 'cms/lab');
    expect(all.code, all.stderr).toBe(0);
  }
  const again = await run('principal', 'transfer', 'cms/student', '--to', 'cms/lab');
  expect([again.code, again.stdout]).toEqual([0, '0 of 0 given to cms/lab\n']);
});

it('has given everything, and each by a record of its own', async () => {
  for (const bucket of ['raw', 'notes']) {
    expect(await get(`tenants/cms/buckets/${bucket}`)).toMatchObject({ owner: 'lab' });
  }
  const rule = await get('tenants/cms/grants/readers');
  expect(rule.subjects).toEqual(['principal:cms/lab', 'principal:cms/other']);
  expect(await get('tenants/cms/grants/others')).toMatchObject({
    subjects: ['principal:cms/other'],
  });
  const { holdings } = await get('tenants/cms/principals/lab/holdings');
  expect((holdings as { kind: string }[]).map(({ kind }) => kind)).toEqual([
    ...['bucket', 'bucket', 'upload', 'share', 'grant', 'grant'],
  ]);
  for (const [action, count] of [
    ['bursar:TransferShare', 2],
    ['bursar:TransferUpload', 2],
  ] as const) {
    const found = await root.send('GET', '/_/v1/records', { query: [['action', action]] });
    expect(JSON.parse(found.body.toString()).records, action).toHaveLength(count);
  }
});

describeWithTool(awsCli, 'AWS CLI', (path) => {
  it('is told of locked objects of all buckets how they go', async () => {
    await call(root, 'POST', 'tenants', { name: 'old' });
    await call(root, 'POST', 'tenants/old/principals', { name: 'dean', role: 'admin' });
    const key = await call(root, 'POST', 'tenants/old/principals/dean/access-keys');
    const dean = new S3Client({ endpoint: served.endpoint, ...key });
    const as = {
      ...clientEnvironment({ endpoint: served.endpoint, ...key }),
      AWS_ENDPOINT_URL: served.endpoint,
      ...{ BURSAR_ENDPOINT: served.endpoint, BURSAR_ACCESS_KEY_ID: key.accessKeyId },
      BURSAR_SECRET_ACCESS_KEY: key.secretAccessKey,
    };
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const locked = (mode: string) => ({
      'x-amz-object-lock-mode': mode,
      'x-amz-object-lock-retain-until-date': until,
    });
    const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
    const lockedKey = "file://it's $(held)";
    for (const bucket of ['one', 'two']) {
      await send(dean, 'PUT', `/old-${bucket}`, { headers });
      const inBucket = new S3Bucket(
        { s3Endpoint: served.endpoint, endpoint: served.endpoint, region: 'us-east-1', ...key },
        `old-${bucket}`,
      );
      const ask = async (method: string, name: string, asked = {}) =>
        expect((await inBucket.ask(method, name, asked)).status).toBeLessThan(300);
      for (const free of ['free', 'a/../b', '../other/k', './x', 'a//b']) {
        await ask('PUT', free, { body: 'free' });
        await ask('DELETE', free);
      }
      // The AWS CLI takes a parameter that begins so for the content of a file.
      await ask('PUT', lockedKey, { body: 'old', headers: locked('GOVERNANCE') });
      const hold = { 'x-amz-object-lock-legal-hold': 'ON' };
      await ask('PUT', lockedKey, { body: 'new', headers: hold });
    }
    const remove = () =>
      place.run(['tenant', 'delete', 'old', '--yes', '--endpoint', served.endpoint], {
        BURSAR_ACCESS_KEY_ID: operator.accessKeyId,
        BURSAR_SECRET_ACCESS_KEY: operator.secretAccessKey,
      });
    const refused = await remove();
    expect(refused.code).toBe(1);
    const bin = mkdtempSync(join(place.folder, 'bin'));
    symlinkSync(path, join(bin, 'aws'));
    writeFileSync(join(bin, 'bursar'), `#!/bin/sh\nexec ${process.execPath} ${main} "$@"\n`);
    chmodSync(join(bin, 'bursar'), 0o755);
    const env = { ...as, PATH: `${bin}:${process.env.PATH}` };
    const shell = (script: string) => runTool('/bin/sh', ['-c', script], env);
    for (const bucket of ['old-one', 'old-two']) {
      const [deletion, locks] = [
        `  bursar bucket delete old/${bucket} --all\n`,
        `  bursar bucket locks old/${bucket}\n`,
      ];
      expect(refused.stderr).toContain(deletion);
      expect(refused.stderr).toContain(locks);
      await expect(shell(`${deletion.trim()} --yes`)).rejects.toThrow('2 are locked');
      expect((await shell(locks)).split('\n').slice(0, 3)).toEqual([
        expect.stringMatching(/^MODE +UNTIL +LEGAL HOLD +SIZE +VERSION +KEY$/),
        expect.stringMatching(/^ +yes +3 B +\w{32} +file:\/\/it's \$\(held\)$/),
        expect.stringMatching(new RegExp(`^GOVERNANCE +${until.slice(0, 19)}.* file://it's `)),
      ]);
      expect(await shell(`${locks.trim()} --csv`)).toMatch(
        /^mode,until,legalHold,size,version,key\r\n,/,
      );
      const all = `/_/v1/tenants/old/buckets/${bucket}/locks`;
      const ask = (client: S3Client, query: [string, string][] = []) =>
        client.send('GET', all, { query });
      expect((await ask(student)).status).toBe(404);
      const pages: string[] = [];
      for (let next: string | null = ''; next !== null; ) {
        const after: [string, string][] = next === '' ? [] : [['after', next]];
        const page = JSON.parse(String((await ask(dean, [['limit', '1'], ...after])).body));
        pages.push(...page.locked.map((one: { key: string }) => one.key));
        next = page.next;
      }
      expect(pages).toEqual([lockedKey, lockedKey]);
      for (const after of ['x', '1:', '99999999999999999:x']) {
        expect((await ask(dean, [['after', after]])).status, after).toBe(400);
      }
      const commands = await shell(`${locks.trim()} --commands`);
      expect(commands.trim().split('\n')).toHaveLength(3);
      await shell(commands);
      expect(await shell(locks)).toMatch(/^MODE.*\n$/);
      expect(await shell(`${deletion.trim()} --yes`)).toContain('is deleted, 0 versions');
    }
    expect((await remove()).code).toBe(0);
  });
});

it('is gone, and what was theirs goes on', async () => {
  expect((await run('principal', 'delete', 'cms/student')).code).toBe(0);
  expect((await student.send('GET', '/raw/key')).status).toBe(403);
  expect(await download()).toEqual([200, 'of notes']);
  const body = Buffer.alloc(1000, 1);
  const headers = { 'content-md5': createHash('md5').update(body).digest('base64') };
  expect((await root.send('PUT', '/cms:raw/no', { body, headers })).status).toBe(403);
  // After a start, too, which verifies every row that was changed.
  await served.stop('SIGKILL');
  await serve();
  expect(await download()).toEqual([200, 'of notes']);
  await served.stop();
  const deep = await place.run(['verify', 'deep', '--data', place.data]);
  expect(deep.stdout + deep.stderr).toMatch(/compared \d+ records/);
  expect(deep.code, deep.stdout).toBe(0);
});
