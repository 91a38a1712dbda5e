// Answers that AWS itself gave, and that were recorded: headers and elements by which clients go.
// Where Bursar differs on purpose, docs/s3-compatibility.md says so.
import {
  CreateBucketCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { presignUrl } from '../../tooling/presign.ts';
import { readTreeFile } from '../../tooling/source-text.ts';
import { ask, makeRoom, type Room } from '../room.ts';
import {
  domain,
  elementOf,
  elementsOf,
  exchange,
  type Message,
  newBucket,
  newName,
  region,
  send,
  type Target,
  unblock,
} from '../target.ts';

export function describeRecordedAnswers(targetOf: () => Target): void {
  let room: Room;
  beforeAll(async () => {
    room = await makeRoom(targetOf());
  });
  describe('as AWS answered', () => {
    describeCopies(() => room);
    describeReads(() => room);
    describeUploads(() => room);
    describePublic(() => room);
  });
}

function describeCopies(room: () => Room): void {
  const copy = (source: string, path = '/copy') =>
    ask(room(), 'PUT', path, { headers: { 'x-amz-copy-source': source } });

  it('a plus in the source of a copy is a space', async () => {
    const { client, Bucket } = room();
    await client.send(new PutObjectCommand({ Bucket, Key: 'a b', Body: 'space' }));
    await client.send(new PutObjectCommand({ Bucket, Key: 'a+b', Body: 'plus' }));
    for (const [source, body] of [
      ['a+b', 'space'],
      ['a%20b', 'space'],
      ['a%2Bb', 'plus'],
    ]) {
      expect((await copy(`/${Bucket}/${source}`)).status).toBe(200);
      expect((await ask(room(), 'GET', '/copy')).text).toBe(body);
    }
  });

  it('a URL of the gateway is a source; one of another host, or an ARN, is none', async () => {
    const { target, Bucket } = room();
    const { port } = new URL(target.endpoint);
    for (const base of [
      `${target.endpoint}/${Bucket}`,
      `https://${domain}/${Bucket}`,
      `http://${Bucket}.${domain}:${port}`,
    ]) {
      expect([base, (await copy(`${base}/k`)).status]).toEqual([base, 200]);
    }
    for (const source of [
      `https://s3.elsewhere.example/${Bucket}/k`,
      `arn:aws:s3:::${Bucket}/k`,
      'arn:aws:s3:eu-west-3:123456789012:accesspoint/mine/object/k',
      'Not_A_Name/k',
    ]) {
      const { code, text } = await copy(source);
      expect([source, code]).toEqual([source, 'InvalidArgument']);
      expect(elementOf(text, 'Message')).toBe('Invalid copy source bucket name');
    }
    expect(elementOf((await copy('bucket')).text, 'Message')).toBe(
      'Invalid copy source object key',
    );
  });

  it('a copy names the versions that are made and copied, where there are any', async () => {
    const { client, Bucket } = room();
    const plain = await copy(`/${Bucket}/k`);
    expect(plain.headers).not.toHaveProperty('x-amz-version-id');
    expect(plain.headers).not.toHaveProperty('x-amz-copy-source-version-id');

    const kept = await newBucket(client);
    const turn = (Status: 'Enabled' | 'Suspended') =>
      client.send(
        new PutBucketVersioningCommand({ Bucket: kept, VersioningConfiguration: { Status } }),
      );
    await turn('Enabled');
    const made = await client.send(new PutObjectCommand({ Bucket: kept, Key: 'k', Body: 'x' }));
    await turn('Suspended');
    const into = { ...room(), Bucket: kept };
    const headers = { 'x-amz-copy-source': `/${kept}/k` };
    const copied = await ask(into, 'PUT', '/copy', { headers });
    expect(copied.headers).toMatchObject({
      ...{ 'x-amz-version-id': 'null', 'x-amz-copy-source-version-id': made.VersionId },
    });
  });
}

function describeReads(room: () => Room): void {
  it('a range that is the whole object has its checksum, and a shorter one none', async () => {
    const read = (range: string) =>
      ask(room(), 'GET', '/k', { headers: { range, 'x-amz-checksum-mode': 'ENABLED' } });
    for (const range of ['bytes=0-4', 'bytes=0-100', 'bytes=-15']) {
      const { status, headers } = await read(range);
      expect([status, headers['x-amz-checksum-type']]).toEqual([206, 'FULL_OBJECT']);
      expect(headers['x-amz-checksum-crc32']).toBeDefined();
    }
    expect((await read('bytes=0-3')).headers).not.toHaveProperty('x-amz-checksum-type');
  });

  it('headers that S3 has not are named where the differences are', async () => {
    const { target, Bucket } = room();
    const page = readTreeFile('docs/s3-compatibility.md').toLowerCase();
    const ofS3 = [
      ...['accept-ranges', 'connection', 'content-length', 'content-type', 'date', 'etag'],
      ...['last-modified', 'location', 'transfer-encoding'],
    ];
    const { accessKeyId, secretAccessKey: secret } = target.keys;
    const url = presignUrl({
      ...{ method: 'GET', origin: target.endpoint, path: `/${Bucket}/k`, region },
      ...{ accessKeyId, secret, expiresSeconds: 60, timeMs: Date.now() },
    });
    const html = { 'content-type': 'text/html' };
    for (const answer of [
      await ask(room(), 'PUT', '-more'),
      await ask(room(), 'PUT', '/page', { headers: html, body: '<p>' }),
      await ask(room(), 'GET', '/page'),
      await ask(room(), 'GET'),
      await exchange(target, 'GET', url.slice(target.endpoint.length)),
      await ask(room(), 'GET', '/none'),
      await ask(room(), 'HEAD', '/none'),
      await ask(room(), 'DELETE', '/page'),
    ]) {
      const others = Object.keys(answer.headers).filter(
        (name) => !name.startsWith('x-amz-') && !ofS3.includes(name),
      );
      expect(others.filter((name) => !page.includes(`\`${name}`))).toEqual([]);
      expect(answer.headers).not.toHaveProperty('server');
    }
  });

  it('when an object expires is not told of a version that is named', async () => {
    const { client } = room();
    const Bucket = await newBucket(client);
    const Rules = [{ Status: 'Enabled' as const, Filter: {}, Expiration: { Days: 9 } }];
    await client.send(
      new PutBucketLifecycleConfigurationCommand({ Bucket, LifecycleConfiguration: { Rules } }),
    );
    await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
    const there = { ...room(), Bucket };
    expect((await ask(there, 'HEAD', '/k')).headers).toHaveProperty('x-amz-expiration');
    const query = { versionId: 'null' };
    const named = await ask(there, 'HEAD', '/k', { query });
    expect(named.status).toBe(200);
    expect(named.headers).not.toHaveProperty('x-amz-expiration');
  });

  it('a marker within a common prefix is behind it', async () => {
    const { client } = room();
    const Bucket = await newBucket(client);
    const there = { ...room(), Bucket };
    for (const key of ['in/sub/1', 'in/sub/2', 'in/x', 'in/y']) {
      await client.send(new PutObjectCommand({ Bucket, Key: key, Body: '' }));
      await ask(there, 'POST', `/${key}`, { query: { uploads: '' } });
    }
    const page = { prefix: 'in/', delimiter: '/' };
    for (const [kind, marker] of [
      [{}, 'marker'],
      [{ versions: '' }, 'key-marker'],
      [{ uploads: '' }, 'key-marker'],
    ] as const) {
      const list = (query: Record<string, string>) =>
        ask(there, 'GET', '', { query: { ...kind, ...page, ...query } });
      const whole = await list({});
      expect(elementsOf(whole.text, 'Prefix')).toContain('in/sub/');
      for (const within of ['in/sub/', 'in/sub/1', 'in/sub/zzz']) {
        const { text } = await list({ [marker]: within });
        expect([kind, elementsOf(text, 'Key')]).toEqual([kind, ['in/x', 'in/y']]);
        expect(text).not.toContain('<CommonPrefixes>');
      }
    }
  });

  it('start-after is given back, but not beside a token', async () => {
    const { client } = room();
    const Bucket = await newBucket(client);
    for (const Key of ['a', 'b', 'c']) {
      await client.send(new PutObjectCommand({ Bucket, Key, Body: '' }));
    }
    const query = { 'list-type': '2', 'start-after': 'a', 'max-keys': '1' };
    const first = await ask({ ...room(), Bucket }, 'GET', '', { query });
    expect(elementOf(first.text, 'StartAfter')).toBe('a');
    const token = elementOf(first.text, 'NextContinuationToken') ?? '';
    const next = await ask({ ...room(), Bucket }, 'GET', '', {
      query: { ...query, 'continuation-token': token },
    });
    expect(elementsOf(next.text, 'Key')).toEqual(['c']);
    expect(next.text).not.toContain('StartAfter');
  });

  it('a bucket is made with its tags, and not with some that cannot be', async () => {
    const { target } = room();
    const create = (path: string, tags: string) => {
      const body =
        '<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">' +
        `<Tags>${tags}</Tags></CreateBucketConfiguration>`;
      return send(target, { method: 'PUT', path, body });
    };
    const tag = (key: string) => `<Tag><Key>${key}</Key><Value>v</Value></Tag>`;
    const path = `/${newName()}`;
    expect((await create(path, tag('a') + tag('b'))).status).toBe(200);
    const told = await send(target, { method: 'GET', path, query: [['tagging', '']] });
    expect(elementsOf(told.text, 'Key')).toEqual(['a', 'b']);
    const none = `/${newName()}`;
    const twice = await create(none, tag('a') + tag('a'));
    expect([twice.code, elementOf(twice.text, 'TagKey')]).toEqual(['InvalidTag', 'a']);
    const reserved = await create(none, tag('aws:a'));
    expect([reserved.status, reserved.code]).toEqual([400, 'InvalidTag']);
    expect(elementOf(reserved.text, 'Message')).toContain('This prefix is reserved for system');
    expect((await send(target, { method: 'HEAD', path: none })).status).toBe(404);
  });

  it('a bucket has an ARN where it is made, seen and listed; pages say its region', async () => {
    const { target } = room();
    const name = newName();
    const arn = `arn:aws:s3:::${name}`;
    const made = await send(target, { method: 'PUT', path: `/${name}` });
    expect(made.headers['x-amz-bucket-arn']).toBe(arn);
    const head = await send(target, { method: 'HEAD', path: `/${name}` });
    expect(head.headers).toMatchObject({
      ...{ 'x-amz-bucket-arn': arn, 'x-amz-bucket-region': region },
    });
    const list = (query: Message['query']) => send(target, { method: 'GET', path: '/', query });
    const page = await list([['prefix', name]]);
    expect(elementOf(page.text, 'BucketArn')).toBe(arn);
    expect(elementOf(page.text, 'BucketRegion')).toBe(region);
    expect((await list([])).text).not.toContain('<BucketRegion>');
  });
}

function describeUploads(room: () => Room): void {
  it('uploads of a key are listed as they began; a marker of another key is wrong', async () => {
    const { client } = room();
    const there = { ...room(), Bucket: await newBucket(client) };
    const begun: string[] = [];
    for (const key of ['k', 'k', 'k', 'other']) {
      const { text } = await ask(there, 'POST', `/${key}`, { query: { uploads: '' } });
      begun.push(elementOf(text, 'UploadId') ?? '');
    }
    const list = (query: Record<string, string>) =>
      ask(there, 'GET', '', { query: { uploads: '', ...query } });
    const page = await list({ 'max-uploads': '2' });
    expect(elementsOf(page.text, 'UploadId')).toEqual(begun.slice(0, 2));
    expect(elementOf(page.text, 'NextKeyMarker')).toBe('k');
    expect(elementOf(page.text, 'NextUploadIdMarker')).toBe(begun[1]);
    const rest = await list({ 'key-marker': 'k', 'upload-id-marker': begun[1] ?? '' });
    expect(elementsOf(rest.text, 'UploadId')).toEqual(begun.slice(2));
    const wrong = await list({ 'key-marker': 'k', 'upload-id-marker': begun[3] ?? '' });
    expect(wrong.code).toBe('InvalidArgument');
  });

  it('an upload is completed by the list of its parts, in the mode it was begun with', async () => {
    const headers = { 'x-amz-checksum-algorithm': 'CRC32' };
    const begun = await ask(room(), 'POST', '/up', { query: { uploads: '' }, headers });
    const query = { uploadId: elementOf(begun.text, 'UploadId') ?? '' };
    const part = await ask(room(), 'PUT', '/up', {
      ...{ query: { ...query, partNumber: '1' }, body: 'part' },
    });
    const complete = (body: string, more: Record<string, string> = {}) =>
      ask(room(), 'POST', '/up', { query, body, headers: more });
    const list = (inner: string) =>
      `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${part.headers.etag}` +
      `</ETag>${inner}</Part></CompleteMultipartUpload>`;
    const checksum = `<ChecksumCRC32>${part.headers['x-amz-checksum-crc32']}</ChecksumCRC32>`;
    for (const [answer, code, message] of [
      [await complete(''), 'InvalidRequest', 'You must specify at least one part'],
      [
        await complete(list('')),
        'InvalidRequest',
        'The upload was created using a crc32 checksum. The complete request must include the ' +
          'checksum for each part. It was missing for part 1 in the request.',
      ],
      [
        await complete(list(''), { 'x-amz-checksum-type': 'FULL_OBJECT' }),
        'InvalidRequest',
        'The upload was created using the COMPOSITE checksum mode. The complete request must ' +
          'use the same checksum mode.',
      ],
      [
        await complete(list('<ChecksumSHA1>AAAA</ChecksumSHA1>')),
        'BadDigest',
        'The sha1 you specified for part 1 did not match what we received.',
      ],
      [
        await complete(list(checksum), { 'x-amz-checksum-crc32': 'AAAAAA==-1' }),
        'BadDigest',
        'The crc32 you specified did not match the calculated checksum.',
      ],
    ] as const) {
      expect([answer.code, elementOf(answer.text, 'Message')]).toEqual([code, message]);
    }
    expect((await complete(list(checksum))).status).toBe(200);
  });
}

function describePublic(room: () => Room): void {
  it('a rule may have an empty origin, which no page has', async () => {
    const there = { ...room(), Bucket: await newBucket(room().client) };
    const body =
      '<CORSConfiguration><CORSRule><AllowedOrigin></AllowedOrigin>' +
      '<AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>';
    expect((await ask(there, 'PUT', '', { query: { cors: '' }, body })).status).toBe(200);
    const { text } = await ask(there, 'GET', '', { query: { cors: '' } });
    expect(elementsOf(text, 'AllowedOrigin')).toEqual(['']);
    const asked = { origin: '', 'access-control-request-method': 'GET' };
    const answer = await exchange(there.target, 'OPTIONS', `/${there.Bucket}/k`, asked);
    expect([answer.status, answer.code]).toEqual([400, 'BadRequest']);
  });

  it('a bucket with dots is public by its host and by its path, without owners', async () => {
    const { target, client } = room();
    const Bucket = `${newName('with')}.dots`;
    const ObjectOwnership = 'ObjectWriter';
    await client.send(new CreateBucketCommand({ Bucket, ObjectOwnership }));
    await unblock(client, Bucket);
    const there = { ...room(), Bucket };
    const headers = { 'x-amz-acl': 'public-read' };
    expect((await ask(there, 'PUT', '', { query: { acl: '' }, headers })).status).toBe(200);
    await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
    const host = { host: `${Bucket}.${domain}` };
    for (const [path, given] of [
      ['/', host],
      [`/${Bucket}`, {}],
    ] as const) {
      const { status, text } = await exchange(target, 'GET', path, given);
      expect([status, elementsOf(text, 'Key')]).toEqual([200, ['k']]);
      expect(text).not.toContain('<Owner>');
    }
  });
}
