// What a gateway is given before it loses its database: objects made in all the ways that there
// are.
import { seededBytes } from '../tooling/files.ts';
import { inTurns, sealing } from './rebuild-rig.ts';
import type { S3Client, Sending } from './s3-client.ts';

const MiB = 1024 * 1024;

export async function ask(client: S3Client, method: string, path: string, sending: Sending = {}) {
  const answer = await client.send(method, path, sending);
  if (answer.status >= 300) {
    throw new Error(`${method} ${path}: ${answer.status} ${answer.body.toString()}`);
  }
  return answer;
}

const keyOf = (i: number): string => `folder ${i % 7}/ключ+${String(i).padStart(4, '0')}`;

/** More than one commit restores; with what was overwritten, more extents than a page lists. */
const made = 600;
const overwritten = 400;
const deleted = 60;
export const moved = 25;
export const left = made - deleted - moved;

/** Hundreds of objects, made in all the ways that there are, and traces of more. */
export async function fill(client: S3Client): Promise<void> {
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
  const numbers = Array.from({ length: made }, (_, i) => i);
  await inTurns(numbers, async (i) => void (await put('one', i, i)));
  await inTurns(numbers.slice(0, overwritten), async (i) => void (await put('one', i, 5000 + i)));
  await inTurns(numbers.slice(overwritten - 50, overwritten - 50 + deleted), async (i) => {
    await ask(client, 'DELETE', `/one/${keyOf(i)}`);
  });
  await inTurns(numbers.slice(0, 2 * moved), async (i) => {
    const source = encodeURI(`/one/${keyOf(i)}`).replaceAll('+', '%2B');
    await ask(client, 'PUT', `/two/copy-${i}`, { headers: { 'x-amz-copy-source': source } });
    // The copy alone keeps the extents alive.
    if (i < moved) await ask(client, 'DELETE', `/one/${keyOf(i)}`);
  });
  await inTurns(numbers.slice(0, 30), async (i) => {
    await ask(client, 'PUT', `/two/empty-${i}`, {
      headers: { 'x-amz-meta-none': 'at all' },
      body: Buffer.alloc(0),
    });
  });
  await ask(client, 'PUT', '/two/large', { body: seededBytes(1, 9 * MiB) });
  for (const key of ['parts', 'parts again']) await putParts(client, `/two/${key}`, true);
  await ask(client, 'PUT', '/two/sealed', { headers: sealing, body: seededBytes(4, 1000) });
  await putParts(client, '/two/sealed parts', true, sealing);
  await putParts(client, '/two/never completed', false);
  await ask(client, 'PUT', '/gone/object', { body: seededBytes(2, 100) });
  await ask(client, 'DELETE', '/gone/object');
  await ask(client, 'DELETE', '/gone');
}

async function putParts(
  client: S3Client,
  path: string,
  completes: boolean,
  own: Record<string, string> = {},
): Promise<void> {
  const headers = { 'x-amz-meta-made': 'in parts', ...own };
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
    const body = seededBytes(number, sizeBytes);
    const part = await ask(client, 'PUT', path, { query, body, headers: own });
    tags.push(`<Part><PartNumber>${number}</PartNumber><ETag>${part.headers.etag}</ETag></Part>`);
  }
  if (!completes) return;
  const body = Buffer.from(`<CompleteMultipartUpload>${tags.join('')}</CompleteMultipartUpload>`);
  await ask(client, 'POST', path, { query: [['uploadId', id]], body });
}
