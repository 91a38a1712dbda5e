// Refusals that AWS itself gave, and that were recorded: codes, texts and elements by which clients
// go. Where Bursar differs on purpose, docs/s3-compatibility.md says so.
import { SaxesParser } from 'saxes';
import { beforeAll, describe, expect, it } from 'vitest';
import { readTreeFile } from '../../tooling/source-text.ts';
import { base64Checksum } from '../checksums.ts';
import { filenameVariable, formBody, postForm, signPolicy } from '../forms.ts';
import { ask, makeRoom, type Room } from '../room.ts';
import { elementOf, exchange, send, type Target } from '../target.ts';

export function describeRecordedErrors(targetOf: () => Target): void {
  let room: Room;
  beforeAll(async () => {
    room = await makeRoom(targetOf());
  });
  describe('as AWS answered', () => {
    describeErrors(() => room);
    describeForms(() => room);
    describePreflights(() => room);
  });
}

const rule = (inner: string) =>
  '<LifecycleConfiguration><Rule><Filter/><Status>Enabled</Status>' +
  `${inner}</Rule></LifecycleConfiguration>`;
const grant = (inner: string) =>
  `<AccessControlPolicy><Owner><ID>a/b</ID></Owner>${inner}</AccessControlPolicy>`;

function describeErrors(room: () => Room): void {
  type Sent = Parameters<typeof ask>[3];
  it.each<[string, string, string, Sent, string, Record<string, string>]>([
    [
      'an absent key names it',
      ...(['GET', '/none', {}, 'NoSuchKey'] as const),
      { Key: 'none', Message: 'The specified key does not exist.' },
    ],
    [
      'an absent upload names it',
      ...(['GET', '/k', { query: { uploadId: 'none' } }, 'NoSuchUpload'] as const),
      { UploadId: 'none' },
    ],
    [
      'a condition that does not hold is named',
      ...(['PUT', '/k', { headers: { 'if-none-match': '*' } }, 'PreconditionFailed'] as const),
      {
        Condition: 'If-None-Match',
        Message: 'At least one of the pre-conditions you specified did not hold',
      },
    ],
    [
      'a digest that is none is given back',
      ...(['PUT', '/x', { headers: { 'content-md5': 'none' } }, 'InvalidDigest'] as const),
      { 'Content-MD5': 'none', Message: 'The Content-MD5 you specified was invalid.' },
    ],
    [
      'tags in a header that are not encoded are a wrong argument',
      'PUT',
      '/x',
      { headers: { 'x-amz-tagging': 'key1=val1,key2=val2' } },
      'InvalidArgument',
      {
        ArgumentName: 'x-amz-tagging',
        ArgumentValue: 'key1=val1,key2=val2',
        Message:
          "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query " +
          'parameters without tag name duplicates.',
      },
    ],
    [
      'a tag that cannot be is named',
      ...(['PUT', '/x', { headers: { 'x-amz-tagging': 'aws:x=1' } }, 'InvalidTag'] as const),
      { TagKey: 'aws:x', Message: 'Your TagKey cannot be prefixed with aws:' },
    ],
    [
      'an empty policy is none',
      ...(['PUT', '', { query: { policy: '' } }, 'MalformedPolicy'] as const),
      { Message: "Policies must be valid JSON and the first byte must be '{'" },
    ],
    [
      'a list that nobody is in',
      ...(['PUT', '', { query: { acl: '' }, body: grant('') }, 'MalformedACLError'] as const),
      {
        Message:
          'The XML you provided was not well-formed or did not validate against our published ' +
          'schema',
      },
    ],
    [
      'a list for a kind of grantees that there is not',
      'PUT',
      '',
      {
        query: { acl: '' },
        body: grant(
          '<AccessControlList><Grant><Grantee xsi:type="BadType" ' +
            'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><ID>a/b</ID></Grantee>' +
            '<Permission>READ</Permission></Grant></AccessControlList>',
        ),
      },
      'MalformedACLError',
      {},
    ],
    [
      'no list at all',
      ...(['PUT', '', { query: { acl: '' } }, 'MissingSecurityHeader'] as const),
      { MissingHeaderName: 'x-amz-acl', Message: 'Your request was missing a required header' },
    ],
    [
      'a day that begins later than at midnight',
      'PUT',
      '',
      {
        ...{ query: { lifecycle: '' }, headers: { 'x-amz-sdk-checksum-algorithm': 'CRC32' } },
        body: rule('<Expiration><Date>2032-01-01T01:00:00Z</Date></Expiration>'),
      },
      'InvalidArgument',
      {
        ...{ ArgumentName: 'Date', ArgumentValue: '2032-01-01T01:00:00Z' },
        Message: "'Date' must be at midnight GMT",
      },
    ],
  ])('%s', async (_title, method, path, sent, code, elements) => {
    const withDigest = { ...sent, headers: { ...sent?.headers } };
    if (withDigest.headers['x-amz-sdk-checksum-algorithm'] !== undefined) {
      const body = Buffer.from(String(sent?.body ?? ''));
      withDigest.headers['x-amz-checksum-crc32'] = base64Checksum('CRC32', body);
    }
    const answer = await ask(room(), method, path, withDigest);
    expect(answer.code).toBe(code);
    for (const [name, text] of Object.entries(elements)) {
      const given = elementOf(answer.text, name)?.replaceAll('&apos;', "'");
      expect([name, given]).toEqual([name, text]);
    }
    const [id, host] = [elementOf(answer.text, 'RequestId'), elementOf(answer.text, 'HostId')];
    expect(answer.headers).toMatchObject({ 'x-amz-request-id': id, 'x-amz-id-2': host });
    expect(host).not.toBe(id);
  });

  it('a digest that does not fit is given back in hexadecimal, of a part in base64', async () => {
    const headers = { 'content-md5': Buffer.alloc(16, 1).toString('base64') };
    const ofObject = await ask(room(), 'PUT', '/x', { headers, body: 'x' });
    expect(elementOf(ofObject.text, 'ExpectedDigest')).toBe('01'.repeat(16));
    const begun = await ask(room(), 'POST', '/x', { query: { uploads: '' } });
    const query = { uploadId: elementOf(begun.text, 'UploadId') ?? '', partNumber: '1' };
    const ofPart = await ask(room(), 'PUT', '/x', { query, headers, body: 'x' });
    expect(elementOf(ofPart.text, 'ExpectedDigest')).toBe(headers['content-md5']);
    for (const { code, text } of [ofObject, ofPart]) {
      expect([code, elementOf(text, 'CalculatedDigest')]).toEqual([
        'BadDigest',
        'ndTkYSaMgDT1yFZOFVxnpg==',
      ]);
    }
  });

  it('an answer that gives back a control character is well-formed XML', async () => {
    const key = 'none\u0001\u000b\ufffe';
    const absent = await ask(room(), 'GET', `/${key}`);
    expect([absent.status, elementOf(absent.text, 'Code')]).toEqual([404, 'NoSuchKey']);
    const raw = await ask(room(), 'GET', '', { query: { 'list-type': '2', 'max-keys': '\u0001' } });
    expect(raw.code).toBe('InvalidArgument');
    for (const { text } of [absent, raw]) {
      expect(() => new SaxesParser({ xmlns: true }).write(text).close()).not.toThrow();
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
      expect(text).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/);
      expect(text).not.toMatch(/&#x?0*[01]?[0-9a-f];/i);
    }
  });

  it('an empty token is a wrong argument without its value; of buckets it is none', async () => {
    const query = { 'list-type': '2', 'continuation-token': '' };
    const { code, text } = await ask(room(), 'GET', '', { query });
    expect(code).toBe('InvalidArgument');
    expect(elementOf(text, 'ArgumentName')).toBe('continuation-token');
    expect(text).not.toContain('ArgumentValue');
    const buckets = await send(room().target, {
      ...{ method: 'GET', path: '/', query: [['continuation-token', '']] },
    });
    expect(buckets.status).toBe(200);
  });

  it('a key of KMS beside AES256 is a wrong argument without its value', async () => {
    const rule = '<SSEAlgorithm>AES256</SSEAlgorithm><KMSMasterKeyID>k</KMSMasterKeyID>';
    const byDefault = 'ApplyServerSideEncryptionByDefault';
    const root = 'ServerSideEncryptionConfiguration';
    const body = `<${root}><Rule><${byDefault}>${rule}</${byDefault}></Rule></${root}>`;
    const { code, text } = await ask(room(), 'PUT', '', { query: { encryption: '' }, body });
    expect([code, elementOf(text, 'ArgumentName')]).toEqual(['InvalidArgument', byDefault]);
    expect(text).not.toContain('ArgumentValue');
  });

  it('an expected owner is denied if it is another, and wrong if it can be nobody', async () => {
    for (const [owner, code] of [
      ['123456789012', 'AccessDenied'],
      ['x/y', 'AccessDenied'],
      ['invalid', 'InvalidBucketOwnerAWSAccountID'],
    ] as const) {
      const headers = { 'x-amz-expected-bucket-owner': owner };
      expect((await ask(room(), 'GET', '', { headers })).code).toBe(code);
    }
  });

  it('a URL by Signature Version 2 is told which setting of boto3 makes another', async () => {
    const { target, Bucket } = room();
    const query = `AWSAccessKeyId=${target.keys.accessKeyId}&Signature=x&Expires=1900000000`;
    const { code, text } = await exchange(target, 'GET', `/${Bucket}/k?${query}`);
    expect(code).toBe('InvalidRequest');
    expect(text).toContain("signature_version='s3v4'");
    for (const page of ['README.md', 'docs/users/getting-started.md']) {
      expect(readTreeFile(page)).toContain('Config(signature_version="s3v4"');
    }
  });
}

function describeForms(room: () => Room): void {
  const post = (
    conditions: Parameters<typeof signPolicy>[1],
    more: readonly (readonly [string, string])[] = [],
  ) => {
    const { target, Bucket } = room();
    const signed = signPolicy(target.keys, [
      { bucket: Bucket },
      ['starts-with', '$key', ''],
      ...conditions,
    ]);
    const fields = [['key', `form-${filenameVariable}`], ...more, ...signed] as const;
    const body = formBody(fields, { content: 'x', filename: '' });
    return postForm(target, Bucket, body);
  };

  it('a condition of a form that nothing fits denies it', async () => {
    for (const condition of [
      ['eq', 'acl', 'private'],
      ['content-length-range', 'one', '10'],
    ]) {
      const { status, code, text } = await post([condition]);
      expect([status, code]).toEqual([403, 'AccessDenied']);
      const shown = JSON.stringify(condition).replaceAll(',', ', ').replaceAll('"', '&quot;');
      expect(text).toContain(`Invalid according to Policy: Policy Condition failed: ${shown}`);
    }
    expect((await post([['content-length-range', '1', '10']])).status).toBe(204);
  });

  it('a form may have a control character in its key, which is kept', async () => {
    const { target, Bucket } = room();
    const key = 'form\u0001\u007fkey';
    const signed = signPolicy(target.keys, [
      { bucket: Bucket },
      ['starts-with', '$key', ''],
      { success_action_status: '201' },
    ]);
    const fields = [['key', key], ['success_action_status', '201'], ...signed] as const;
    const posted = await postForm(target, Bucket, formBody(fields, { content: 'kept' }));
    expect([posted.status, elementOf(posted.text, 'Key')]).toEqual([201, 'form&#x1;&#x7f;key']);
    expect(posted.headers.location).toMatch(/form%01%7Fkey$/);
    expect((await ask(room(), 'GET', `/${key}`)).text).toBe('kept');
  });

  it('a form without a name of its file keeps the variable that stands for it', async () => {
    expect((await post([])).status).toBe(204);
    expect((await ask(room(), 'HEAD', `/form-${filenameVariable}`)).status).toBe(200);
  });

  it('a form with a policy that is not signed is denied; what lacks is named', async () => {
    const { target, Bucket } = room();
    const signed = signPolicy(target.keys, [{ bucket: Bucket }]);
    const only = (names: string[]) =>
      formBody([['key', 'k'], ...signed.filter(([name]) => names.includes(name))], {
        content: 'x',
      });
    const alone = await postForm(target, Bucket, only(['policy']));
    expect([alone.status, alone.code]).toEqual([403, 'AccessDenied']);
    const lacking = await postForm(target, Bucket, only(['policy', 'x-amz-signature']));
    expect([lacking.status, elementOf(lacking.text, 'ArgumentName')]).toEqual([
      400,
      'X-Amz-Algorithm',
    ]);
  });

  it('an element without content is no tags, whatever its name', async () => {
    const tagged = (xml: string) =>
      post([['starts-with', '$tagging', '']], [['tagging', xml]]).then(({ status }) => status);
    expect(await tagged('<Tagging/>')).toBe(204);
    expect(await tagged('<Other></Other>')).toBe(204);
    expect(await tagged('<Other/>')).toBe(204);
    expect(await tagged('<Other>x</Other>')).toBe(400);
    expect(await tagged('<Other></Another>')).toBe(400);
  });

  it('metadata in encoded words is kept as what it says', async () => {
    const word = '=?UTF-8?B?w6TDtg==?=';
    await ask(room(), 'PUT', '/words', { headers: { 'x-amz-meta-plain': '=?UTF-8?Q?a_b?=' } });
    expect((await ask(room(), 'HEAD', '/words')).headers['x-amz-meta-plain']).toBe('a b');
    await ask(room(), 'PUT', '/words', { headers: { 'x-amz-meta-word': word } });
    expect((await ask(room(), 'HEAD', '/words')).headers['x-amz-meta-word']).toBe(word);
    expect((await post([], [['x-amz-meta-word', 'äö']])).status).toBe(403);
    const field = await post(
      [['starts-with', '$x-amz-meta-word', '']],
      [['x-amz-meta-word', 'äö']],
    );
    expect(field.status).toBe(204);
    const head = await ask(room(), 'HEAD', `/form-${filenameVariable}`);
    expect(head.headers['x-amz-meta-word']).toBe(word);
  });
}

function describePreflights(room: () => Room): void {
  it('a preflight of a bucket without rules is refused, also without a method', async () => {
    const { target, Bucket } = room();
    const bare = await exchange(target, 'OPTIONS', `/${Bucket}/k`, { origin: 'https://a.example' });
    expect([bare.status, bare.code]).toEqual([403, 'AccessForbidden']);
    expect(elementOf(bare.text, 'Method')).toBe('OPTIONS');
    expect(elementOf(bare.text, 'ResourceType')).toBe('BUCKET');
    expect((await exchange(target, 'OPTIONS', `/${Bucket}/k`)).code).toBe('BadRequest');
  });
}
