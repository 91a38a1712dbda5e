// What a lost database costs: nothing that was acknowledged (docs/admin/rebuild.md). The gateway is
// killed, its database removed, and `bursar rebuild` has the store and the root keys alone.
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededBytes } from '../tooling/files.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { inTurns, RebuildRig, type Seen } from './rebuild-rig.ts';
import type { S3Client, Sending } from './s3-client.ts';

const MiB = 1024 * 1024;

async function ask(client: S3Client, method: string, path: string, sending: Sending = {}) {
  const answer = await client.send(method, path, sending);
  if (answer.status >= 300) {
    throw new Error(`${method} ${path}: ${answer.status} ${answer.body.toString()}`);
  }
  return answer;
}

const keyOf = (i: number): string => `folder ${i % 7}/ключ+${String(i).padStart(4, '0')}`;

/** A thousand objects, made in all the ways that there are, and traces of more. */
async function fill(client: S3Client): Promise<void> {
  for (const name of ['one', 'two', 'gone']) await ask(client, 'PUT', `/${name}`);
  const put = (bucket: string, i: number, seed: number) =>
    ask(client, 'PUT', `/${bucket}/${keyOf(i)}`, {
      headers: {
        'content-type': `text/x-${i}`,
        'x-amz-meta-number': String(seed),
        ...(i % 3 === 0 ? { 'cache-control': 'no-store' } : {}),
      },
      body: seededBytes(seed, 1 + ((seed * 7919) % 9000)),
    });
  const numbers = Array.from({ length: 1000 }, (_, i) => i);
  await inTurns(numbers, async (i) => void (await put('one', i, i)));
  await inTurns(numbers.slice(0, 200), async (i) => void (await put('one', i, 5000 + i)));
  await inTurns(numbers.slice(150, 250), async (i) => {
    await ask(client, 'DELETE', `/one/${keyOf(i)}`);
  });
  await inTurns(numbers.slice(300, 350), async (i) => {
    const source = encodeURI(`/one/${keyOf(i)}`).replaceAll('+', '%2B');
    await ask(client, 'PUT', `/two/copy-${i}`, { headers: { 'x-amz-copy-source': source } });
    // The copy alone keeps the extents alive.
    if (i < 325) await ask(client, 'DELETE', `/one/${keyOf(i)}`);
  });
  await inTurns(numbers.slice(0, 30), async (i) => {
    await ask(client, 'PUT', `/two/empty-${i}`, {
      headers: { 'x-amz-meta-none': 'at all' },
      body: Buffer.alloc(0),
    });
  });
  await ask(client, 'PUT', '/two/large', { body: seededBytes(1, 20 * MiB) });
  for (const key of ['parts', 'parts again']) await putParts(client, `/two/${key}`, true);
  await putParts(client, '/two/never completed', false);
  await ask(client, 'PUT', '/gone/object', { body: seededBytes(2, 100) });
  await ask(client, 'DELETE', '/gone/object');
  await ask(client, 'DELETE', '/gone');
}

async function putParts(client: S3Client, path: string, completes: boolean): Promise<void> {
  const headers = { 'x-amz-meta-made': 'in parts' };
  const begun = await ask(client, 'POST', path, { query: [['uploads', '']], headers });
  const id = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body.toString())?.[1] ?? '';
  const tags: string[] = [];
  for (const [number, sizeBytes] of [
    [1, 5 * MiB],
    [2, 5 * MiB + 1],
    [3, 77],
  ] as const) {
    const query: [string, string][] = [
      ['partNumber', String(number)],
      ['uploadId', id],
    ];
    const part = await ask(client, 'PUT', path, { query, body: seededBytes(number, sizeBytes) });
    tags.push(`<Part><PartNumber>${number}</PartNumber><ETag>${part.headers.etag}</ETag></Part>`);
  }
  if (!completes) return;
  const body = Buffer.from(`<CompleteMultipartUpload>${tags.join('')}</CompleteMultipartUpload>`);
  await ask(client, 'POST', path, { query: [['uploadId', id]], body });
}

async function lookAtBoth(rig: RebuildRig): Promise<Record<string, Map<string, Seen>>> {
  return { one: await rig.look('one'), two: await rig.look('two') };
}

describeWithTool(versitygw, 'a gateway that lost its database', (path) => {
  let rig: RebuildRig;
  let before: Record<string, Map<string, Seen>>;
  let liveExtents: string[];

  beforeAll(async () => {
    rig = await RebuildRig.start(path);
    await rig.serve();
    await fill(rig.client);
    before = await lookAtBoth(rig);
    await rig.kill();
    rig.loseDatabase();
  }, 300_000);
  afterAll(() => rig?.stop(), 60_000);

  it('restores every object as its clients saw it, with its metadata, times and bytes', async () => {
    const { code, stderr, report } = await rig.rebuild();
    expect(code, stderr).toBe(0);
    expect(report).toMatchObject({
      isWhole: true,
      buckets: 2,
      tenants: ['default'],
      principals: ['default/admin'],
      lost: { count: 0 },
      damagedExtents: { count: 0 },
    });
    await rig.serve();
    const after = await lookAtBoth(rig);
    expect(after.one?.size).toBe(1000 - 100 - 25);
    expect(after).toEqual(before);
  }, 300_000);
});
