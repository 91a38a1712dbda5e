// Words and elements of refusals by which clients go, as AWS was seen to send them. Where Bursar
// has others on purpose, docs/s3-compatibility.md says so.
import { createHash } from 'node:crypto';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { base64Checksum } from '../checksums.ts';
import { ask, makeRoom, type Room } from '../room.ts';
import { elementOf, type Target } from '../target.ts';

type Elements = Record<string, string>;

/** The elements of these names, as they mean. */
function elementsLike(text: string, wanted: Elements): Elements {
  const told = Object.keys(wanted).map((name) => {
    const escaped = elementOf(text, name) ?? `no ${name}`;
    return [name, escaped.replaceAll('&apos;', "'").replaceAll('&quot;', '"')];
  });
  return Object.fromEntries(told);
}

export function describeRecordedWords(targetOf: () => Target): void {
  let room: Room;
  beforeAll(async () => {
    room = await makeRoom(targetOf());
  });
  describe('in the words of AWS', () => {
    describeOfBuckets(() => room);
    describeArguments(() => room);
    describeOfUploads(() => room);
  });
}

function describeOfBuckets(room: () => Room): void {
  it.each([
    ['policy', 'NoSuchBucketPolicy', 'The bucket policy does not exist'],
    ['lifecycle', 'NoSuchLifecycleConfiguration', 'The lifecycle configuration does not exist'],
    ['tagging', 'NoSuchTagSet', 'The TagSet does not exist'],
    ['cors', 'NoSuchCORSConfiguration', 'The CORS configuration does not exist'],
    [
      'website',
      'NoSuchWebsiteConfiguration',
      'The specified bucket does not have a website configuration',
    ],
    [
      'replication',
      'ReplicationConfigurationNotFoundError',
      'The replication configuration was not found',
    ],
    [
      'object-lock',
      'ObjectLockConfigurationNotFoundError',
      'Object Lock configuration does not exist for this bucket',
    ],
    [
      'publicAccessBlock',
      'NoSuchPublicAccessBlockConfiguration',
      'The public access block configuration was not found',
    ],
    [
      'ownershipControls',
      'OwnershipControlsNotFoundError',
      'The bucket ownership controls were not found',
    ],
  ])('what a bucket has no ?%s of is told with its name', async (name, code, Message) => {
    const query = { [name]: '' };
    // What each new bucket has is taken away; of the others some cannot be.
    await ask(room(), 'DELETE', '', { query });
    const answer = await ask(room(), 'GET', '', { query });
    const expected = { BucketName: room().Bucket, Message };
    expect([answer.status, answer.code]).toEqual([404, code]);
    expect(elementsLike(answer.text, expected)).toEqual(expected);
  });

  it('a bucket that is not there, is there, is not empty or can be none is named', async () => {
    const { client, Bucket } = room();
    const taken = `${Bucket}-taken`;
    await client.send(new CreateBucketCommand({ Bucket: taken }));
    const Tags = '<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>';
    const body = `<CreateBucketConfiguration>${Tags}</CreateBucketConfiguration>`;
    for (const [method, behind, sent, code, Message] of [
      ['GET', '-none', {}, 'NoSuchBucket', 'The specified bucket does not exist'],
      [...(['GET', '-none/k', {}, 'NoSuchBucket'] as const), 'The specified bucket does not exist'],
      ['DELETE', '', {}, 'BucketNotEmpty', 'The bucket you tried to delete is not empty'],
      [
        ...(['PUT', '-taken', { body }, 'BucketAlreadyOwnedByYou'] as const),
        'Your previous request to create the named bucket succeeded and you already own it.',
      ],
    ] as const) {
      const answer = await ask(room(), method, behind, sent);
      const expected = { Code: code, BucketName: `${Bucket}${behind.split('/')[0]}`, Message };
      expect(elementsLike(answer.text, expected)).toEqual(expected);
    }
    const odd = await ask(room(), 'PUT', '-Odd');
    expect([odd.code, elementOf(odd.text, 'BucketName')]).toEqual([
      'InvalidBucketName',
      `${Bucket}-Odd`,
    ]);
  });
}

const bypass = 'x-amz-bypass-governance-retention';
const noLock = {
  ArgumentName: bypass,
  Message: `${bypass} is only applicable to Object Lock enabled buckets.`,
};
const list = '<Delete><Object><Key>k</Key></Object></Delete>';
const lockMode = 'x-amz-object-lock-mode';
const lockUntil = 'x-amz-object-lock-retain-until-date';
const bothLocks = `${lockUntil} and ${lockMode} must both be supplied`;
const fakeGroup = 'http://acs.amazonaws.com/groups/s3/FakeGroup';
const published =
  'The XML you provided was not well-formed or did not validate against our published schema';

const acl = (owner: string, grantee: string) =>
  `<AccessControlPolicy><Owner><ID>${owner}</ID></Owner><AccessControlList><Grant>` +
  `<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ${grantee}</Grantee>` +
  '<Permission>READ</Permission></Grant></AccessControlList></AccessControlPolicy>';
const tagSet = (...tags: [string, string][]) => {
  const all = tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`);
  return `<Tagging><TagSet>${all.join('')}</TagSet></Tagging>`;
};
const placed = (place: string) =>
  `<CreateBucketConfiguration><LocationConstraint>${place}</LocationConstraint>` +
  '</CreateBucketConfiguration>';

function describeArguments(room: () => Room): void {
  type Sent = Parameters<typeof ask>[3] & { body?: string };
  it.each<[string, string, string, Sent, Elements]>([
    ['InvalidArgument', 'DELETE', '/k', { headers: { [bypass]: 'false' } }, noLock],
    [
      'InvalidArgument',
      'POST',
      '',
      { query: { delete: '' }, headers: { [bypass]: 'true' }, body: list },
      noLock,
    ],
    [
      'InvalidRange',
      'GET',
      '/k',
      { headers: { range: 'bytes=100-200' } },
      {
        ...{ ActualObjectSize: '5', RangeRequested: 'bytes=100-200' },
        Message: 'The requested range is not satisfiable',
      },
    ],
    [
      'InvalidPartNumber',
      'GET',
      '/k',
      { query: { partNumber: '2' } },
      {
        ...{ ActualPartCount: '1', PartNumberRequested: '2' },
        Message: 'The requested partnumber is not satisfiable',
      },
    ],
    [
      'InvalidRequest',
      'GET',
      '/k',
      { query: { partNumber: '1' }, headers: { range: 'bytes=0-1' } },
      { Message: 'Cannot specify both Range header and partNumber query parameter' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/k',
      { query: { partNumber: '-1', uploadId: 'x' } },
      {
        ...{ ArgumentName: 'partNumber', ArgumentValue: '-1' },
        Message: 'Part number must be an integer between 1 and 10000, inclusive',
      },
    ],
    [
      'InvalidArgument',
      'GET',
      '/k',
      { query: { versionId: 'x' } },
      {
        ...{ ArgumentName: 'versionId', ArgumentValue: 'x' },
        Message: 'Invalid version id specified',
      },
    ],
    [
      'NoSuchVersion',
      'GET',
      '/k',
      { query: { versionId: '0'.repeat(32) } },
      {
        ...{ Key: 'k', VersionId: '0'.repeat(32) },
        Message: 'The specified version does not exist.',
      },
    ],
    [
      'InvalidArgument',
      'GET',
      '',
      { query: { 'encoding-type': 'base64' } },
      {
        ...{ ArgumentName: 'encoding-type', ArgumentValue: 'base64' },
        Message: 'Invalid Encoding Method specified in Request',
      },
    ],
    [
      'InvalidArgument',
      'GET',
      '',
      { query: { 'list-type': '2', 'continuation-token': 'odd' } },
      {
        ArgumentName: 'continuation-token',
        Message: 'The continuation token provided is incorrect',
      },
    ],
    [
      'InvalidArgument',
      'GET',
      '',
      { query: { versions: '', 'version-id-marker': 'null' } },
      {
        ...{ ArgumentName: 'version-id-marker', ArgumentValue: 'null' },
        Message: 'A version-id marker cannot be specified without a key marker.',
      },
    ],
    [
      'InvalidStorageClass',
      'PUT',
      '/x',
      { headers: { 'x-amz-storage-class': 'WARM' } },
      {
        StorageClassRequested: 'WARM',
        Message: 'The storage class you specified is not valid',
      },
    ],
    [
      'InvalidRequest',
      'PUT',
      '/x',
      { headers: { 'x-amz-checksum-crc32': 'no' } },
      { Message: 'Value for x-amz-checksum-crc32 header is invalid.' },
    ],
    [
      'InvalidRequest',
      'PUT',
      '/x',
      { headers: { 'x-amz-checksum-crc32': 'AAAAAA==', 'x-amz-checksum-crc32c': 'AAAAAA==' } },
      {
        Message:
          'Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.',
      },
    ],
    [
      'BadDigest',
      'PUT',
      '/x',
      { headers: { 'x-amz-checksum-crc32': 'AAAAAA==' }, body: 'x' },
      { Message: 'The CRC32 you specified did not match the calculated checksum.' },
    ],
    [
      'InvalidRequest',
      'POST',
      '/x',
      { query: { uploads: '' }, headers: { 'x-amz-checksum-type': 'COMPOSITE' } },
      {
        Message:
          'The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm ' +
          'header.',
      },
    ],
    [
      'InvalidRequest',
      'POST',
      '/x',
      {
        query: { uploads: '' },
        headers: { 'x-amz-checksum-type': 'FULL_OBJECT', 'x-amz-checksum-algorithm': 'SHA1' },
      },
      {
        Message: 'The FULL_OBJECT checksum type cannot be used with the sha1 checksum algorithm.',
      },
    ],
    [
      'InvalidRequest',
      'PUT',
      '/k',
      { headers: { 'x-amz-copy-source': '/BUCKET/k' } },
      {
        Message:
          'This copy request is illegal because it is trying to copy an object to itself ' +
          "without changing the object's metadata, storage class, website redirect location or " +
          'encryption attributes.',
      },
    ],
    [
      'MalformedPolicy',
      'PUT',
      '',
      { query: { policy: '' }, body: '{}' },
      { Message: 'Missing required field Statement' },
    ],
    [
      'IllegalVersioningConfigurationException',
      'PUT',
      '',
      { query: { versioning: '' }, body: '<VersioningConfiguration/>' },
      { Message: 'The Versioning element must be specified' },
    ],
    [
      'InvalidTag',
      'PUT',
      '',
      { query: { tagging: '' }, body: tagSet(['a', '1'], ['a', '2']) },
      { TagKey: 'a', Message: 'Cannot provide multiple Tags with the same key' },
    ],
    [
      'InvalidTag',
      'PUT',
      '/k',
      { query: { tagging: '' }, body: tagSet(['Key1,Key2', '1']) },
      { TagKey: 'Key1,Key2', Message: 'The TagKey you have provided is invalid' },
    ],
    [
      'InvalidTag',
      'PUT',
      '/k',
      { query: { tagging: '' }, body: tagSet(['Key1', 'Val1,Val2']) },
      {
        ...{ TagKey: 'Key1', TagValue: 'Val1,Val2' },
        Message: 'The TagValue you have provided is invalid',
      },
    ],
    [
      'InvalidTag',
      'PUT',
      '',
      { query: { tagging: '' }, body: tagSet(['aws:a', '1']) },
      { TagKey: 'aws:a', Message: 'System tags cannot be added/updated by requester' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '',
      { query: { acl: '' }, headers: { 'x-amz-acl': 'fake-acl' } },
      { ArgumentName: 'x-amz-acl', ArgumentValue: 'fake-acl' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/k',
      { query: { acl: '' }, headers: { 'x-amz-grant-read': `uri="${fakeGroup}"` } },
      { ArgumentName: 'uri', ArgumentValue: fakeGroup, Message: 'Invalid group uri' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/k',
      { query: { acl: '' }, headers: { 'x-amz-grant-read': 'fakekey="1234"' } },
      {
        ...{ ArgumentName: 'x-amz-grant-read', ArgumentValue: 'fakekey="1234"' },
        Message: 'Argument format not recognized',
      },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/k',
      { query: { acl: '' }, headers: { 'x-amz-grant-read': 'id="wrong-id"' } },
      { ArgumentName: 'id', ArgumentValue: 'wrong-id', Message: 'Invalid id' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/k',
      {
        query: { acl: '' },
        body: acl('OWNER', 'xsi:type="CanonicalUser"><ID>wrong-id</ID>'),
      },
      { ArgumentName: 'CanonicalUser/ID', ArgumentValue: 'wrong-id', Message: 'Invalid id' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/k',
      { query: { acl: '' }, body: acl('OWNER', `xsi:type="Group"><URI>${fakeGroup}</URI>`) },
      { ArgumentName: 'Group/URI', ArgumentValue: fakeGroup, Message: 'Invalid group uri' },
    ],
    [
      'InvalidRequest',
      'PUT',
      '/k',
      {
        query: { acl: '' },
        headers: { 'x-amz-acl': 'private', 'x-amz-grant-read': 'id="a/b"' },
      },
      { Message: 'Specifying both Canned ACLs and Header Grants is not allowed' },
    ],
    [
      'UnexpectedContent',
      'PUT',
      '/k',
      { query: { acl: '' }, headers: { 'x-amz-acl': 'private' }, body: acl('OWNER', '>') },
      { Message: 'This request does not support content' },
    ],
    [
      'MalformedACLError',
      'PUT',
      '/k',
      { query: { acl: '' }, body: '<AccessControlPolicy/>' },
      { Message: published },
    ],
    [
      'InvalidBucketOwnerAWSAccountID',
      'GET',
      '',
      { headers: { 'x-amz-expected-bucket-owner': 'odd' } },
      {
        Message:
          'The value of the expected bucket owner parameter must be an AWS Account ID... [odd]',
      },
    ],
    [
      'NoSuchConfiguration',
      'GET',
      '',
      { query: { metrics: '', id: 'a' } },
      { Message: 'The specified configuration does not exist.' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '-owned',
      { headers: { 'x-amz-object-ownership': 'RandomValue' } },
      {
        ArgumentName: 'x-amz-object-ownership',
        Message: 'Invalid x-amz-object-ownership header: RandomValue',
      },
    ],
    [
      'IllegalLocationConstraintException',
      'PUT',
      '-placed',
      { body: placed('eu-west-3') },
      {
        Message:
          'The eu-west-3 location constraint is incompatible for the region specific endpoint ' +
          'this request was sent to.',
      },
    ],
    [
      'InvalidLocationConstraint',
      'PUT',
      '-placed',
      { body: placed('mars-north-1') },
      {
        LocationConstraint: 'mars-north-1',
        Message: 'The specified location-constraint is not valid',
      },
    ],
    [
      'InvalidRequest',
      'PUT',
      '/k',
      { query: { 'legal-hold': '' }, body: '<LegalHold><Status>ON</Status></LegalHold>' },
      { Message: 'Bucket is missing Object Lock Configuration' },
    ],
    [
      'InvalidRequest',
      'GET',
      '/k',
      { query: { retention: '' } },
      { Message: 'Bucket is missing Object Lock Configuration' },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/x',
      { headers: { [lockMode]: 'BAD', [lockUntil]: '2099-01-01T00:00:00Z' } },
      {
        ...{ ArgumentName: lockMode, ArgumentValue: 'BAD' },
        Message: 'Unknown wormMode directive.',
      },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/x',
      { headers: { [lockMode]: 'GOVERNANCE' } },
      { ArgumentName: lockUntil, Message: bothLocks },
    ],
    [
      'InvalidArgument',
      'PUT',
      '/x',
      { headers: { [lockUntil]: '2099-01-01T00:00:00Z' } },
      { ArgumentName: lockMode, Message: bothLocks },
    ],
    [
      'InvalidRequest',
      'PUT',
      '',
      {
        query: { lifecycle: '' },
        body:
          '<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter><And>' +
          '<Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>a</Key><Value>2</Value></Tag>' +
          '</And></Filter><Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>',
      },
      { Message: 'Duplicate Tag Keys are not allowed.' },
    ],
  ])('%s of %s %s (%#)', async (code, method, path, sent, elements) => {
    const { Bucket } = room();
    const headers = { ...sent.headers };
    const named = headers['x-amz-copy-source'];
    if (named !== undefined) headers['x-amz-copy-source'] = named.replace('BUCKET', Bucket);
    const body = sent.body?.replace('OWNER', 'default/admin');
    if (body !== undefined && headers['x-amz-checksum-crc32'] === undefined) {
      headers['content-md5'] = createHash('md5').update(body).digest('base64');
    }
    const answer = await ask(room(), method, path, {
      ...{ ...sent, headers },
      ...(body !== undefined && { body }),
    });
    const expected = { Code: code, ...elements };
    expect(elementsLike(answer.text, expected)).toEqual(expected);
  });
}

function describeOfUploads(room: () => Room): void {
  it('what is wrong about the parts of an upload is told with what it is wrong about', async () => {
    const begun = await ask(room(), 'POST', '/up', { query: { uploads: '' } });
    const UploadId = elementOf(begun.text, 'UploadId') ?? '';
    const query = { uploadId: UploadId };
    const none = await ask(room(), 'GET', '/up', { query });
    expect(elementOf(none.text, 'NextPartNumberMarker')).toBe('0');
    const tags: string[] = [];
    for (const partNumber of ['1', '2']) {
      const part = await ask(room(), 'PUT', '/up', { query: { ...query, partNumber }, body: 'p' });
      tags.push(part.headers.etag ?? '');
    }
    const listed = await ask(room(), 'GET', '/up', { query });
    expect(elementOf(listed.text, 'NextPartNumberMarker')).toBe('2');
    const complete = (numbers: number[], tag = tags[0], headers = {}) => {
      const parts = numbers.map(
        (n) => `<Part><PartNumber>${n}</PartNumber><ETag>${tag}</ETag></Part>`,
      );
      const body = `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
      return ask(room(), 'POST', '/up', { query, body, headers });
    };
    const copyOf = (range: string, source = `/${room().Bucket}/k`) =>
      ask(room(), 'PUT', '/up', {
        query: { ...query, partNumber: '3' },
        headers: { 'x-amz-copy-source': source, 'x-amz-copy-source-range': range },
      });
    const ofRange = (ArgumentValue: string) => ({
      ...{ Code: 'InvalidArgument', ArgumentName: 'x-amz-copy-source-range', ArgumentValue },
    });
    const other = { 'x-amz-checksum-crc32': base64Checksum('CRC32', Buffer.from('p')) };
    const cases: [Awaited<ReturnType<typeof complete>>, Elements][] = [
      [
        await complete([1], 'odd'),
        {
          ...{ Code: 'InvalidPart', UploadId, PartNumber: '1', ETag: 'odd' },
          Message:
            'One or more of the specified parts could not be found.  The part may not have been ' +
            "uploaded, or the specified entity tag may not match the part's entity tag.",
        },
      ],
      [
        await complete([2, 1]),
        {
          ...{ Code: 'InvalidPartOrder', UploadId },
          Message:
            'The list of parts was not in ascending order. Parts must be ordered by part number.',
        },
      ],
      [
        await complete([1, 2]),
        {
          ...{ Code: 'EntityTooSmall', PartNumber: '1', ProposedSize: '1' },
          ...{ MinSizeAllowed: '5242880', ETag: tags[0]?.replaceAll('"', '') ?? '' },
          Message: 'Your proposed upload is smaller than the minimum allowed size',
        },
      ],
      [
        await complete([1], tags[0], { 'x-amz-mp-object-size': '5' }),
        {
          Code: 'InvalidRequest',
          Message:
            "The provided 'x-amz-mp-object-size' header value 5 does not match what was " +
            'computed: 1',
        },
      ],
      [
        await copyOf('bytes=0-100'),
        {
          ...ofRange('bytes=0-100'),
          Message: 'Range specified is not valid for source object of size: 5',
        },
      ],
      [
        await copyOf('0-1'),
        {
          ...ofRange('0-1'),
          Message:
            'The x-amz-copy-source-range value must be of the form bytes=first-last where first ' +
            'and last are the zero-based offsets of the first and last bytes to copy',
        },
      ],
      [
        await copyOf('bytes=100-200'),
        {
          Code: 'InvalidRequest',
          Message: 'The specified copy range is invalid for the source object size',
        },
      ],
      [
        await ask(room(), 'GET', '', {
          query: { uploads: '', 'key-marker': 'other', 'upload-id-marker': UploadId },
        }),
        {
          ...{ Code: 'InvalidArgument', ArgumentName: 'upload-id-marker' },
          ...{ ArgumentValue: UploadId, Message: 'Invalid uploadId marker' },
        },
      ],
      [
        await ask(room(), 'PUT', '/up', {
          ...{ query: { uploadId: 'none', partNumber: '1' }, body: 'p', headers: other },
        }),
        {
          ...{ Code: 'NoSuchUpload', UploadId: 'none' },
          Message:
            'The specified upload does not exist. The upload ID may be invalid, or the upload ' +
            'may have been aborted or completed.',
        },
      ],
    ];
    for (const [answer, expected] of cases) {
      expect(elementsLike(answer.text, expected)).toEqual(expected);
    }
    expect((await complete([1])).status).toBe(200);
  });
}
