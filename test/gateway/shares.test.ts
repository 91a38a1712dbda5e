// Share links through a served gateway: what a holder gets, what a guesser learns, and when it
// ends.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  as,
  callNative,
  exchange,
  type Keys,
  newName,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

interface Link {
  id: string;
  url: string;
  downloads: number;
  state: string;
}

let target: Target;
let alice: Target;
let bob: Target;
let boss: Target;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  await callNative(target, 'POST', '/_/v1/tenants', { name: 'cms' });
  const made = (name: string, role = 'member'): Promise<Keys> =>
    newPrincipal(target, { tenant: 'cms', name, role });
  alice = as(target, await made('alice'));
  bob = as(target, await made('bob'));
  boss = as(target, await made('boss', 'admin'));
  await put(alice, '/raw');
  await put(alice, '/raw/run/a.txt', 'content of a', { 'content-type': 'text/html' });
  await put(alice, '/raw/run/sub/b', 'b');
  await put(alice, '/raw/running', 'not in the folder run');
});

afterAll(() => target?.stop());

async function put(
  by: Target,
  path: string,
  body = '',
  headers: Record<string, string> = {},
): Promise<void> {
  const answer = await send(by, { method: 'PUT', path, body, headers });
  expect(answer.status, answer.text).toBe(200);
}

function share(by: Target, key: string, more: object = {}): Promise<Link> {
  return send(by, shareMessage(key, more)).then(({ status, text }) => {
    if (status !== 201) throw new Error(text);
    return JSON.parse(text);
  });
}

/** Without any credentials. */
function open(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  return exchange(target, method, url.slice(target.endpoint.length), headers);
}

async function stateOf({ id }: Link, by = alice): Promise<Link | undefined> {
  const { shares } = await callNative(by, 'GET', '/_/v1/shares');
  return (shares as Link[]).find((one) => one.id === id);
}

async function ended(answer: Promise<Answer>): Promise<string> {
  const { status, text } = await answer;
  expect([status, text]).toEqual([410, expect.stringContaining('ShareEnded')]);
  return text;
}

describe('a link to an object', () => {
  it('gives it as a file to save, never as a page of this site', async () => {
    const key = 'run/für "alle".html';
    const secretive = { 'x-amz-meta-note': 'internal', 'content-disposition': 'inline' };
    await put(alice, `/raw/${key}`, '<script>', { ...secretive, 'content-type': 'text/html' });
    const { url } = await share(alice, key);
    const { status, headers, text } = await open(url);
    expect([status, text]).toEqual([200, '<script>']);
    expect(headers).toMatchObject({
      'content-type': 'text/html',
      'content-disposition': "attachment; filename*=UTF-8''f%C3%BCr%20%22alle%22.html",
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    });
    expect(headers).not.toHaveProperty('x-amz-meta-note');
  });

  it('opens that object and nothing beside or below it', async () => {
    const { url } = await share(alice, 'run/sub/b');
    const root = url.slice(0, -'b'.length);
    expect((await open(root)).text).toBe('b');
    for (const path of ['a.txt', 'b/', 'b/c', '../a.txt', '%2e%2e/a.txt', 'B', 'run/sub/b']) {
      expect((await open(root + path)).status, path).toBe(404);
    }
  });

  it('counts each GET, and each range as one; not HEAD, nor what was not sent', async () => {
    const link = await share(alice, 'run/a.txt', { downloads: 2 });
    expect((await open(link.url, {}, 'HEAD')).headers['content-length']).toBe('12');
    const { headers } = await open(link.url, { range: 'bytes=0-2' });
    expect(headers['content-range']).toBe('bytes 0-2/12');
    const unchanged = await open(link.url, { 'if-none-match': headers.etag as string });
    expect(unchanged.status).toBe(304);
    expect((await open(link.url, { range: 'bytes=99-' })).status).toBe(416);
    expect((await open(link.url, { 'if-match': '"x"' })).status).toBe(412);
    expect(await stateOf(link)).toMatchObject({ downloads: 1, state: 'valid' });
    expect((await open(link.url)).text).toBe('content of a');
    expect(await ended(open(link.url))).toContain('used up');
    await ended(open(link.url, { range: 'bytes=0-0' }));
    expect((await open(link.url, {}, 'HEAD')).status).toBe(410);
    expect(await stateOf(link)).toMatchObject({ downloads: 2, state: 'used up' });
  });

  it('gives a hundred downloads when two hundred ask at once, and then no more', async () => {
    const link = await share(alice, 'run/a.txt', { downloads: 100 });
    const answers = await Promise.all(Array.from({ length: 200 }, () => open(link.url)));
    const given = answers.filter(({ status }) => status === 200);
    expect(given.map(({ text }) => text)).toEqual(Array(100).fill('content of a'));
    expect(answers.filter(({ status }) => status === 410)).toHaveLength(100);
    expect(await stateOf(link)).toMatchObject({ downloads: 100 });
  });

  it('is recorded and charged in its maker’s name, with its id and what proves it', async () => {
    await put(alice, '/raw/recorded', 'twelve bytes');
    const link = await share(alice, 'recorded');
    const egress = async (): Promise<number> => {
      const { usage } = await callNative(alice, 'GET', '/_/v1/usage');
      return usage.find(({ account }: { account: string }) => account === 'principal:cms/alice')
        .egressBytes;
    };
    const before = await egress();
    await open(link.url);
    const reads = async () => {
      const query = [['prefix', 'recorded'] as const, ['action', 's3:GetObject'] as const];
      return (await callNative(alice, 'GET', '/_/v1/records', undefined, query)).records;
    };
    await expect.poll(reads).toMatchObject([
      {
        ...{ tenant: 'cms', principal: 'alice', bucket: 'raw', key: 'recorded', status: 200 },
        ...{ evidence: 'shared-secret', tokens: [link.id], bytesOut: 12, source: '127.0.0.1' },
      },
    ]);
    expect((await egress()) - before).toBe(12);
    const secret = link.url.split('.').at(-1)?.split('/')[0] as string;
    expect(JSON.stringify(await reads())).not.toContain(secret);
    await callNative(alice, 'DELETE', `/_/v1/shares/${link.id}`);
    await ended(open(link.url));
    const about = { bucket: 'raw', key: 'recorded', tokens: [link.id] };
    await expect.poll(reads).toMatchObject([
      { ...about, status: 200 },
      { ...about, status: 410, error: 'ShareEnded' },
    ]);
  });
});

describe('a link to a folder', () => {
  it('shows what is in it, and leads there', async () => {
    const { url } = await share(alice, 'run/');
    const { text, headers } = await open(url);
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; style-src 'sha256-/);
    const paths = Array.from(text.matchAll(/href="([^"]*)"/g), (match) => match[1] as string);
    const root = new URL(url).pathname;
    expect(paths).toEqual(expect.arrayContaining([`${root}sub/`, `${root}a.txt`]));
    expect(paths.every((path) => path.startsWith(root))).toBe(true);
    expect((await exchange(target, 'GET', `${root}a.txt`)).text).toBe('content of a');
    const inner = await exchange(target, 'GET', `${root}sub/`);
    expect(inner.text).toContain(`href="${root}"`);
    expect(inner.text).toContain(`href="${root}sub/b"`);
  });

  it('shows names as text, whatever is in them', async () => {
    const names = ['<img src=x onerror=alert(1)>', `"'&amp;`, '\u202egnp.exe', 'a?b#c', '..'];
    for (const name of names) await put(alice, `/raw/odd/${name}`, name);
    const { url } = await share(alice, 'odd/');
    const { text } = await open(url);
    expect(text).not.toContain('<img');
    expect(text).toContain('&lt;img src=x onerror=alert(1)&gt;');
    expect(text).toContain('&quot;&#39;&amp;amp;');
    expect(text).not.toContain('\u202e');
    // A browser would take it for the folder above.
    expect(text).toContain('<td><bdi>..</bdi></td>');
    expect((await open(`${url}a%3Fb%23c`)).text).toBe('a?b#c');
  });

  it('is not counted as a download, but each file in it is', async () => {
    const link = await share(alice, 'run/', { downloads: 1 });
    await open(link.url);
    expect((await open(link.url)).text).toContain('for 1 of 1 downloads');
    expect((await open(`${link.url}a.txt`)).status).toBe(200);
    await ended(open(`${link.url}sub/b`));
    await ended(open(link.url));
  });

  it('opens nothing outside of it, also where it was named without its slash', async () => {
    const { url } = await share(alice, 'run');
    const outside = ['../running', '..%2Frunning', '%2e%2e/running', '/../running', 'ning'];
    for (const path of outside) expect((await open(url + path)).status, path).toBe(404);
    expect((await open(url.slice(0, -1))).status).toBe(200);
    expect((await open(url.slice(0, -2))).status).toBe(404);
  });

  it('goes on after two hundred entries', async () => {
    const names = Array.from({ length: 201 }, (_, i) => `${i}`.padStart(3, '0'));
    await Promise.all(names.map((name) => put(alice, `/raw/many/${name}`)));
    const { url } = await share(alice, 'many/');
    const { text } = await open(url);
    const next = /href="([^"]*)">Next page/.exec(text)?.[1];
    expect(text).not.toContain('/200"');
    expect((await exchange(target, 'GET', next as string)).text).toContain('/200"');
    expect((await open(`${url}?continuation-token=x`)).status).toBe(400);
  });
});

describe('a request with a link', () => {
  it('can only read, and is nothing but a method, a path, a range and conditions', async () => {
    const { url } = await share(alice, 'run/');
    for (const method of ['PUT', 'POST', 'DELETE', 'PATCH', 'OPTIONS']) {
      expect((await open(`${url}a.txt`, {}, method)).status, method).toBe(405);
    }
    const foreign = {
      authorization: 'AWS4-HMAC-SHA256 Credential=x',
      'x-amz-expected-bucket-owner': 'somebody/else',
      'x-amz-checksum-mode': 'ENABLED',
      'x-amz-copy-source': 'raw/running',
    };
    const query = '?uploadId=x&response-content-type=text/html&versionId=7&X-Amz-Signature=x';
    const { status, text, headers } = await open(`${url}a.txt${query}`, foreign);
    expect([status, text, headers['x-amz-checksum-crc64nvme']]).toEqual([
      200,
      'content of a',
      undefined,
    ]);
    expect((await open(`${url}?uploads&prefix=&delimiter=`)).text).not.toContain('running');
  });

  it('learns nothing without the secret: not whether a link is, was, or ended', async () => {
    const alive = await share(alice, 'run/a.txt');
    const dead = await share(alice, 'run/a.txt');
    await callNative(alice, 'DELETE', `/_/v1/shares/${dead.id}`);
    const secret = 'A'.repeat(32);
    const guesses = [
      ...[alive.id, dead.id, 'A'.repeat(22)].map((id) => `${id}.${secret}/a.txt`),
      ...[alive.id, `${alive.id}.`, `${alive.id}.%00`, '', '.', '..', `${alive.id}.${secret}x/`],
      `${alive.url.split('/').at(-2)}A/a.txt`,
    ];
    const answers = await Promise.all(
      guesses.map((guess) => open(`${target.endpoint}/_/share/${guess}`)),
    );
    for (const { status, text, headers } of answers) {
      const id = headers['x-amz-request-id'] as string;
      expect([status, text.replace(id, 'ID')]).toEqual([
        404,
        'There is no such share link.\n\nNoSuchShare, request ID\n',
      ]);
    }
  });
});

describe('a link ends', () => {
  it('when its time is over', async () => {
    const { url } = await share(alice, 'run/a.txt', { expiresIn: 1 });
    expect((await open(url)).status).toBe(200);
    await expect.poll(async () => (await open(url)).status).toBe(410);
    expect(await ended(open(url))).toContain('expired');
  });

  it('when it is revoked: by who made it or an admin, and by nobody else', async () => {
    const links = [await share(alice, 'run/a.txt'), await share(alice, 'run/a.txt')];
    const stranger = as(target, await newPrincipal(target));
    for (const [i, by] of [alice, boss].entries()) {
      const { id, url } = links[i] as Link;
      const path = `/_/v1/shares/${id}`;
      for (const other of [bob, stranger]) {
        expect((await send(other, { method: 'DELETE', path })).status).toBe(404);
        expect(await stateOf(links[i] as Link, other)).toBe(undefined);
      }
      expect((await open(url)).status).toBe(200);
      await callNative(by, 'DELETE', path);
      expect(await ended(open(url))).toContain('revoked');
      expect(await stateOf(links[i] as Link, boss)).toMatchObject({ state: 'revoked' });
    }
  });

  it('when who made it may not read any more, is deactivated, or gone', async () => {
    const name = newName('carol');
    const carol = as(target, await newPrincipal(target, { tenant: 'cms', name }));
    const principal = `/_/v1/tenants/cms/principals/${name}`;
    const grant = `/_/v1/tenants/cms/grants/${name}`;
    const rule = {
      ...{ effect: 'allow', subjects: [`principal:cms/${name}`], bucket: 'raw', prefix: 'run/' },
      actions: ['s3:GetObject', 's3:ListBucket'],
    };
    expect((await send(carol, shareMessage('run/'))).status).toBe(403);
    await callNative(boss, 'PUT', grant, rule);
    const { url } = await share(carol, 'run/');
    expect((await send(carol, shareMessage(''))).status).toBe(403);
    expect((await send(carol, shareMessage('running'))).status).toBe(403);
    expect((await open(url)).status).toBe(200);
    await callNative(boss, 'DELETE', grant);
    expect((await open(url)).status).toBe(403);
    expect((await open(`${url}a.txt`)).status).toBe(403);
    await callNative(boss, 'PUT', grant, rule);
    expect((await open(`${url}a.txt`)).status).toBe(200);
    await callNative(boss, 'PATCH', principal, { active: false });
    await ended(open(`${url}a.txt`));
    await callNative(boss, 'PATCH', principal, { active: true });
    expect((await open(`${url}a.txt`)).status).toBe(200);
    await callNative(boss, 'DELETE', principal);
    await ended(open(`${url}a.txt`));
  });

  it('when its bucket is deleted, whoever makes another of the name', async () => {
    await put(boss, '/lent');
    await put(boss, '/lent/file', 'lent');
    const links = [await share(boss, '', { bucket: 'lent' })];
    links.push(await share(boss, 'file', { bucket: 'lent' }));
    await send(boss, { method: 'DELETE', path: '/lent/file' });
    await send(boss, { method: 'DELETE', path: '/lent' });
    await put(bob, '/lent');
    await put(bob, '/lent/file', 'of bob');
    for (const { url } of links) {
      expect(await ended(open(url))).toContain('deleted');
      if (!url.endsWith('file')) expect(await ended(open(`${url}file`))).toContain('deleted');
    }
  });

  it('when the access key that it was asked for with is deleted', async () => {
    const name = newName('dave');
    const keys = await newPrincipal(target, { tenant: 'cms', name, role: 'admin' });
    const { url } = await share(as(target, keys), 'run/a.txt');
    expect((await open(url)).status).toBe(200);
    const path = `/_/v1/tenants/cms/principals/${name}/access-keys/${keys.accessKeyId}`;
    await callNative(boss, 'DELETE', path);
    await ended(open(url));
  });
});

function shareMessage(key: string, more: object = {}) {
  const body = Buffer.from(JSON.stringify({ bucket: 'raw', key, ...more }));
  const headers = { 'content-type': 'application/json' };
  return { method: 'POST', path: '/_/v1/shares', headers, body };
}

describe('the command', () => {
  const bursar = async (...args: string[]): Promise<string> => {
    const { accessKeyId, secretAccessKey } = alice.keys;
    const env = {
      ...{ PATH: process.env.PATH, BURSAR_ENDPOINT: target.endpoint },
      ...{ BURSAR_ACCESS_KEY_ID: accessKeyId, BURSAR_SECRET_ACCESS_KEY: secretAccessKey },
    };
    const command = ['app/main.js', 'share', ...args];
    return (await promisify(execFile)(process.execPath, command, { env })).stdout;
  };

  it('prints a URL that opens, lists it without its secret, and ends it', async () => {
    const args = ['--expires', '1h', '--downloads', '3'];
    const [url = '', end] = (await bursar('s3://raw/run/a.txt', ...args)).split('\n');
    expect(end).toBe('');
    expect((await open(url)).text).toBe('content of a');
    const [id = '', secret = ''] = (url.split('/').at(-2) as string).split('.');
    const listed = await bursar('list');
    expect(listed).toMatch(
      new RegExp(`^${id} +cms/alice +s3://cms:raw/run/a.txt .*1 of 3 +valid$`, 'm'),
    );
    expect(listed).not.toContain(secret);
    await bursar('delete', id);
    await ended(open(url));
  });
});

describe('who makes a link', () => {
  it('must be able to read what is there', async () => {
    const codeOf = async (by: Target, key: string) => {
      const { text } = await send(by, shareMessage(key));
      return JSON.parse(text).code;
    };
    expect(await codeOf(alice, 'run/none')).toBe('NoSuchKey');
    expect(await codeOf(alice, 'runn')).toBe('NoSuchKey');
    expect(await codeOf(bob, 'run')).toBe('AccessDenied');
    expect(await codeOf(bob, 'run/a.txt')).toBe('AccessDenied');
    expect(await codeOf(bob, 'run/none')).toBe('AccessDenied');
    const auditor = await newPrincipal(target, { tenant: 'cms', role: 'auditor' });
    expect(await codeOf(as(target, auditor), 'run/a.txt')).toBe('AccessDenied');
    const denial = {
      ...{ effect: 'deny', subjects: ['principal:cms/alice'], actions: ['bursar:CreateShare'] },
    };
    await callNative(boss, 'PUT', '/_/v1/tenants/cms/grants/no-links', denial);
    expect(await codeOf(alice, 'run/a.txt')).toBe('AccessDenied');
    await callNative(boss, 'DELETE', '/_/v1/tenants/cms/grants/no-links');
    expect(await codeOf(alice, 'run/a.txt')).toBe(undefined);
    // Another tenant's bucket, by the same name.
    const stranger = as(target, await newPrincipal(target));
    expect(await codeOf(stranger, 'run/a.txt')).toMatch(/^(AccessDenied|NoSuchBucket)$/);
  });
});
