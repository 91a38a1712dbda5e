// Bad input: each gets the error that S3 documents, changes nothing, and leaves a gateway that
// serves.
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  clientOf,
  exchange,
  newBucket,
  newName,
  patternOf,
  send,
  signMessage,
  type Target,
} from '../target.ts';
import { signedHead, Wire } from '../wire.ts';
import { begin, type Upload } from './multipart.ts';

interface State {
  target: Target;
  client: S3Client;
  Bucket: string;
  upload: Upload;
}
type Room = () => State;

export function describeBadInput(
  targetOf: () => Target,
  { isOfStore }: { isOfStore: boolean },
): void {
  describe('bad input', () => {
    let state: State;
    let before: string;
    beforeAll(async () => {
      const target = targetOf();
      const client = clientOf(target);
      const Bucket = await newBucket(client);
      const Body = patternOf(3_000_000, 51);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body }));
      state = { target, client, Bucket, upload: await begin(client, Bucket, { Key: 'k' }) };
      before = await listing();
    });

    async function listing(): Promise<string> {
      const { target, Bucket } = state;
      const path = `/${Bucket}`;
      const objects = await send(target, { method: 'GET', path });
      const uploads = await send(target, { method: 'GET', path, query: [['uploads', '']] });
      return objects.text + uploads.text;
    }

    afterEach(async () => {
      expect(await listing()).toBe(before);
    });

    const room = (): State => state;
    describeDisconnects(room);
    if (isOfStore) return;
    describeXml(room);
    describeHeads(room);
    describeLengths(room);
    describeGarbage(room);
    describeUnusual(room);
  });
}

function describeXml(room: Room): void {
  const entity = (declarations: string, value: string) =>
    '<?xml version="1.0"?><!DOCTYPE Delete ' +
    `[${declarations}]><Delete><Object><Key>${value}</Key></Object></Delete>`;
  const laughs = Array.from({ length: 9 }, (_, i) => {
    const inner = i === 0 ? 'k' : `&l${i - 1};`.repeat(10);
    return `<!ENTITY l${i} "${inner}">`;
  }).join('');
  const object = '<Object><Key>k</Key></Object>';

  const documents: readonly (readonly [string, string | Buffer])[] = [
    ['that is no XML', 'k'],
    ['that does not end', `<Delete>${object}`],
    ['with two roots', `<Delete>${object}</Delete><Delete>${object}</Delete>`],
    ['with tags that cross', '<Delete><Object><Key>k</Object></Key></Delete>'],
    ['with an unknown entity', '<Delete><Object><Key>&k;</Key></Object></Delete>'],
    ['with a reference to NUL', '<Delete><Object><Key>k&#0;</Key></Object></Delete>'],
    [
      'with a reference to half a character',
      '<Delete><Object><Key>&#xD800;</Key></Object></Delete>',
    ],
    ['with a control character as it is', '<Delete><Object><Key>k\u0001</Key></Object></Delete>'],
    ['with a billion laughs', entity(laughs, '&l8;')],
    ['with an external entity', entity('<!ENTITY x SYSTEM "file:///etc/passwd">', '&x;')],
    [
      'with an external document type',
      `<!DOCTYPE Delete SYSTEM "http://127.0.0.1:1/x"><Delete>${object}</Delete>`,
    ],
    ['with a parameter entity', entity('<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;', 'k')],
    ['with 100,000 levels', `<Delete>${'<Object>'.repeat(100_000)}`],
    ['with 100,000 attributes', `<Delete ${'a="" '.repeat(100_000)}>${object}</Delete>`],
    [
      'that is not UTF-8',
      Buffer.from(`<Delete><Object><Key>\xff</Key></Object></Delete>`, 'latin1'),
    ],
    ['in UTF-16', Buffer.from(`\ufeff<Delete>${object}</Delete>`, 'utf16le')],
    ['with two keys in one object', '<Delete><Object><Key>k</Key><Key>l</Key></Object></Delete>'],
  ];

  describe('a document', () => {
    it.each(documents)('%s is MalformedXML', async (_title, body) => {
      const { target, Bucket, upload } = room();
      const path = `/${Bucket}`;
      const asked = { method: 'POST', path, query: [['delete', '']] as const, body };
      const deleted = await send(target, asked);
      expect([deleted.status, deleted.code]).toEqual([400, 'MalformedXML']);
      expect(deleted.text).not.toContain('root:');
      const query = [['uploadId', upload.UploadId]] as const;
      const completed = await send(target, { method: 'POST', path: `${path}/k`, query, body });
      expect([completed.status, completed.code]).toEqual([400, 'MalformedXML']);
    });

    it('of a new bucket that is malformed makes no bucket', async () => {
      const { target } = room();
      const path = `/${newName()}`;
      const made = await send(target, { method: 'PUT', path, body: '<CreateBucketConfiguration>' });
      expect([made.status, made.code]).toEqual([400, 'MalformedXML']);
      expect((await send(target, { method: 'HEAD', path })).status).toBe(404);
    });

    it('of 5 MiB is refused before it is read', async () => {
      const { target, Bucket } = room();
      const wire = await Wire.open(target);
      const headers = { 'content-length': String(5 * 1024 * 1024) };
      const query = [['delete', '']] as const;
      wire.write(signedHead(target, { method: 'POST', path: `/${Bucket}`, query, headers }));
      expect(await wire.answer()).toEqual({ status: 400, code: 'MaxMessageLengthExceeded' });
      wire.destroy();
    });
  });
}

/** Sends what is no good as an own connection, and gives what came of it. */
async function hear(target: Target, bytes: string | Buffer) {
  const wire = await Wire.open(target);
  wire.write(bytes);
  const answer = await wire.answer();
  wire.destroy();
  return { ...answer, text: wire.received };
}

function describeHeads(room: Room): void {
  describe('a head', () => {
    it('with a target of more than 16 KiB is InvalidURI', async () => {
      const { target, Bucket } = room();
      const answer = await exchange(target, 'GET', `/${Bucket}/${'k'.repeat(17_000)}`);
      expect([answer.status, answer.code]).toEqual([400, 'InvalidURI']);
    });

    it('with more than 100 parameters is InvalidURI', async () => {
      const { target, Bucket } = room();
      const answer = await exchange(target, 'GET', `/${Bucket}?${'a=b&'.repeat(101)}`);
      expect([answer.status, answer.code]).toEqual([400, 'InvalidURI']);
    });

    it.each([
      ['more than 32 KiB', [`x-flood: ${'v'.repeat(40_000)}`]],
      [
        'more than 32 KiB in small lines',
        Array.from({ length: 2000 }, (_, i) => `x-${i}: ${'v'.repeat(20)}`),
      ],
      ['more than 200 lines', Array.from({ length: 201 }, (_, i) => `x-${i}: v`)],
    ])('of %s is RequestHeaderSectionTooLarge', async (_title, lines) => {
      const { target, Bucket } = room();
      const head = signedHead(target, { method: 'GET', path: `/${Bucket}` }, lines);
      const { status, code } = await hear(target, head);
      expect([status, code]).toEqual([400, 'RequestHeaderSectionTooLarge']);
    });

    it.each([
      ['a line without a colon', 'GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n'],
      ['a name with a space', 'GET / HTTP/1.1\r\nHost: localhost\r\nbad name: v\r\n\r\n'],
      ['a value with NUL', 'GET / HTTP/1.1\r\nHost: localhost\r\nname: v\0v\r\n\r\n'],
      ['a space before the colon', 'GET / HTTP/1.1\r\nHost : x\r\n\r\n'],
      ['no Host', 'GET / HTTP/1.1\r\n\r\n'],
      ['a version that is none', 'GET / HTTP/9.9\r\nHost: localhost\r\n\r\n'],
      ['a method that is none', 'STORE / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
      ['a target with a space', 'GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n'],
      ['a target with raw UTF-8', 'GET /\xc3\xbc HTTP/1.1\r\nHost: localhost\r\n\r\n'],
      ['a target that is an asterisk', 'OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n'],
      ['a target of another scheme', 'GET ftp://x/y HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ])('with %s is 400', async (_title, head) => {
      const { status } = await hear(room().target, head);
      expect(status).toBe(400);
    });

    it('with an expectation that is not 100-continue is 417', async () => {
      const { target, Bucket } = room();
      const path = `/${Bucket}/new`;
      const head = signedHead(target, { method: 'PUT', path }, ['Expect: a miracle']);
      expect((await hear(target, head)).status).toBe(417);
    });
  });
}

function describeLengths(room: Room): void {
  const put = (more: readonly string[], body = 'hello', payload?: string): string => {
    const { target, Bucket } = room();
    const message = { method: 'PUT', path: `/${Bucket}/new`, body, payload };
    return signedHead(target, message, more);
  };

  describe('a length', () => {
    it.each([
      ['given twice, differently', ['Content-Length: 5', 'Content-Length: 6']],
      ['given twice', ['Content-Length: 5', 'Content-Length: 5']],
      ['beside a transfer coding', ['Content-Length: 5', 'Transfer-Encoding: chunked']],
      ['that is no number', ['Content-Length: five']],
      ['below zero', ['Content-Length: -5']],
      ['with a sign', ['Content-Length: +5']],
      ['in hexadecimal', ['Content-Length: 0x5']],
      ['of two numbers', ['Content-Length: 5, 5']],
      ['beyond all numbers', ['Content-Length: 99999999999999999999999']],
    ])('%s is 400', async (_title, lines) => {
      const { status } = await hear(room().target, `${put(lines)}hello`);
      expect(status).toBe(400);
    });

    it('of nothing is MissingContentLength, and so is a body in chunks of HTTP', async () => {
      const { target } = room();
      expect(await hear(target, put([]))).toMatchObject({
        status: 411,
        code: 'MissingContentLength',
      });
      const chunked = `${put(['Transfer-Encoding: chunked'])}5\r\nhello\r\n0\r\n\r\n`;
      expect(await hear(target, chunked)).toMatchObject({
        status: 411,
        code: 'MissingContentLength',
      });
    });

    it('of more than 5 GiB is EntityTooLarge before a byte of it is read', async () => {
      const { status, code } = await hear(room().target, put(['Content-Length: 5368709121']));
      expect([status, code]).toEqual([400, 'EntityTooLarge']);
    });

    it('that is more than what comes stores nothing', async () => {
      const { target } = room();
      for (const payload of [undefined, 'UNSIGNED-PAYLOAD']) {
        const wire = await Wire.open(target);
        wire.write(`${put(['Content-Length: 50'], 'hello', payload)}hello`);
        wire.end();
        await wire.closed();
        expect(wire.received).not.toContain('HTTP/1.1 2');
      }
    });

    it('that is less than what was signed stores nothing', async () => {
      const { target } = room();
      // What is beyond the length is no next request either: one of the two answers comes first.
      const { status } = await hear(target, `${put(['Content-Length: 3'])}hello`);
      expect(status).toBe(400);
    });

    it('in chunks that are none stores nothing', async () => {
      const { target, Bucket } = room();
      const head = signedHead(
        target,
        {
          method: 'PUT',
          path: `/${Bucket}/new`,
          headers: { 'x-amz-decoded-content-length': '5' },
          payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
        },
        ['Transfer-Encoding: chunked'],
      );
      for (const body of [
        'zz\r\nhello',
        'ffffffffffffffffffffff\r\nhello',
        '5\r\nhello\r\n0\r\n\r\n',
      ]) {
        const { status } = await hear(target, head + body);
        expect(status).toBe(400);
      }
    });
  });
}

function describeGarbage(room: Room): void {
  const random = patternOf(4096, 77);
  random[0] = 0x80;
  const hello = Buffer.from('160301020001000100fc0303', 'hex');

  it.each([
    ['random bytes', random],
    ['a TLS hello', Buffer.concat([hello, random])],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['NULs', Buffer.alloc(1000)],
    ['an endless line', 'A'.repeat(100_000)],
    ['another protocol', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['an answer', 'HTTP/1.1 200 OK\r\n\r\n'],
  ])('%s instead of HTTP end in 400 and a closed connection', async (_title, bytes) => {
    const wire = await Wire.open(room().target);
    wire.write(bytes);
    const received = await wire.closed();
    expect(received).toMatch(/^HTTP\/1\.1 400 /);
    expect(received).toMatch(/<Code>(BadRequest|RequestHeaderSectionTooLarge)<\/Code>/);
  });

  it('a tunnel is refused', async () => {
    const wire = await Wire.open(room().target);
    wire.write('CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n');
    expect(await wire.closed()).not.toContain('HTTP/1.1 2');
  });
}

function describeDisconnects(room: Room): void {
  const small = 'x'.repeat(1000);
  const large = patternOf(2_000_000, 61).toString('latin1');

  describe('a client that goes away', () => {
    it.each([
      ['after no byte', '', 0],
      ['in the first line', small, 0.001],
      ['in the head', small, 0.1],
      ['after the head', small, 'head'],
      ['in a small body', small, 0.9],
      ['after the head of a large body', large, 'head'],
      ['in the first chunk of a large body', large, 0.01],
      ['in the middle of a large body', large, 0.5],
      ['before the last byte of a large body', large, 'almost'],
    ] as const)('%s has changed nothing', async (_title, body, stage) => {
      const { target, Bucket } = room();
      const headers = { 'content-length': String(body.length) };
      const message = { method: 'PUT', path: `/${Bucket}/new`, headers, body };
      const head = signedHead(target, message);
      const whole = head + body;
      const ends = { head: head.length, almost: whole.length - 1 };
      const end = typeof stage === 'number' ? Math.floor(whole.length * stage) : ends[stage];
      for (const leave of ['destroy', 'end'] as const) {
        const wire = await Wire.open(target);
        wire.write(whole.slice(0, end));
        await settled(target);
        wire[leave]();
        if (leave === 'end') await wire.closed();
        expect(wire.received).not.toContain('HTTP/1.1 2');
      }
    });

    it('in the frames of a streamed body has changed nothing', async () => {
      const { target, Bucket } = room();
      const head = signedHead(target, {
        method: 'PUT',
        path: `/${Bucket}/new`,
        headers: { 'x-amz-decoded-content-length': '100000', 'content-length': '100020' },
        payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      });
      for (const frames of ['', '1', '18', '186a0', '186a0\r', '186a0\r\nxxxxx']) {
        const wire = await Wire.open(target);
        wire.write(head + frames);
        await settled(target);
        wire.destroy();
      }
    });

    it('in the middle of a document has changed nothing', async () => {
      const { target, Bucket } = room();
      const body = '<Delete><Object><Key>k</Key></Object></Delete>';
      const headers = { 'content-length': String(body.length) };
      const asked = { method: 'POST', path: `/${Bucket}`, query: [['delete', '']] as const };
      const wire = await Wire.open(target);
      wire.write(signedHead(target, { ...asked, headers, body }) + body.slice(0, -1));
      await settled(target);
      wire.destroy();
    });

    it('in the middle of an answer, or before it, harms no one', async () => {
      const { target, Bucket } = room();
      const head = signedHead(target, { method: 'GET', path: `/${Bucket}/k` });
      for (const pattern of [/HTTP/, /\r\n\r\n/]) {
        const wire = await Wire.open(target);
        wire.write(head);
        await wire.until(pattern);
        wire.destroy();
      }
      for (let i = 0; i < 20; i++) {
        const wire = await Wire.open(target);
        wire.write(head);
        wire.destroy();
      }
    });
  });
}

/** Two turns of the gateway: what was sent before has reached it. */
async function settled(target: Target): Promise<void> {
  for (let i = 0; i < 2; i++) await exchange(target, 'GET', '/_/health');
}

function describeUnusual(room: Room): void {
  describe('unusual but right', () => {
    it('a target in absolute form names the same object', async () => {
      const { target, Bucket } = room();
      const message = { method: 'GET', path: `/${Bucket}/k`, headers: { range: 'bytes=0-3' } };
      const { headers } = signMessage(target, message);
      const absolute = `${target.endpoint}/${Bucket}/k`;
      const answer = await exchange(target, 'GET', absolute, headers);
      expect([answer.status, answer.body.length]).toEqual([206, 4]);
    });

    it('requests in one packet are answered in order', async () => {
      const { target, Bucket } = room();
      const wire = await Wire.open(target);
      const ask = (key: string, more: string[] = []) =>
        signedHead(target, { method: 'HEAD', path: `/${Bucket}/${key}` }, more);
      wire.write(ask('k') + ask('none') + ask('k', ['Connection: close']));
      const answers = (await wire.closed()).match(/HTTP\/1\.1 \d+/g);
      expect(answers).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
    });

    it('a body that came with a refused request is not taken for the next request', async () => {
      const { target, Bucket } = room();
      const wire = await Wire.open(target);
      const body = signedHead(target, { method: 'DELETE', path: `/${Bucket}/k` });
      const headers = { 'content-length': String(body.length) };
      const path = `/${newName()}/k`;
      wire.write(signedHead(target, { method: 'PUT', path, headers, body }) + body);
      wire.write(
        signedHead(target, { method: 'HEAD', path: `/${Bucket}/k` }, ['Connection: close']),
      );
      const answers = (await wire.closed()).match(/HTTP\/1\.1 \d+/g) ?? [];
      expect(answers[0]).toBe('HTTP/1.1 404');
      expect(answers).not.toContain('HTTP/1.1 204');
    });

    it('an action that STS has not is named as such', async () => {
      const { target } = room();
      const headers = { 'content-type': 'application/x-www-form-urlencoded' };
      const asked = { method: 'POST', path: '/', headers, body: 'Action=MakeCoffee' };
      const answer = await send(target, asked);
      expect([answer.status, answer.code]).toEqual([400, 'InvalidAction']);
    });
  });
}
