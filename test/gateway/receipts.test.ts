// Receipts over HTTP: who gets which, that each verifies by the published key alone, and what it
// says.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ed25519, type NoteKey } from '#bursar/audit/log/note.js';
import { parseReceipt } from '#bursar/audit/receipt.js';
import { verifyReceipt } from '#bursar/audit/verify/receipt.js';
import { parseVerifiers } from '#bursar/audit/verify/trusted-keys.js';
import {
  type Answer,
  as,
  callNative,
  exchange,
  type Keys,
  type Message,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

vi.setConfig({ testTimeout: 30_000 });

let target: Target;
let keys: NoteKey[];
const people: Record<string, Target> = {};
/** What Alice of cms did, by the index of its record. */
let put: Answer;
let index = '';

const person = (name: string): Target => people[name] as Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  const made = async (tenant: string, name: string, role: string): Promise<void> => {
    people[`${tenant}/${name}`] = as(target, await newPrincipal(target, { tenant, name, role }));
  };
  await made('cms', 'alice', 'member');
  await made('cms', 'bob', 'member');
  await made('cms', 'boss', 'admin');
  await made('cms', 'ears', 'auditor');
  await made('atlas', 'eve', 'member');
  await made('atlas', 'chief', 'admin');
  await made('atlas', 'eyes', 'auditor');
  await send(person('cms/alice'), { method: 'PUT', path: '/raw' });
  put = await send(person('cms/alice'), { method: 'PUT', path: '/raw/2026/a', body: 'hello' });
  index = String(put.headers['x-bursar-receipt']);
  const published = await exchange(target, 'GET', '/_/log/key');
  keys = parseVerifiers(published.text, ed25519) ?? [];
});

afterAll(() => target?.stop());

function receiptOf(who: Target, of: string): Promise<Answer> {
  return send(who, { method: 'GET', path: `/_/v1/receipts/${of}` });
}

/** What a receipt proves. Fails if it does not verify. */
function proven({ status, text }: Answer) {
  expect([status, status === 200 ? '' : text]).toEqual([200, '']);
  const verified = verifyReceipt(text, { keys });
  if (!verified.ok) throw new Error(verified.why);
  return verified;
}

async function recorded(who: Target, message: Message): Promise<Record<string, unknown>> {
  const answer = await send(who, message);
  const found = String(answer.headers['x-bursar-receipt']);
  return { ...proven(await receiptOf(who, found)).record };
}

describe('a receipt', () => {
  it('of a PUT verifies by the key alone, and names all that was done', async () => {
    const answer = await receiptOf(person('cms/alice'), index);
    expect(answer.headers['content-type']).toBe('text/plain; charset=utf-8');
    const { record, checkpoint } = proven(answer);
    expect(checkpoint.origin).toMatch(/^bursar\/[0-9a-f]{32}$/);
    expect(record).toEqual({
      accessKeyId: person('cms/alice').keys.accessKeyId,
      action: 's3:PutObject',
      bucket: 'raw',
      bucketOwner: 'alice',
      bytesIn: 5,
      bytesOut: 0,
      class: 'STANDARD',
      cost: '0.000005',
      etag: '5d41402abc4b2a76b9719d911017c592',
      evidence: 'shared-secret',
      index: Number(index),
      key: '2026/a',
      price: 'put',
      priceBook: expect.stringMatching(/^aws-/),
      principal: 'alice',
      requestId: put.headers['x-amz-request-id'],
      sha256: createHash('sha256').update('hello').digest('hex'),
      size: 5,
      source: '127.0.0.1',
      status: 200,
      storedBytes: 5,
      storedObjects: 1,
      tenant: 'cms',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      version: Number(index),
    });
  });

  it('is there at once for what was just answered, twenty times in a row', async () => {
    const alice = person('cms/alice');
    for (let i = 0; i < 20; i++) {
      const { headers } = await send(alice, { method: 'PUT', path: '/raw/n', body: `${i}` });
      const of = String(headers['x-bursar-receipt']);
      expect(proven(await receiptOf(alice, of)).record.key).toBe('n');
    }
  });

  it('of one record is the same each time but for the checkpoint and the way to it', async () => {
    const one = parseReceipt((await receiptOf(person('cms/alice'), index)).text);
    const other = parseReceipt((await receiptOf(person('cms/alice'), index)).text);
    const { checkpoint: _one, proof: _proof, ...opening } = one ?? {};
    expect(other).toMatchObject(opening);
  });

  it('of a refused write tells of the refusal', async () => {
    const record = await recorded(person('cms/bob'), {
      method: 'PUT',
      path: '/raw/2026/a',
      body: 'not mine',
    });
    expect(record).toMatchObject({ principal: 'bob', key: '2026/a', error: 'AccessDenied' });
  });

  it('of a call of the native API says what it changed', async () => {
    const rule = { effect: 'allow', subjects: ['principal:cms/bob'], actions: ['s3:GetObject'] };
    const record = await recorded(person('cms/boss'), {
      method: 'PUT',
      path: '/_/v1/tenants/cms/grants/reading',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...rule, bucket: 'raw', prefix: '2026/' }),
    });
    expect(record).toMatchObject({
      action: 'bursar:PutGrant',
      target: 'tenants/cms/grants/reading',
      change: { ...rule, bucket: 'raw', prefix: '2026/' },
    });
  });

  it('of a read is there soon after it', async () => {
    const alice = person('cms/alice');
    const read = await send(alice, { method: 'GET', path: '/raw/2026/a' });
    const requestId = read.headers['x-amz-request-id'];
    const query = [['action', 's3:GetObject']] as const;
    let found: { index: number } | undefined;
    await expect
      .poll(async () => {
        const { records } = await callNative(alice, 'GET', '/_/v1/records', undefined, query);
        found = records.find((one: { requestId: string }) => one.requestId === requestId);
        return found;
      })
      .toBeDefined();
    expect(proven(await receiptOf(alice, String(found?.index))).record).toMatchObject({
      ...{ action: 's3:GetObject', key: '2026/a', bytesOut: 5, requestId },
    });
  });
});

const none = { status: 404, code: 'NoSuchRecord' };

function refusal({ status, text }: Answer): object {
  return { status, code: (JSON.parse(text) as { code: string }).code };
}

describe('a receipt is for', () => {
  it.each([
    ['who made the request', 'cms/alice'],
    ["its tenant's admins", 'cms/boss'],
    ["its tenant's auditors", 'cms/ears'],
  ])('%s', async (_title, name) => {
    expect(proven(await receiptOf(person(name), index)).record.principal).toBe('alice');
  });

  it('the operator', async () => {
    expect(proven(await receiptOf(target, index)).record.principal).toBe('alice');
  });

  it.each(['cms/bob', 'atlas/eve', 'atlas/chief', 'atlas/eyes'])(
    'not %s, to whom it is as if there were none',
    async (name) => {
      const theirs = await receiptOf(person(name), index);
      const nobodys = '999999999';
      const absent = await receiptOf(person(name), nobodys);
      expect(refusal(theirs)).toEqual(none);
      const { requestId: _id, instance: _path, ...said } = JSON.parse(theirs.text);
      // It names what was asked for.
      const detail = `There is no record ${nobodys}.`;
      expect(said.detail).toBe(`There is no record ${index}.`);
      expect(JSON.parse(absent.text)).toMatchObject({ ...said, detail });
    },
  );

  it("the bucket's tenant, whoever asked: its admins and auditors, and no others", async () => {
    const denied = await send(person('atlas/eve'), {
      method: 'PUT',
      path: '/cms:raw/k',
      body: 'from outside',
    });
    expect(denied.status).toBeGreaterThanOrEqual(400);
    const of = String(denied.headers['x-bursar-receipt']);
    for (const name of ['atlas/eve', 'atlas/eyes', 'cms/boss', 'cms/ears']) {
      const { record } = proven(await receiptOf(person(name), of));
      expect(record).toMatchObject({
        tenant: 'atlas',
        bucketTenant: 'cms',
        error: expect.any(String),
      });
    }
    for (const name of ['cms/alice', 'cms/bob']) {
      expect(refusal(await receiptOf(person(name), of))).toEqual(none);
    }
  });

  it('nobody without credentials, who learn nothing of any index', async () => {
    for (const of of [index, '0', '999999999']) {
      const answer = await exchange(target, 'GET', `/_/v1/receipts/${of}`);
      expect(refusal(answer)).toEqual({ status: 403, code: 'AccessDenied' });
    }
  });

  it('whoever a policy lets in without credentials: the admins have it', async () => {
    const policy = {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: '*',
          Action: 's3:GetObject',
          Resource: 'arn:aws:s3:::open/*',
        },
      ],
    };
    await send(target, { method: 'PUT', path: '/open' });
    await send(target, { method: 'DELETE', path: '/open', query: [['publicAccessBlock', '']] });
    await send(target, { method: 'PUT', path: '/open/k', body: 'for all' });
    const query = [['policy', '']] as const;
    await send(target, { method: 'PUT', path: '/open', query, body: JSON.stringify(policy) });
    const { status, headers } = await exchange(target, 'GET', '/open/k');
    expect(status).toBe(200);
    const asked = [
      ['principal', 'anonymous'],
      ['bucket', 'open'],
    ] as const;
    let found: { index: number; requestId: string }[] = [];
    await expect
      .poll(async () => {
        found = (await callNative(target, 'GET', '/_/v1/records', undefined, asked)).records;
        return found;
      })
      .toMatchObject([{ requestId: headers['x-amz-request-id'] }]);
    const of = String(found[0]?.index);
    expect(proven(await receiptOf(target, of)).record.principal).toBe('anonymous');
    expect(refusal(await receiptOf(person('cms/boss'), of))).toEqual(none);
  });

  it.each([
    ...[
      '-1',
      '00',
      '01',
      '1.0',
      '1e3',
      '0x1',
      ' 1',
      '１',
      '9007199254740993',
      `${10n ** 40n}`,
      'x',
    ],
    ...[`${'9'.repeat(400)}`, '__proto__', 'null'],
  ])('no index %s, which is none', async (of) => {
    expect(refusal(await receiptOf(target, of))).toEqual(none);
  });
});

describe('a token', () => {
  const scoped = async (path: string): Promise<{ token: string; jti: string }> => {
    const body = { scope: `storage.read:${path} storage.modify:${path}`, expiresIn: 3600 };
    return callNative(person('cms/alice'), 'POST', '/_/v1/tokens', body);
  };
  const bear = (token: string, method: string, path: string, body?: string): Promise<Answer> =>
    exchange(target, method, path, { authorization: `Bearer ${token}` }, body);

  it('gets receipts of what was done with it, not of what its principal did besides', async () => {
    const [one, other] = [await scoped('/raw/2026'), await scoped('/raw/2026')];
    const done = await bear(one.token, 'PUT', '/raw/2026/b', 'with a token');
    expect(done.status).toBe(200);
    const path = `/_/v1/receipts/${done.headers['x-bursar-receipt']}`;
    expect(proven(await bear(one.token, 'GET', path)).record).toMatchObject({
      ...{ principal: 'alice', key: '2026/b', tokens: [one.jti], evidence: 'shared-secret' },
    });
    expect(refusal(await bear(other.token, 'GET', path))).toEqual(none);
    expect(refusal(await bear(one.token, 'GET', `/_/v1/receipts/${index}`))).toEqual(none);
    proven(await receiptOf(person('cms/alice'), String(done.headers['x-bursar-receipt'])));
  });

  it('that keys with a policy were made of gives receipts of what these did alone', async () => {
    const { token } = await scoped('/raw/2026');
    const Statement = [{ Effect: 'Allow', Action: 's3:*', Resource: 'arn:aws:s3:::raw/2026/c*' }];
    const form = new URLSearchParams({
      ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15', WebIdentityToken: token },
      ...{ RoleArn: 'arn:aws:iam::cms:role/any', RoleSessionName: 'session' },
      Policy: JSON.stringify({ Version: '2012-10-17', Statement }),
    });
    const trade = async (): Promise<(message: Message) => Promise<Answer>> => {
      const type = { 'content-type': 'application/x-www-form-urlencoded' };
      const { text } = await exchange(target, 'POST', '/', type, form.toString());
      const named = (name: string) => new RegExp(`<${name}>([^<]+)<`).exec(text)?.[1] ?? '';
      const [accessKeyId, secretAccessKey] = [named('AccessKeyId'), named('SecretAccessKey')];
      const headers = { 'x-amz-security-token': named('SessionToken') };
      return (message) =>
        send(as(target, { accessKeyId, secretAccessKey }), { ...message, headers });
    };
    const [one, other] = [await trade(), await trade()];
    const done = await one({ method: 'PUT', path: '/raw/2026/c', body: 'by one' });
    expect(done.status, done.text).toBe(200);
    const asked = { method: 'GET', path: `/_/v1/receipts/${done.headers['x-bursar-receipt']}` };
    expect(proven(await one(asked)).record.key).toBe('2026/c');
    expect(refusal(await other(asked))).toEqual(none);
  });

  it('that was revoked leaves a record of each use: on S3, the native API and at STS', async () => {
    const { token, jti } = await scoped('/raw/2026');
    await callNative(person('cms/alice'), 'DELETE', `/_/v1/tokens/${jti}`);
    const form = new URLSearchParams({
      ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15' },
      ...{ RoleArn: 'arn:aws:iam::cms:role/any', RoleSessionName: 'session' },
      WebIdentityToken: token,
    });
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const uses = [
      ['s3:PutObject', await bear(token, 'PUT', '/raw/2026/c', 'no more')],
      ['bursar:WhoAmI', await bear(token, 'GET', '/_/v1/whoami')],
      ['sts:AssumeRoleWithWebIdentity', await exchange(target, 'POST', '/', type, form.toString())],
    ] as const;
    for (const [action, { status, headers }] of uses) {
      expect(status).toBe(403);
      const of = String(headers['x-bursar-receipt']);
      const { record } = proven(await receiptOf(person('cms/alice'), of));
      expect(record).toMatchObject({ action, principal: 'alice', tokens: [jti] });
      expect(record).toMatchObject({ error: 'AccessDenied', status: 403 });
    }
  });
});

describe('a share link', () => {
  it('that is used leaves records in its maker’s name, of what it does not open too', async () => {
    const alice = person('cms/alice');
    const body = { bucket: 'raw', key: '2026/a', expiresIn: 3600 };
    const { url, id } = await callNative(alice, 'POST', '/_/v1/shares', body);
    const { pathname } = new URL(url);
    const found = await exchange(target, 'GET', pathname);
    const other = await exchange(target, 'GET', pathname.replace(/[^/]+$/, 'other'));
    expect([found.status, other.status]).toEqual([200, 404]);
    const asked = [['action', 's3:GetObject']] as const;
    for (const [{ headers, status }, error] of [
      [found, undefined],
      [other, 'NoSuchKey'],
    ] as const) {
      const requestId = headers['x-amz-request-id'];
      await expect
        .poll(async () => {
          const { records } = await callNative(alice, 'GET', '/_/v1/records', undefined, asked);
          return records.find((one: { requestId: string }) => one.requestId === requestId);
        })
        .toMatchObject({ principal: 'alice', tokens: [id], status, ...(error && { error }) });
    }
  });
});

describe('an auditor', () => {
  it('has receipts, and of each S3 read of what they tell nothing', async () => {
    proven(await receiptOf(person('cms/ears'), index));
    for (const path of ['/raw/2026/a', '/raw']) {
      expect((await send(person('cms/ears'), { method: 'GET', path })).status).toBe(403);
    }
  });
});

describe('x-bursar-receipt', () => {
  it('is on what STS trades and refuses, once it is known who asks', async () => {
    const body = { scope: 'storage.read:/raw/2026', expiresIn: 3600 };
    const { token } = await callNative(person('cms/alice'), 'POST', '/_/v1/tokens', body);
    const trade = (more: Record<string, string>): Promise<Answer> => {
      const form = new URLSearchParams({
        ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15' },
        ...{ RoleArn: 'arn:aws:iam::cms:role/any', RoleSessionName: 'session' },
        ...{ WebIdentityToken: token, ...more },
      });
      const type = { 'content-type': 'application/x-www-form-urlencoded' };
      return exchange(target, 'POST', '/', type, form.toString());
    };
    const outcomes = [
      [await trade({}), undefined],
      [await trade({ DurationSeconds: '1' }), 'ValidationError'],
      [await trade({ PolicyArns: 'x' }), 'ValidationError'],
      [await trade({ RoleArn: 'arn:aws:iam::atlas:role/any' }), 'AccessDenied'],
      [await trade({ Policy: '{}' }), 'MalformedPolicyDocument'],
    ] as const;
    for (const [{ headers }, error] of outcomes) {
      const of = String(headers['x-bursar-receipt']);
      const { record } = proven(await receiptOf(person('cms/alice'), of));
      expect([record.action, record.error]).toEqual(['sts:AssumeRoleWithWebIdentity', error]);
    }
    const unknown = await trade({ WebIdentityToken: `${token}x` });
    expect(unknown.headers['x-bursar-receipt']).toBeUndefined();
  });

  it('is on a native call whose body is not the one that was signed', async () => {
    const message = { method: 'POST', path: '/_/v1/tenants', payload: '0'.repeat(64) };
    const headers = { 'content-type': 'application/json' };
    const answer = await send(target, { ...message, headers, body: '{"name":"other"}' });
    expect(refusal(answer)).toEqual({ status: 400, code: 'XAmzContentSHA256Mismatch' });
    const of = String(answer.headers['x-bursar-receipt']);
    expect(proven(await receiptOf(target, of)).record).toMatchObject({
      ...{ action: 'bursar:CreateTenant', error: 'XAmzContentSHA256Mismatch' },
    });
  });
});

describe('a copy', () => {
  let friend: Keys;
  beforeAll(async () => {
    friend = await newPrincipal(target, { tenant: 'atlas', name: 'friend' });
    const rule = {
      effect: 'allow',
      subjects: ['principal:atlas/friend'],
      actions: ['s3:GetObject'],
    };
    const grant = { ...rule, bucket: 'raw' };
    await callNative(person('cms/boss'), 'PUT', '/_/v1/tenants/cms/grants/friends', grant);
    await send(as(target, friend), { method: 'PUT', path: '/mine' });
  });

  it('names its source, whose tenant has a record that its object was read', async () => {
    const copy = await send(as(target, friend), {
      method: 'PUT',
      path: '/mine/copy',
      headers: { 'x-amz-copy-source': 'cms:raw/2026/a' },
    });
    expect(copy.status).toBe(200);
    const of = String(copy.headers['x-bursar-receipt']);
    const { record } = proven(await receiptOf(as(target, friend), of));
    const source = { bucket: 'raw', bucketTenant: 'cms', key: '2026/a', version: Number(index) };
    expect(record).toMatchObject({ key: 'copy', bucket: 'mine', change: { source } });
    expect(refusal(await receiptOf(person('cms/ears'), of))).toEqual(none);
    // Of one that is refused nothing is read.
    const refused = await send(as(target, friend), {
      method: 'PUT',
      path: '/mine/copy',
      headers: { 'x-amz-copy-source': 'cms:raw/2026/a', 'if-none-match': '*' },
    });
    expect(refused.status).toBe(412);
    const asked = [
      ['bucket', 'raw'],
      ['principal', 'atlas/friend'],
    ] as const;
    const ears = person('cms/ears');
    await expect
      .poll(async () => (await callNative(ears, 'GET', '/_/v1/records', undefined, asked)).records)
      .toMatchObject([
        {
          ...{ action: 's3:GetObject', key: '2026/a', tenant: 'atlas', bucketTenant: 'cms' },
          ...{ requestId: copy.headers['x-amz-request-id'], size: 5 },
        },
      ]);
  });
});
