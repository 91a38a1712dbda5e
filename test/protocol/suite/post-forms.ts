// Uploads by HTML forms: what a policy allows is stored, and nothing else.
import { createHash } from 'node:crypto';
import {
  CreateBucketCommand,
  GetObjectCommand,
  GetObjectRetentionCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutBucketVersioningCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { base64Checksum, md5Of } from '../checksums.ts';
import {
  type Fields,
  FormBucket,
  filenameVariable,
  formBody,
  formHeaders,
  postForm,
  signPolicy,
  type Upload,
} from '../forms.ts';
import {
  type Answer,
  as,
  domain,
  exchange,
  findRecords,
  newName,
  newOpenBucket,
  newPrincipal,
  patternOf,
  type Target,
} from '../target.ts';
import { Wire } from '../wire.ts';

export function describePostForms(targetOf: () => Target): void {
  describe('HTML forms', () => {
    let target: Target;
    let client: S3Client;
    let forms: FormBucket;
    let Bucket: string;
    beforeAll(async () => {
      target = targetOf();
      forms = await FormBucket.make(target);
      ({ client, name: Bucket } = forms);
    });

    const upload = (asked: Upload) => forms.upload(asked);
    const read = (key: string) => forms.read(key);
    const expectNothing = (answer: Answer, status: number, code: string) =>
      forms.expectNothing(answer, status, code);

    it.each([
      ['a short file', 5],
      ['an empty file', 0],
      ['the largest that fits into the database', 65_536],
      ['one more than that', 65_537],
      ['a whole chunk', 262_144],
      ['some more', 700_001],
      ['a whole extent, and more', 16 * 1024 * 1024 + 262_144],
    ])('store %s exactly', async (_title, sizeBytes) => {
      const content = patternOf(sizeBytes, 3);
      const fields = [['key', 'forms/sized']] as const;
      const answer = await upload({ fields, conditions: [], content });
      expect([answer.status, answer.text]).toEqual([204, '']);
      expect(answer.headers.etag).toBe(`"${md5Of(content)}"`);
      expect(answer.headers['x-bursar-receipt']).toEqual(expect.any(String));
      expect((await read('forms/sized')).equals(content)).toBe(true);
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
      expect(Contents.find(({ Key }) => Key === 'forms/sized')?.Size).toBe(sizeBytes);
    });

    it('store a file whose bytes look like the form, and read nothing behind it', async () => {
      const [first = ''] = formBody([], null).toString().split('\r\n');
      const boundary = first.slice(2, -2);
      const near = [`\r\n--${boundary.slice(0, -1)}`, '\r\n-', '\r', '\r\n--', '\r\r\n--'];
      const content = Buffer.from(near.join('').repeat(3000) + near.join('x'));
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key: 'forms/near' }]);
      const body = formBody([['key', 'forms/near'], ...signed], { content }, '\r\n');
      const more = `Content-Disposition: form-data; name="key"\r\n\r\nother\r\n--${boundary}--\r\n`;
      const answer = await postForm(target, Bucket, Buffer.concat([body, Buffer.from(more)]));
      expect(answer.status).toBe(204);
      expect((await read('forms/near')).equals(content)).toBe(true);
    });

    it('give the object what their fields say, as headers of a PUT would', async () => {
      const content = 'some text';
      const tags = '<Tag><Key>a</Key><Value>1 2</Value></Tag><Tag><Key>b</Key><Value/></Tag>';
      const fields: Fields = [
        ['KEY', 'forms/rich'],
        ['Content-Type', 'text/plain'],
        ['cache-control', 'no-cache'],
        ['Content-Disposition', 'attachment'],
        ['x-amz-meta-Colour', 'grün'],
        ['tagging', `<Tagging><TagSet>${tags}</TagSet></Tagging>`],
        ['x-amz-checksum-sha256', base64Checksum('SHA256', Buffer.from(content))],
        ['x-amz-storage-class', 'STANDARD'],
        ['acl', 'private'],
        ['x-ignore-this', 'x'],
      ];
      const conditions = [
        ['starts-with', '$content-type', 'text/'],
        { 'Cache-Control': 'no-cache' },
        ['eq', '$content-disposition', 'attachment'],
        ['starts-with', '$x-amz-meta-colour', ''],
        ['STARTS-WITH', '$tagging', '<Tagging>'],
        { 'x-amz-storage-class': 'STANDARD' },
        { acl: 'private' },
      ];
      const answer = await upload({ fields, conditions, content });
      expect(answer.status).toBe(204);
      const head = await client.send(
        new HeadObjectCommand({ Bucket, Key: 'forms/rich', ChecksumMode: 'ENABLED' }),
      );
      expect(head).toMatchObject({
        ContentType: 'text/plain',
        CacheControl: 'no-cache',
        ContentDisposition: 'attachment',
        ContentLength: content.length,
        ChecksumSHA256: base64Checksum('SHA256', Buffer.from(content)),
      });
      expect(head.Metadata?.colour).toBe('=?UTF-8?Q?gr=C3=BCn?=');
      const { TagSet } = await client.send(
        new GetObjectTaggingCommand({ Bucket, Key: 'forms/rich' }),
      );
      expect(TagSet).toEqual([
        { Key: 'a', Value: '1 2' },
        { Key: 'b', Value: '' },
      ]);
    });

    it('answer as they ask', async () => {
      const key = 'forms/ä b+c&d.txt';
      const ask = (name: string, value: string) =>
        upload({
          fields: [
            ['key', `forms/${filenameVariable}`],
            [name, value],
          ],
          conditions: [['starts-with', `$${name}`, '']],
          filename: 'C:\\folder\\ä b+c&d.txt',
        });
      const plain = await ask('success_action_status', '200');
      expect([plain.status, plain.text]).toEqual([200, '']);
      const other = await ask('success_action_status', '404');
      expect([other.status, other.text]).toEqual([204, '']);
      const told = await ask('success_action_status', '201');
      const location = `${target.endpoint}/${Bucket}/forms/%C3%A4%20b%2Bc%26d.txt`;
      const etag = `&quot;${md5Of(Buffer.from('content'))}&quot;`;
      expect(told.status).toBe(201);
      expect(told.text).toBe(
        `<?xml version="1.0" encoding="UTF-8"?>\n<PostResponse><Location>${location}</Location>` +
          `<Bucket>${Bucket}</Bucket><Key>${key.replace('&', '&amp;')}</Key>` +
          `<ETag>${etag}</ETag></PostResponse>`,
      );
      expect(told.headers.location).toBe(location);
      const url = 'https://page.example.org/done?x=1';
      const sent = await ask('success_action_redirect', url);
      expect(sent.status).toBe(303);
      expect(sent.headers.location).toBe(
        `${url}&bucket=${Bucket}&key=forms%2F%C3%A4%20b%2Bc%26d.txt&etag=%22${md5Of(Buffer.from('content'))}%22`,
      );
      for (const bad of ['javascript:alert(1)', 'nowhere', '//x\r\ny']) {
        expect((await ask('success_action_redirect', bad)).status).toBe(204);
      }
      expect(await forms.keys()).toContain(key);
    });

    it('are refused for what is no form, without key or file, and for long fields', async () => {
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, ['starts-with', '$key', '']]);
      const fields: Fields = [['key', 'forms/refused'], ...signed];
      const whole = formBody(fields, { content: 'x'.repeat(100) });
      const post = (body: Buffer, headers: Record<string, string> = {}) =>
        postForm(target, Bucket, body, headers);
      await expectNothing(await post(formBody(signed, { content: 'x' })), 400, 'InvalidArgument');
      await expectNothing(await post(formBody(fields, null)), 400, 'InvalidArgument');
      await expectNothing(
        await post(formBody([...fields, ['KEY', 'b']], { content: 'x' })),
        400,
        'InvalidArgument',
      );
      await expectNothing(await post(whole.subarray(0, -40)), 400, 'MalformedPOSTRequest');
      await expectNothing(await post(whole.subarray(0, 300)), 400, 'MalformedPOSTRequest');
      await expectNothing(await post(Buffer.from('hello')), 400, 'MalformedPOSTRequest');
      const bare = { 'content-type': 'multipart/form-data' };
      await expectNothing(await post(whole, bare), 400, 'MalformedPOSTRequest');
      const long = formBody([...fields, ['x-ignore-a', 'x'.repeat(20_480)]], { content: 'x' });
      await expectNothing(await post(long), 400, 'MaxPostPreDataLengthExceededError');
      const other = { 'content-type': 'application/x-www-form-urlencoded' };
      await expectNothing(await post(whole, other), 412, 'PreconditionFailed');
      const authorized = { authorization: 'Bearer x' };
      await expectNothing(await post(whole, authorized), 400, 'InvalidArgument');
    });

    it('do not become large by the name of their file', async () => {
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, ['starts-with', '$key', '']]);
      const many: Fields = [
        ['key', 'forms/refused'],
        ['x-ignore-a', filenameVariable.repeat(700)],
      ];
      const file = { content: 'x', filename: 'f'.repeat(8000) };
      const answer = await postForm(target, Bucket, formBody([...many, ...signed], file));
      await expectNothing(answer, 400, 'MaxPostPreDataLengthExceededError');
    });

    it('say nothing by the headers of their request', async () => {
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key: 'forms/headers' }]);
      const body = formBody([['key', 'forms/headers'], ...signed], { content: 'x' });
      const headers = { 'x-amz-meta-a': '1', 'x-amz-storage-class': 'GLACIER' };
      expect((await postForm(target, Bucket, body, headers)).status).toBe(204);
      const head = await client.send(new HeadObjectCommand({ Bucket, Key: 'forms/headers' }));
      expect([head.Metadata, head.ContentType]).toEqual([{}, 'binary/octet-stream']);
    });

    it('let in who may do it, and nobody else', async () => {
      const stranger = as(target, await newPrincipal(target, { name: newName('stranger') }));
      const conditions = [{ bucket: Bucket }, { key: 'forms/refused' }];
      const post = (signed: Fields) =>
        postForm(target, Bucket, formBody([['key', 'forms/refused'], ...signed], { content: 'x' }));
      await expectNothing(await post(signPolicy(stranger.keys, conditions)), 403, 'AccessDenied');
      await expectNothing(await post([]), 403, 'AccessDenied');
      const open = await newOpenBucket(client);
      const Statement = [
        {
          Effect: 'Allow',
          Principal: '*',
          Action: 's3:PutObject',
          Resource: `arn:aws:s3:::${open}/*`,
        },
      ];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new PutBucketPolicyCommand({ Bucket: open, Policy }));
      const answer = await postForm(target, open, formBody([['key', 'a']], { content: 'open' }));
      expect(answer.status).toBe(204);
      const { Body } = await client.send(new GetObjectCommand({ Bucket: open, Key: 'a' }));
      expect(await Body?.transformToString()).toBe('open');
    });

    it('are recorded as what they are, allowed or refused', async () => {
      const key = `forms/${newName('recorded')}`;
      const made = await upload({ fields: [['key', key]], conditions: [] });
      const denied = await upload({ fields: [['key', key]], conditions: [{ acl: 'private' }] });
      const read = async () => {
        const query = [
          ['bucket', Bucket],
          ['prefix', key],
        ] as const;
        const records = await findRecords(target, query);
        return records;
      };
      await expect.poll(async () => (await read()).length).toBe(2);
      const records = await read();
      const { accessKeyId } = target.keys;
      expect(records).toEqual(
        expect.arrayContaining([
          expect.objectContaining({
            ...{ action: 's3:PutObject', status: 204, accessKeyId, evidence: 'shared-secret' },
            index: Number(made.headers['x-bursar-receipt']),
          }),
          expect.objectContaining({
            ...{ action: 's3:PutObject', status: 403, error: 'AccessDenied', accessKeyId },
            index: Number(denied.headers['x-bursar-receipt']),
          }),
        ]),
      );
    });

    it('make versions where the bucket keeps them', async () => {
      const versioned = newName('versioned');
      await client.send(new CreateBucketCommand({ Bucket: versioned }));
      await client.send(
        new PutBucketVersioningCommand({
          Bucket: versioned,
          VersioningConfiguration: { Status: 'Enabled' },
        }),
      );
      const signed = signPolicy(target.keys, [{ bucket: versioned }, { key: 'k' }]);
      const body = formBody([['key', 'k'], ...signed], { content: 'x' });
      const ids = [];
      for (let i = 0; i < 2; i++) {
        ids.push((await postForm(target, versioned, body)).headers['x-amz-version-id']);
      }
      expect(ids).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), expect.any(String)]);
      expect(ids[0]).not.toBe(ids[1]);
    });

    it('lock what they upload, where a digest says what it is', async () => {
      const locked = newName('locked');
      await client.send(
        new CreateBucketCommand({ Bucket: locked, ObjectLockEnabledForBucket: true }),
      );
      const until = new Date(Date.now() + 5000).toISOString();
      const lock: Fields = [
        ['x-amz-object-lock-mode', 'GOVERNANCE'],
        ['x-amz-object-lock-retain-until-date', until],
      ];
      const post = (fields: Fields) => {
        const conditions = fields.map(([name, value]) => ({ [name]: value }));
        const signed = signPolicy(target.keys, [{ bucket: locked }, { key: 'k' }, ...conditions]);
        const body = formBody([['key', 'k'], ...fields, ...signed], { content: 'x' });
        return postForm(target, locked, body);
      };
      const bare = await post(lock);
      expect([bare.status, bare.code]).toEqual([400, 'InvalidRequest']);
      const digest = createHash('md5').update('x').digest('base64');
      expect((await post([...lock, ['Content-MD5', digest]])).status).toBe(204);
      const { Retention } = await client.send(
        new GetObjectRetentionCommand({ Bucket: locked, Key: 'k' }),
      );
      expect(Retention).toEqual({ Mode: 'GOVERNANCE', RetainUntilDate: new Date(until) });
    });

    it('may wait for 100 Continue, come byte by byte, and leave the connection', async () => {
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key: 'forms/slow' }]);
      const body = formBody([['key', 'forms/slow'], ...signed], { content: 'slowly' });
      const wire = await Wire.open(target);
      const [name, value] = [
        'content-type',
        'multipart/form-data; boundary=----BoundaryOfATest7MA4YWxk',
      ];
      const head = (lines: string[]) =>
        `POST /${Bucket} HTTP/1.1\r\nHost: localhost\r\n${name}: ` +
        `${value}\r\n${lines.join('\r\n')}\r\n\r\n`;
      wire.write(head([`Content-Length: ${body.length}`, 'Expect: 100-continue']));
      await wire.until(/100 Continue/);
      for (const byte of body) wire.write(Buffer.from([byte]));
      await wire.until(/204 No Content/);
      wire.write(Buffer.concat([Buffer.from(head([`Content-Length: ${body.length}`])), body]));
      await wire.until(/204 No Content[\s\S]*204 No Content/);
      wire.write(`GET /${Bucket} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
      await wire.until(/403 Forbidden/);
      wire.destroy();
      expect((await read('forms/slow')).toString()).toBe('slowly');
    });

    it('whose client leaves store nothing', async () => {
      const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key: 'forms/refused' }]);
      const body = formBody([['key', 'forms/refused'], ...signed], { content: patternOf(500_000) });
      const wire = await Wire.open(target);
      wire.write(
        `POST /${Bucket} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n` +
          'Content-Type: multipart/form-data; boundary=----BoundaryOfATest7MA4YWxk\r\n\r\n',
      );
      wire.write(body.subarray(0, 400_000));
      const errors = async () => {
        const query = [
          ['bucket', Bucket],
          ['prefix', 'forms/refused'],
        ] as const;
        const records = await findRecords(target, query);
        return records.map((record: { error?: string }) => record.error);
      };
      const before = (await errors()).length;
      wire.destroy();
      await expect.poll(async () => (await errors()).length).toBe(before + 1);
      expect(await errors()).toContain('RequestTimeout');
      expect(await forms.keys()).not.toContain('forms/refused');
    });

    it('may name the bucket by their host', async () => {
      const signed = signPolicy(target.keys, [
        ...[{ bucket: Bucket }, { key: 'forms/hosted' }],
        { success_action_status: '201' },
      ]);
      const fields: Fields = [['key', 'forms/hosted'], ['success_action_status', '201'], ...signed];
      const body = formBody(fields, { content: 'x' });
      const host = `${Bucket}.${domain}`;
      // As on S3 the place is told so, too, where the path named it.
      for (const [path, asked] of [
        ['/', host],
        [`/${Bucket}`, domain],
      ] as const) {
        const answer = await exchange(target, 'POST', path, { ...formHeaders, host: asked }, body);
        expect([answer.status, answer.headers.location]).toEqual([
          201,
          `http://${host}/forms/hosted`,
        ]);
      }
    });
  });
}
