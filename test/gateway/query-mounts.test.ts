// Mounts of queries: what fits is a bucket that is read and listed by any S3 client, and nothing
// else is there; with a snapshot as it was then.
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  as,
  callNative,
  elementOf,
  elementsOf,
  type Message,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { awsCli, describeWithTool } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let operator: Target;
let admin: Target;
/** May list all of `data`, and read what is below `in/`. */
let bob: Target;

async function ask(who: Target, method: string, path: string, more: Partial<Message> = {}) {
  return send(who, { ...more, method, path });
}

async function put(path: string, run: string, detector = 'CMS'): Promise<void> {
  const headers = { 'x-amz-meta-run': run, 'x-amz-tagging': `detector=${detector}` };
  expect((await ask(admin, 'PUT', path, { headers, body: path })).status).toBe(200);
}

/** Keys and folded prefixes, page by page. */
async function list(who: Target, bucket: string, query: Record<string, string> = {}, max = '1000') {
  const [keys, prefixes]: [string[], string[]] = [[], []];
  for (let token: string | undefined; ; ) {
    const more = token === undefined ? {} : { 'continuation-token': token };
    const asked = Object.entries({ 'list-type': '2', 'max-keys': max, ...query, ...more });
    const { status, text } = await ask(who, 'GET', `/${bucket}`, { query: asked });
    if (status !== 200) return { status };
    keys.push(...elementsOf(text, 'Key'));
    prefixes.push(...elementsOf(text, 'Prefix').filter((one) => one !== (query.prefix ?? '')));
    token = elementOf(text, 'NextContinuationToken');
    if (token === undefined) return { keys, prefixes };
  }
}

function mount(name: string, fields: object): Promise<unknown> {
  const target = { bucketTenant: 'cms', bucket: 'data', ...fields };
  return callNative(admin, 'PUT', `/_/v1/tenants/cms/mounts/${name}`, target);
}

beforeAll(async () => {
  operator = await startEmbeddedTarget();
  await callNative(operator, 'POST', '/_/v1/tenants', { name: 'cms' });
  admin = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'ada', role: 'admin' }));
  bob = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'bob' }));
  for (const bucket of ['data', 'copies']) await ask(admin, 'PUT', `/${bucket}`);
  for (const folder of ['in', 'out']) {
    for (let i = 0; i < 6; i++) await put(`/data/${folder}/${i % 3}/${i}`, String(i % 2));
  }
  const grants = `/_/v1/tenants/cms/grants`;
  const fields = { effect: 'allow', bucket: 'data', subjects: ['principal:cms/bob'] };
  await callNative(operator, 'PUT', `${grants}/list`, { ...fields, actions: ['s3:ListBucket'] });
  const reading = { ...fields, actions: ['s3:GetObject'], prefix: 'in/' };
  await callNative(operator, 'PUT', `${grants}/read`, reading);
  await mount('run1', { where: 'meta.run = 1' });
  await mount('tagged', { where: 'tag.detector = "CMS" and meta.run = 1' });
  await callNative(admin, 'PUT', '/_/v1/tenants/cms/buckets/data/snapshots/paper', {});
  await mount('paper1', { where: 'meta.run = 1', at: 'paper' });
  await vi.waitFor(async () => expect((await list(admin, 'run1')).keys).toHaveLength(6), {
    timeout: 30_000,
    interval: 50,
  });
});
afterAll(() => operator.stop());

const fitting = ['in/0/3', 'in/1/1', 'in/2/5', 'out/0/3', 'out/1/1', 'out/2/5'];

describe('a mount of a query', () => {
  it('lists what fits, in pages, by prefixes and folders', async () => {
    expect(await list(admin, 'run1')).toEqual({ keys: fitting, prefixes: [] });
    expect((await list(admin, 'run1', {}, '2')).keys).toEqual(fitting);
    expect((await list(admin, 'run1', { prefix: 'out/' })).keys).toEqual(fitting.slice(3));
    expect((await list(admin, 'run1', { 'start-after': 'in/2/5' })).keys).toEqual(fitting.slice(3));
    for (const max of ['1', '1000']) {
      const top = await list(admin, 'run1', { delimiter: '/' }, max);
      expect(top).toEqual({ keys: [], prefixes: ['in/', 'out/'] });
      const below = await list(admin, 'run1', { delimiter: '/', prefix: 'in/' }, max);
      expect(below).toEqual({ keys: [], prefixes: ['in/0/', 'in/1/', 'in/2/'] });
    }
    const { text } = await ask(admin, 'GET', '/run1');
    expect(elementsOf(text, 'Key')).toEqual(fitting);
  });

  it('gives what fits, and nothing else, and takes nothing', async () => {
    const got = await ask(admin, 'GET', '/run1/in/0/3');
    expect([got.status, got.text]).toEqual([200, '/data/in/0/3']);
    expect((await ask(admin, 'HEAD', '/run1/in/0/3')).status).toBe(200);
    for (const query of [[], [['tagging', '']], [['attributes', '']], [['acl', '']]] as const) {
      const headers = { 'x-amz-object-attributes': 'ETag' };
      const missing = await ask(admin, 'GET', '/run1/in/0/0', { query, headers });
      expect([query, missing.status]).toEqual([query, 404]);
    }
    expect((await ask(admin, 'HEAD', '/run1/in/0/0')).status).toBe(404);
    const versions = await ask(admin, 'GET', '/run1', { query: [['versions', '']] });
    expect(versions.status).toBe(405);
    for (const [method, path] of [
      ['PUT', '/run1/new'],
      ['DELETE', '/run1/in/0/3'],
      ['DELETE', '/run1'],
    ] as const) {
      expect((await ask(admin, method, path)).status, `${method} ${path}`).toBe(405);
    }
    const copy = (key: string) =>
      ask(admin, 'PUT', '/copies/k', { headers: { 'x-amz-copy-source': key } });
    expect((await copy('/run1/in/0/3')).status).toBe(200);
    expect((await copy('/run1/in/0/0')).status).toBe(404);
  });

  it('shows who may not read what it says nothing of it', async () => {
    expect((await list(bob, 'run1')).keys).toEqual(fitting.slice(0, 3));
    expect((await list(bob, 'tagged')).keys).toEqual([]);
    expect((await ask(bob, 'GET', '/run1/in/0/3')).status).toBe(200);
    // It asks for tags, which bob may not read.
    expect((await ask(bob, 'GET', '/tagged/in/0/3')).status).toBe(404);
    expect((await ask(bob, 'GET', '/run1/out/0/3')).status).toBe(403);
  });

  it('is found in by queries of its own, and told of what it leads to', async () => {
    const path = '/_/v1/tenants/cms/buckets/run1/objects';
    const query = [['where', 'key like "out/*" or meta.run = 0']] as const;
    const { objects } = await callNative(admin, 'GET', path, undefined, query);
    expect(objects.map(({ key }: { key: string }) => key)).toEqual(fitting.slice(3));
    const shown = await callNative(admin, 'GET', '/_/v1/tenants/cms/mounts/paper1');
    expect(shown).toMatchObject({ bucket: 'data', at: 'paper', where: 'meta.run = 1' });
    const plain = await callNative(admin, 'GET', '/_/v1/tenants/cms/mounts/run1');
    expect(plain).toMatchObject({ bucket: 'data', at: null, where: 'meta.run = 1' });
    await expect(mount('bad', { where: 'meta.run =' })).rejects.toThrow('400');
    const changes = [['bucket', 'run1']] as const;
    const feed = callNative(admin, 'GET', '/_/v1/tenants/cms/changes', undefined, changes);
    await expect(feed).rejects.toThrow('follow the bucket itself');
    const eve = as(operator, await newPrincipal(operator, { tenant: 'cms', name: 'eve' }));
    const hidden = callNative(eve, 'GET', '/_/v1/tenants/cms/changes', undefined, changes);
    await expect(hidden).rejects.toThrow('403');
    const share = { bucket: 'run1', key: 'in/0/3', expiresIn: 60 };
    await expect(callNative(admin, 'POST', '/_/v1/shares', share)).rejects.toThrow('400');
  });

  describeWithTool(awsCli, 'fetched by the AWS CLI', (aws) => {
    const folder = mkdtempSync(join(tmpdir(), 'bursar-mount-'));
    afterAll(() => rmSync(folder, { recursive: true }));

    it.each(['run1', 'paper1'])('is all of %s, and nothing else', async (bucket) => {
      const into = join(folder, bucket);
      const args = ['s3', 'cp', '--recursive', '--only-show-errors', `s3://${bucket}/`, into];
      await promisify(execFile)(aws, ['--endpoint-url', operator.endpoint, ...args], {
        env: {
          ...{ PATH: process.env.PATH, NO_PROXY: '127.0.0.1', AWS_DEFAULT_REGION: 'us-east-1' },
          AWS_ACCESS_KEY_ID: admin.keys.accessKeyId,
          AWS_SECRET_ACCESS_KEY: admin.keys.secretAccessKey,
        },
      });
      const entries = readdirSync(into, { recursive: true, withFileTypes: true });
      const files = entries.filter((one) => one.isFile());
      const names = files.map((one) => join(one.parentPath, one.name).slice(into.length + 1));
      expect(names.sort()).toEqual(fitting);
      for (const name of names) {
        expect(readFileSync(join(into, name), 'utf8')).toBe(`/data/${name}`);
      }
    });
  });

  it('with a snapshot shows what fitted then', async () => {
    await put('/data/in/0/3', '7');
    await put('/data/in/late', '1');
    await ask(admin, 'DELETE', '/data/out/2/5');
    expect((await list(admin, 'paper1')).keys).toEqual(fitting);
    expect((await list(admin, 'paper1', {}, '2')).keys).toEqual(fitting);
    expect((await ask(admin, 'GET', '/paper1/out/2/5')).text).toBe('/data/out/2/5');
    expect((await ask(admin, 'GET', '/paper1/in/late')).status).toBe(404);
    expect((await ask(admin, 'GET', '/run1/in/0/3')).status).toBe(404);
    const now = [...fitting.slice(1, 3), 'in/late', 'out/0/3', 'out/1/1'];
    await vi.waitFor(async () => expect((await list(admin, 'run1')).keys).toEqual(now), 30_000);
  });
});
