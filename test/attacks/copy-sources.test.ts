// Who copies names a source: a path, a URL, an ARN, in any encoding. Whatever it is called, it is
// read by the rights of who asks, and what they may not read looks the same whether it is there or
// not.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  domain,
  elementOf,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

let target: Target;
/** The owner of `vault` of the tenant cms, and a member of dune with the bucket `hers`. */
let alice: Target;
let eve: Target;

const secret = 'what eve is not to read';
const shared = 'what eve may read';

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'dune']) {
    await callNative(target, 'POST', '/_/v1/tenants', { name });
  }
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  eve = as(target, await newPrincipal(target, { tenant: 'dune', name: 'eve' }));
  for (const path of ['/vault', '/open', '/hers']) {
    const by = path === '/hers' ? eve : alice;
    expect((await send(by, { method: 'PUT', path })).status).toBe(200);
  }
  for (const [path, body] of [
    ['/vault/k', secret],
    ['/open/in/k', shared],
    ['/open/k', secret],
  ]) {
    expect((await send(alice, { method: 'PUT', path: path as string, body })).status).toBe(200);
  }
  await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/eve', {
    ...{ effect: 'allow', subjects: ['principal:dune/eve'], bucket: 'open' },
    ...{ prefix: 'in/', actions: ['s3:GetObject'] },
  });
}, 60_000);

afterAll(() => target?.stop(), 60_000);

const copy = (source: string, more: Record<string, string> = {}) =>
  send(eve, {
    ...{ method: 'PUT', path: '/hers/copy' },
    headers: { 'x-amz-copy-source': source, ...more },
  });

/** All ways to call an object of cms that somebody may think of. */
function namesOf(bucket: string, key: string): string[] {
  const { host, port } = new URL(target.endpoint);
  const name = `cms:${bucket}`;
  const origins = [
    ...[`http://${host}`, `https://${domain}`, `http://${domain}:${port}`],
    ...[`HTTP://${domain.toUpperCase()}`, `http://eve@${domain}`, `http://${domain}.`],
    ...[`http://${domain}:99999`, `http://${domain}#@${host}`, `http://${host}?@${domain}`],
    ...['http://elsewhere.example', 'http://169.254.169.254', 'http://[::1]', 'http://', 'file://'],
  ];
  const encoded = encodeURIComponent(key);
  return [
    ...[`${name}/${key}`, `/${name}/${key}`, `//${name}/${key}`, `/./${name}/${key}`],
    ...[`hers/../${name}/${key}`, `/hers%2F..%2F${name}%2F${key}`, `${name}%2F${encoded}`],
    ...[`cms%3A${bucket}/${encoded}`, `cms%253A${bucket}/${key}`, `%63ms:${bucket}/${key}`],
    ...[`${name}/${key}%00`, `${name}/${key}?versionId=null`, `${name}/in/../${key}`],
    ...[`${name}/in%2F..%2F${key}`, `${name}/in/%2e%2e/${key}`, `${name}//${key}`],
    ...origins.flatMap((origin) => [`${origin}/${name}/${key}`, `${origin}//${name}/${key}`]),
    ...[`http://${name}.${domain}/${key}`, `http://${bucket}.cms.${domain}/${key}`],
    ...[`http://cms%3A${bucket}.${domain}/${key}`, `http://${bucket}.${domain}/${key}`],
    ...[`arn:aws:s3:::${name}/${key}`, `arn:aws:s3:::${bucket}/${key}`],
    `arn:aws:s3:us-east-1:cms:accesspoint/${bucket}/object/${key}`,
  ];
}

describe('the source of a copy', () => {
  it('is read where who copies may read it, by path and by URL', async () => {
    const { host } = new URL(target.endpoint);
    for (const source of [
      ...['cms:open/in/k', 'cms%3Aopen/in%2Fk', `http://${host}/cms:open/in/k`],
      ...[`https://${domain}/cms:open/in/k`, `HTTPS://${domain.toUpperCase()}/cms%3Aopen/in/k`],
    ]) {
      const copied = await copy(source);
      expect([source, copied.status]).toEqual([source, 200]);
      expect((await send(eve, { method: 'GET', path: '/hers/copy' })).text).toBe(shared);
    }
  });

  it.each([
    ['of a bucket that lets nobody in', 'vault', 'k', 'no-such-vault'],
    ['beside the prefix that is lent', 'open', 'k', 'no-such-open'],
  ])(
    '%s is not read by any name, and looks like one that is not there',
    async (_, bucket, key, absent) => {
      await send(eve, { method: 'PUT', path: '/hers/copy', body: 'untouched' });
      const others = namesOf(absent, key);
      for (const [i, source] of namesOf(bucket, key).entries()) {
        const [there, notThere] = [await copy(source), await copy(others[i] as string)];
        const told = ({ status, code, text }: typeof there) => [
          status,
          code,
          elementOf(text, 'Message'),
        ];
        expect([source, there.status >= 400 && there.status < 500]).toEqual([source, true]);
        // A key that begins as what is lent, dots and all, may be asked for by its name.
        const isLent = bucket === 'open' && /:open\/in(\/|%2F)/.test(source);
        if (!isLent) expect([source, told(there)]).toEqual([source, told(notThere)]);
      }
      expect((await send(eve, { method: 'GET', path: '/hers/copy' })).text).toBe('untouched');
    },
  );

  it('is looked for where the gateway is, whatever host the request says it has', async () => {
    const host = { host: `elsewhere.${domain}` };
    for (const source of [`http://elsewhere.${domain}/cms:vault/k`, 'http://vault/k']) {
      const answer = await copy(source, host);
      expect([source, answer.status >= 400]).toEqual([source, true]);
    }
    expect((await send(eve, { method: 'GET', path: '/hers/copy' })).text).toBe('untouched');
  });

  it('of parts is decided by the same rules', async () => {
    const begun = await send(eve, {
      ...{ method: 'POST', path: '/hers/parts', query: [['uploads', '']] },
    });
    const UploadId = elementOf(begun.text, 'UploadId') ?? '';
    for (const source of namesOf('vault', 'k')) {
      const part = await send(eve, {
        ...{ method: 'PUT', path: '/hers/parts', headers: { 'x-amz-copy-source': source } },
        query: [
          ['partNumber', '1'],
          ['uploadId', UploadId],
        ],
      });
      expect([source, part.status >= 400 && part.status < 500]).toEqual([source, true]);
    }
    const query = [['uploadId', UploadId]] as const;
    const listed = await send(eve, { method: 'GET', path: '/hers/parts', query });
    expect(listed.text).not.toContain('<Part>');
  });
});

describe("what a customer's key encrypts", () => {
  const own = 'x-amz-server-side-encryption-customer-';
  const source = 'x-amz-copy-source-server-side-encryption-customer-';
  const keys = (prefix: string, fill: string) => {
    const key = Buffer.alloc(32, fill);
    return {
      [`${prefix}algorithm`]: 'AES256',
      [`${prefix}key`]: key.toString('base64'),
      [`${prefix}key-md5`]: createHash('md5').update(key).digest('base64'),
    };
  };
  const path = '/cms:open/in/sealed';

  beforeAll(async () => {
    const put = { method: 'PUT', path: '/open/in/sealed', headers: keys(own, 'alice') };
    expect((await send(alice, { ...put, body: secret })).status).toBe(200);
    await send(eve, { method: 'PUT', path: '/hers/copy', body: 'untouched' });
  });

  it('is not read or copied by who has the rights and not the key, nor told of', async () => {
    for (const [headers, status] of [
      [{}, 400],
      [keys(own, 'eve'), 403],
      [keys(source, 'alice'), 501],
      [{ ...keys(own, 'alice'), [`${own}key-md5`]: keys(own, 'eve')[`${own}key-md5`] }, 400],
      // What is answered of conditions would tell who guesses.
      [{ 'if-match': '"0"' }, 400],
      [{ ...keys(own, 'eve'), 'if-none-match': '*' }, 403],
      [{ ...keys(own, 'eve'), range: 'bytes=0-0' }, 403],
    ] as [Record<string, string>, number][]) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await send(eve, { method, path, headers });
        expect([headers, answer.status]).toEqual([headers, status]);
        expect([answer.headers.etag, answer.text.includes(secret)]).toEqual([undefined, false]);
      }
    }
    for (const [more, status] of [
      [{}, 400],
      [keys(source, 'eve'), 403],
      [keys(own, 'alice'), 400],
      [{ ...keys(own, 'eve'), ...keys(source, 'eve') }, 403],
      [{ 'x-amz-metadata-directive': 'REPLACE', 'x-amz-server-side-encryption': 'AES256' }, 400],
    ] as [Record<string, string>, number][]) {
      const copied = await copy('cms:open/in/sealed', more);
      expect([more, copied.status]).toEqual([more, status]);
    }
    expect((await send(eve, { method: 'GET', path: '/hers/copy' })).text).toBe('untouched');
  });

  it('is read and copied with the key by who has the rights, and by nobody else', async () => {
    const headers = keys(own, 'alice');
    expect((await send(eve, { method: 'GET', path, headers })).text).toBe(secret);
    expect((await copy('cms:open/in/sealed', keys(source, 'alice'))).status).toBe(200);
    expect((await send(eve, { method: 'GET', path: '/hers/copy' })).text).toBe(secret);
    // Where one has no rights, a key changes nothing of what is answered.
    const answers = await Promise.all(
      ['/cms:vault/k', '/cms:vault/none'].map((of) =>
        send(eve, { method: 'GET', path: of, headers }),
      ),
    );
    expect(answers.map(({ status, code }) => [status, code])).toEqual(
      Array.from({ length: 2 }, () => [403, 'AccessDenied']),
    );
  });
});
