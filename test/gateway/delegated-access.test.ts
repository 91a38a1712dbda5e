// What a token leaves of its principal's rights in S3: its scope and its conditions, in every
// operation that reads or writes.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseScope } from '#bursar/authz/tokens/scope.js';
import { isDelegated } from '#bursar/gateway/s3/delegated-rights.js';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  elementsOf,
  exchange,
  type Message,
  newPrincipal,
  patternOf,
  send,
  startEmbeddedTarget,
  type Target,
  targetOf,
} from '../protocol/target.ts';

let target: Target;
/** Owns the buckets `data` and `more`. */
let owner: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  owner = as(target, await newPrincipal(target, { name: 'owner' }));
  for (const name of ['data', 'more']) await ask(owner, 'PUT', `/${name}`);
  for (const key of ['in/1', 'in/2', 'out']) {
    expect((await ask(owner, 'PUT', `/data/${key}`, { body: key })).status).toBe(200);
  }
  await ask(owner, 'PUT', '/more/other', { body: 'other' });
}, 60_000);

afterAll(() => target?.stop(), 60_000);

type More = Pick<Message, 'headers' | 'body'> & { query?: Record<string, string> };
/** Asks with the rights of a token, or of keys. */
type Ask = (method: string, path: string, more?: More) => Promise<Answer>;

function ask(who: Target, method: string, path: string, more: More = {}): Promise<Answer> {
  return send(who, { ...more, method, path, query: Object.entries(more.query ?? {}) });
}

async function bear(scope: string, conditions?: object): Promise<Ask> {
  const body = { scope, ...(conditions && { conditions }) };
  const { token } = await callNative(owner, 'POST', '/_/v1/tokens', body);
  return (method, path, { query = {}, headers = {}, body = '' } = {}) => {
    const length = { 'content-length': String(Buffer.from(body as string, 'latin1').length) };
    const all = { authorization: `Bearer ${token}`, ...length, ...headers };
    return exchange(target, method, targetOf(path, Object.entries(query)), all, body);
  };
}

it('fetches from an archive with the right to stage, and with no other', () => {
  const target = { bucketNames: ['data'], key: 'in/1', listPrefix: null };
  const mayRestore = (scope: string) =>
    isDelegated(parseScope(scope), { ...target, action: 's3:RestoreObject' });
  expect(mayRestore('storage.stage:/data/in')).toBe(true);
  const others = ['storage.stage:/data/out', 'storage.read:/data/in', 'storage.modify:/data/in'];
  expect(others.filter(mayRestore)).toEqual([]);
});

const outcome = ({ status, code }: Answer) => [status, code];
const denied = [403, 'AccessDenied'];
const source = (name: string) => ({ headers: { 'x-amz-copy-source': name } });

async function beginAs(bearer: Ask, path: string): Promise<string> {
  const begun = await bearer('POST', path, { query: { uploads: '' } });
  expect(begun.status).toBe(200);
  return elementOf(begun.text, 'UploadId') ?? '';
}

const completion = (...etags: (string | undefined)[]): string => {
  const parts = etags.map((etag, i) => {
    return `<Part><PartNumber>${i + 1}</PartNumber><ETag>${etag}</ETag></Part>`;
  });
  return `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
};

describe('a token that reads a folder', () => {
  let bearer: Ask;
  beforeAll(async () => {
    bearer = await bear('storage.read:/data/in');
  });

  it('gets, lists and copies from it, and nothing beside it', async () => {
    expect((await bearer('GET', '/data/in/1')).text).toBe('in/1');
    const listed = await bearer('GET', '/data', { query: { prefix: 'in/' } });
    expect(elementsOf(listed.text, 'Key')).toEqual(['in/1', 'in/2']);
    expect((await bearer('HEAD', '/data')).status).toBe(200);
    const refused = [
      bearer('GET', '/data/out'),
      bearer('GET', '/data/inn'),
      bearer('GET', '/data'),
      bearer('GET', '/data', { query: { prefix: 'in' } }),
      bearer('GET', '/more/other'),
      bearer('GET', '/more', { query: { location: '' } }),
      bearer('GET', '/data', { query: { policy: '' } }),
      bearer('PUT', '/data/in/3', { body: 'x' }),
      bearer('PUT', '/data/in/3', source('data/in/1')),
      bearer('DELETE', '/data/in/1'),
      bearer('DELETE', '/data'),
      bearer('PUT', '/fresh'),
    ];
    for (const answer of await Promise.all(refused)) expect(outcome(answer)).toEqual(denied);
  });

  it('sees in the list of buckets that one only', async () => {
    const answer = await bearer('GET', '/');
    expect(elementsOf(answer.text, 'Name')).toEqual(['data']);
  });

  it('learns of keys that are not there inside its folder alone', async () => {
    expect(outcome(await bearer('GET', '/data/in/none'))).toEqual([404, 'NoSuchKey']);
    expect(outcome(await bearer('GET', '/data/none'))).toEqual(denied);
  });
});

describe('a token that creates', () => {
  let bearer: Ask;
  beforeAll(async () => {
    bearer = await bear('storage.create:/data/new storage.read:/data/in');
  });

  it('makes what is not there, with its tags, and looks whether it arrived', async () => {
    const headers = { 'x-amz-tagging': 'a=1' };
    expect((await bearer('HEAD', '/data/new/1')).status).toBe(404);
    expect((await bearer('PUT', '/data/new/1', { headers, body: 'first' })).status).toBe(200);
    expect((await bearer('HEAD', '/data/new/1')).headers['content-length']).toBe('5');
    expect(outcome(await bearer('GET', '/data/new/1'))).toEqual(denied);
    expect((await bearer('PUT', '/data/new/2', source('data/in/1'))).status).toBe(200);
    expect((await ask(owner, 'GET', '/data/new/2')).text).toBe('in/1');
  });

  it('replaces and deletes nothing, in none of the ways to do so', async () => {
    const deletion = '<Delete><Object><Key>new/1</Key></Object></Delete>';
    const digest = { 'content-md5': createHash('md5').update(deletion).digest('base64') };
    const refused = [
      await bearer('PUT', '/data/new/1', { body: 'x' }),
      await bearer('PUT', '/data/new/1', { body: 'x', headers: { 'if-match': '*' } }),
      await bearer('PUT', '/data/new/1', source('data/in/1')),
      await bearer('DELETE', '/data/new/1'),
      await bearer('POST', '/data', { query: { delete: '' }, headers: digest, body: deletion }),
    ];
    for (const answer of refused) expect(outcome(answer)).toEqual(denied);
    expect(refused[0]?.text).toContain('lets it create objects, not replace them');
    const asked = await bearer('PUT', '/data/new/1', {
      headers: { 'if-none-match': '*' },
      body: 'x',
    });
    expect(outcome(asked)).toEqual([412, 'PreconditionFailed']);
    expect((await ask(owner, 'GET', '/data/new/1')).text).toBe('first');
  });

  it('does not replace by a body that comes in while another writes the key', async () => {
    const attempts = Array.from({ length: 8 }, (_, i) =>
      bearer('PUT', '/data/new/race', { body: `${i}` }),
    );
    const statuses = (await Promise.all(attempts)).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, ...Array.from({ length: 7 }, () => 403)]);
  });

  it('completes an upload of its own, over nothing, and touches none of others', async () => {
    const uploadId = await beginAs(bearer, '/data/new/mpu');
    const part = { query: { uploadId, partNumber: '1' }, body: 'part' };
    const { etag } = (await bearer('PUT', '/data/new/mpu', part)).headers;
    await ask(owner, 'PUT', '/data/new/mpu', { body: 'earlier' });
    const end = { query: { uploadId }, body: completion(etag) };
    expect(outcome(await bearer('POST', '/data/new/mpu', end))).toEqual(denied);
    await ask(owner, 'DELETE', '/data/new/mpu');
    expect((await bearer('POST', '/data/new/mpu', end)).status).toBe(200);
    expect((await bearer('POST', '/data/new/mpu', end)).status).toBe(200);
    expect((await ask(owner, 'GET', '/data/new/mpu')).text).toBe('part');

    const others = await beginAs((...given) => ask(target, ...given), '/data/new/theirs');
    const query = { uploadId: others };
    const attempts = [
      bearer('PUT', '/data/new/theirs', { query: { ...query, partNumber: '1' }, body: 'x' }),
      bearer('GET', '/data/new/theirs', { query }),
      bearer('DELETE', '/data/new/theirs', { query }),
      bearer('POST', '/data/new/theirs', { query, body: completion('x') }),
    ];
    for (const answer of await Promise.all(attempts)) expect(outcome(answer)).toEqual(denied);
    const own = await beginAs(bearer, '/data/new/own');
    expect((await bearer('DELETE', '/data/new/own', { query: { uploadId: own } })).status).toBe(
      204,
    );
  });

  it('copies nothing, whole or in parts, that it may not read', async () => {
    const uploadId = await beginAs(bearer, '/data/new/parts');
    const query = { uploadId, partNumber: '1' };
    for (const name of ['data/out', 'more/other', 'data/new/1']) {
      const copied = await bearer('PUT', '/data/new/3', source(name));
      const part = await bearer('PUT', '/data/new/parts', { query, ...source(name) });
      expect([name, outcome(copied), outcome(part)]).toEqual([name, denied, denied]);
    }
    // Keys are names, not paths: these are two in the folder, of objects that are not there.
    for (const name of ['data/in/../out', 'data/in%2F..%2F..%2Fmore%2Fother']) {
      const copied = await bearer('PUT', '/data/new/3', source(name));
      expect(outcome(copied)).toEqual([404, 'NoSuchKey']);
    }
    const part = await bearer('PUT', '/data/new/parts', { query, ...source('data/in/1') });
    expect(part.status).toBe(200);
  });
});

describe('the conditions of a token', () => {
  it('bound the size of what is written, however it is', async () => {
    const scope = 'storage.modify:/data/small storage.read:/data/in';
    const bearer = await bear(scope, { objectBytesMax: 3 });
    expect((await bearer('PUT', '/data/small/1', { body: 'abc' })).status).toBe(200);
    const uploadId = await beginAs(bearer, '/data/small/2');
    const part = (number: string) => ({ uploadId, partNumber: number });
    const path = '/data/small/2';
    expect((await bearer('PUT', path, { query: part('1'), body: 'ab' })).status).toBe(200);
    const refused = [
      bearer('PUT', '/data/small/1', { body: 'abcd' }),
      bearer('PUT', '/data/small/1', source('data/in/1')),
      bearer('PUT', path, { query: part('2'), body: 'cd' }),
      bearer('PUT', path, { query: part('2'), ...source('data/in/1') }),
    ];
    for (const answer of await Promise.all(refused)) expect(outcome(answer)).toEqual(denied);
    // Another may have uploaded more.
    const more = { query: part('1'), body: 'abcd' };
    const { etag } = (await ask(owner, 'PUT', path, more)).headers;
    const end = { query: { uploadId }, body: completion(etag) };
    expect(outcome(await bearer('POST', path, end))).toEqual(denied);
    expect((await ask(owner, 'POST', path, end)).status).toBe(200);
    // In frames it is the length that is declared which counts, and no more may come.
    const framed = (declared: number) => ({
      headers: {
        'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
        'x-amz-decoded-content-length': String(declared),
      },
      body: '4\r\nabcd\r\n0\r\n\r\n',
    });
    expect(outcome(await bearer('PUT', '/data/small/3', framed(4)))).toEqual(denied);
    expect((await bearer('PUT', '/data/small/3', framed(3))).status).toBe(400);
    expect((await ask(owner, 'HEAD', '/data/small/3')).status).toBe(404);
  });

  it('refuse a body before it is sent', async () => {
    const bearer = await bear('storage.modify:/data', { objectBytesMax: 3 });
    const body = patternOf(8 * 1024 * 1024).toString('latin1');
    const answer = await bearer('PUT', '/data/large', { body });
    expect(outcome(answer)).toEqual(denied);
    expect((await ask(owner, 'HEAD', '/data/large')).status).toBe(404);
  });

  it('bound the storage class, named or not', async () => {
    const bearer = await bear('storage.modify:/data', { classes: ['GLACIER'] });
    const refused = [
      bearer('PUT', '/data/class', { body: 'x' }),
      bearer('PUT', '/data/class', { body: 'x', headers: { 'x-amz-storage-class': 'STANDARD' } }),
      bearer('PUT', '/data/class', source('data/in/1')),
      bearer('POST', '/data/class', { query: { uploads: '' } }),
    ];
    for (const answer of await Promise.all(refused)) {
      expect(outcome(answer)).toEqual(denied);
    }
    expect((await ask(owner, 'HEAD', '/data/class')).status).toBe(404);
    const fitting = await bear('storage.modify:/data', { classes: ['STANDARD'] });
    expect((await fitting('PUT', '/data/class', { body: 'x' })).status).toBe(200);
  });
});

describe('a token of a principal', () => {
  it('gives nothing that its principal has not', async () => {
    const bearer = await bear('storage.modify:/');
    const other = as(target, await newPrincipal(target, { name: 'other' }));
    await ask(other, 'PUT', '/theirs');
    await ask(other, 'PUT', '/theirs/k', { body: 'x' });
    expect(outcome(await bearer('HEAD', '/theirs/k'))).toEqual([403, undefined]);
    expect(outcome(await bearer('PUT', '/theirs/k', { body: 'y' }))).toEqual(denied);
    expect((await ask(other, 'GET', '/theirs/k')).text).toBe('x');
  });
});
