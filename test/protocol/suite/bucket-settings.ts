// What is set of a bucket: its versioning and its tags.
import {
  type BucketVersioningStatus,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteBucketTaggingCommand,
  GetBucketTaggingCommand,
  GetBucketVersioningCommand,
  PutBucketTaggingCommand,
  PutBucketVersioningCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  clientOf,
  findRecords,
  newBucket,
  newName,
  newPrincipal,
  refusalOf,
  send,
  type Target,
} from '../target.ts';

export function describeBucketSettings(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  beforeAll(() => {
    target = targetOf();
    client = clientOf(target);
  });

  const sendDocument = (Bucket: string, subresource: string, body: string, headers = {}) => {
    const query: [string, string][] = [[subresource, '']];
    return send(target, { method: 'PUT', path: `/${Bucket}`, query, body, headers });
  };

  describe('versioning of a bucket', () => {
    const put = (Bucket: string, Status: BucketVersioningStatus) => {
      const VersioningConfiguration = { Status };
      return client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
    };
    const get = async (Bucket: string) =>
      (await client.send(new GetBucketVersioningCommand({ Bucket }))).Status;

    it('has no status at first, and then the last one', async () => {
      const Bucket = await newBucket(client);
      expect(await get(Bucket)).toBeUndefined();
      for (const status of ['Suspended', 'Enabled', 'Enabled', 'Suspended'] as const) {
        await put(Bucket, status);
        expect(await get(Bucket)).toBe(status);
      }
    });

    it('is enabled from the start with object lock, and is never suspended', async () => {
      const Bucket = newName();
      await client.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
      expect(await get(Bucket)).toBe('Enabled');
      expect(await refusalOf(put(Bucket, 'Suspended'))).toEqual({
        code: 'InvalidBucketState',
        status: 409,
      });
      expect(await get(Bucket)).toBe('Enabled');
      await put(Bucket, 'Enabled');
    });

    it.each([
      ['no body', '', 400, 'MissingRequestBodyError'],
      ['no status', '', 400, 'IllegalVersioningConfigurationException'],
      ['an unknown status', '<Status>enabled</Status>', 400, 'MalformedXML'],
      ['two of them', '<Status>Enabled</Status><Status>Suspended</Status>', 400, 'MalformedXML'],
      ['MFA', '<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>', 501, 'NotImplemented'],
      [
        'what only MinIO has',
        '<Status>Enabled</Status><ExcludeFolders>true</ExcludeFolders>',
        400,
        'MalformedXML',
      ],
      ['odd MFA', '<Status>Enabled</Status><MfaDelete>x</MfaDelete>', 400, 'MalformedXML'],
    ])('is refused with %s, and stays what it was', async (what, inner, status, code) => {
      const Bucket = await newBucket(client);
      const document = `<VersioningConfiguration>${inner}</VersioningConfiguration>`;
      const body = what === 'no body' ? '' : document;
      const answer = await sendDocument(Bucket, 'versioning', body);
      expect([answer.status, answer.code]).toEqual([status, code]);
      expect(await get(Bucket)).toBeUndefined();
    });

    it('with MFA said to be disabled is taken', async () => {
      const Bucket = await newBucket(client);
      const body =
        '<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Disabled</MfaDelete>' +
        '</VersioningConfiguration>';
      expect((await sendDocument(Bucket, 'versioning', body)).status).toBe(200);
      expect(await get(Bucket)).toBe('Enabled');
    });
  });

  describe('tags of a bucket', () => {
    const put = (Bucket: string, TagSet: { Key: string; Value: string }[]) =>
      client.send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
    const get = async (Bucket: string) =>
      (await client.send(new GetBucketTaggingCommand({ Bucket }))).TagSet;
    const noTags = { code: 'NoSuchTagSet', status: 404 };

    it('come back in their order, are replaced, and are gone once deleted', async () => {
      const Bucket = await newBucket(client);
      expect(await refusalOf(get(Bucket))).toEqual(noTags);
      const first = [
        { Key: 'projet', Value: 'café +1' },
        { Key: 'empty', Value: '' },
      ];
      const { $metadata } = await put(Bucket, first);
      expect($metadata.httpStatusCode).toBe(204);
      expect(await get(Bucket)).toEqual(first);
      const second = [{ Key: 'a', Value: '1' }];
      await put(Bucket, second);
      expect(await get(Bucket)).toEqual(second);
      for (let times = 0; times < 2; times++) {
        const deleted = await client.send(new DeleteBucketTaggingCommand({ Bucket }));
        expect(deleted.$metadata.httpStatusCode).toBe(204);
        expect(await refusalOf(get(Bucket))).toEqual(noTags);
      }
    });

    it('may be fifty, and not more', async () => {
      const Bucket = await newBucket(client);
      const tags = (count: number) =>
        Array.from({ length: count }, (_, i) => ({ Key: `k${i}`, Value: 'v'.repeat(256) }));
      await put(Bucket, tags(50));
      expect(await get(Bucket)).toHaveLength(50);
      expect(await refusalOf(put(Bucket, tags(51)))).toEqual({ code: 'BadRequest', status: 400 });
      expect(await get(Bucket)).toHaveLength(50);
    });

    it.each([
      ['a key twice', ['a', 'a']],
      ['an empty key', ['']],
      ['a key of 129 characters', ['k'.repeat(129)]],
      ['a key of AWS’s', ['aws:project']],
    ])('with %s are refused', async (_title, keys) => {
      const Bucket = await newBucket(client);
      const set = put(
        Bucket,
        keys.map((Key) => ({ Key, Value: 'v' })),
      );
      expect(await refusalOf(set)).toEqual({ code: 'InvalidTag', status: 400 });
      expect(await refusalOf(get(Bucket))).toEqual(noTags);
    });

    it('can be given when it is made, by who may set them, and not again', async () => {
      const Bucket = newName();
      const Tags = [{ Key: 'project', Value: 'cms' }];
      const asked = { Bucket, CreateBucketConfiguration: { Tags } };
      await client.send(new CreateBucketCommand(asked));
      const { TagSet } = await client.send(new GetBucketTaggingCommand({ Bucket }));
      expect(TagSet).toEqual(Tags);
      expect(await refusalOf(client.send(new CreateBucketCommand(asked)))).toEqual({
        code: 'BucketAlreadyOwnedByYou',
        status: 409,
      });
      const [record] = await findRecords(target, [['bucket', Bucket]]);
      expect(record.change).toMatchObject({ tags: [['project', 'cms']] });
      const twice = { Bucket: newName(), CreateBucketConfiguration: { Tags: [...Tags, ...Tags] } };
      expect(await refusalOf(client.send(new CreateBucketCommand(twice)))).toEqual({
        code: 'InvalidTag',
        status: 400,
      });
      expect((await send(target, { method: 'HEAD', path: `/${twice.Bucket}` })).status).toBe(404);
    });

    it('go with their bucket, and are not those of the next one of its name', async () => {
      const Bucket = await newBucket(client);
      await put(Bucket, [{ Key: 'a', Value: '1' }]);
      await client.send(new DeleteBucketCommand({ Bucket }));
      await client.send(new CreateBucketCommand({ Bucket }));
      expect(await refusalOf(get(Bucket))).toEqual(noTags);
    });
  });

  describe('a setting that no bucket has', () => {
    const read = async (subresource: string, path: string, id?: string) => {
      const query: [string, string][] = [[subresource, '']];
      if (id) query.push(['id', id]);
      return send(target, { method: 'GET', path, query });
    };
    const empty = {
      accelerate: '<AccelerateConfiguration',
      logging: '<BucketLoggingStatus',
      notification: '<NotificationConfiguration',
      requestPayment: '<Payer>BucketOwner</Payer>',
      analytics: '<IsTruncated>false</IsTruncated>',
      'intelligent-tiering': '<IsTruncated>false</IsTruncated>',
      inventory: '<IsTruncated>false</IsTruncated>',
      metrics: '<IsTruncated>false</IsTruncated>',
    };
    it.each(Object.entries(empty))('%s, is read as one that says %s', async (name, part) => {
      const answer = await read(name, `/${await newBucket(client)}`);
      expect(answer.status).toBe(200);
      expect(answer.text).toContain(part);
    });

    it('acceleration is kept as it was set, though nothing is faster', async () => {
      const path = `/${await newBucket(client)}`;
      const query = [['accelerate', '']] as const;
      const set = (status: string, bucket = path) => {
        const body = `<AccelerateConfiguration>${status}</AccelerateConfiguration>`;
        return send(target, { method: 'PUT', path: bucket, query, body });
      };
      const dotted = `/${newName('a.b')}`;
      await send(target, { method: 'PUT', path: dotted });
      const status = (word: string) => `<Status>${word}</Status>`;
      for (const word of ['Enabled', 'Suspended']) {
        expect((await set(status(word))).status).toBe(200);
        expect((await read('accelerate', path)).text).toContain(status(word));
      }
      expect((await set(status('enabled'))).code).toBe('MalformedXML');
      expect((await set('')).code).toBe('MalformedXML');
      expect((await set(status('Enabled'), dotted)).code).toBe('InvalidRequest');
      expect((await read('accelerate', path)).text).toContain('Suspended');
    });

    it('metrics configurations are kept by id, and filter by a prefix alone', async () => {
      const path = `/${await newBucket(client)}`;
      const ask = (method: string, id: string, body?: string) => {
        const query = [
          ['metrics', ''],
          ['id', id],
        ] as const;
        return send(target, { method, path, query, ...(body !== undefined && { body }) });
      };
      const set = (id: string, content: string) =>
        ask('PUT', id, `<MetricsConfiguration>${content}</MetricsConfiguration>`);
      const filter = '<Id>a</Id><Filter><Prefix>logs/</Prefix></Filter>';
      expect((await set('a', '<Id>a</Id>')).status).toBe(204);
      expect((await set('a', filter)).status).toBe(204);
      expect((await ask('GET', 'a')).text).toContain(filter);
      const tag = '<Tag><Key>k</Key><Value>v</Value></Tag>';
      for (const [id, content, code] of [
        ['a', '<Id>b</Id>', 'IdMismatch'],
        ['a', '', 'MalformedXML'],
        ['a', '<Id>a</Id><Filter/>', 'MalformedXML'],
        ['a b', '<Id>a b</Id>', 'InvalidArgument'],
        ['a', `<Id>a</Id><Filter>${tag}</Filter>`, 'NotImplemented'],
        ['a', `<Id>a</Id><Filter><And><Prefix>p</Prefix>${tag}</And></Filter>`, 'NotImplemented'],
      ] as const) {
        expect([content, (await set(id, content)).code]).toEqual([content, code]);
      }
      expect((await read('metrics', path)).text).toContain(filter);
      expect((await ask('DELETE', 'a')).status).toBe(204);
      expect((await ask('DELETE', 'a')).code).toBe('NoSuchConfiguration');
    });

    it.each([
      ['replication', undefined, 'ReplicationConfigurationNotFoundError'],
      ['website', undefined, 'NoSuchWebsiteConfiguration'],
      ['analytics', 'a', 'NoSuchConfiguration'],
      ['intelligent-tiering', 'a', 'NoSuchConfiguration'],
      ['inventory', 'a', 'NoSuchConfiguration'],
      ['metrics', 'a', 'NoSuchConfiguration'],
    ])('%s of id %s, is not there: %s', async (name, id, code) => {
      const answer = await read(name, `/${await newBucket(client)}`, id);
      expect([answer.status, answer.code]).toEqual([404, code]);
    });

    it('is not told of a bucket that is not there, nor to who may not ask', async () => {
      const missing = await read('logging', `/${newName()}`);
      expect([missing.status, missing.code]).toEqual([404, 'NoSuchBucket']);
      const other = as(target, await newPrincipal(target));
      const path = `/${await newBucket(client)}`;
      const denied = await send(other, { method: 'GET', path, query: [['logging', '']] });
      expect([denied.status, denied.code]).toEqual([403, 'AccessDenied']);
    });
  });

  it('settings of a bucket are not for another member of its tenant', async () => {
    const Bucket = await newBucket(client);
    const name = newName('person');
    const other = clientOf(as(target, await newPrincipal(target, { name })));
    const tagging = { Bucket, Tagging: { TagSet: [{ Key: 'a', Value: '1' }] } };
    const VersioningConfiguration = { Status: 'Enabled' } as const;
    const versioning = { Bucket, VersioningConfiguration };
    const attempts = [
      () => other.send(new PutBucketTaggingCommand(tagging)),
      () => other.send(new GetBucketTaggingCommand({ Bucket })),
      () => other.send(new DeleteBucketTaggingCommand({ Bucket })),
      () => other.send(new PutBucketVersioningCommand(versioning)),
      () => other.send(new GetBucketVersioningCommand({ Bucket })),
    ];
    for (const attempt of attempts) {
      expect(await refusalOf(attempt())).toEqual({ code: 'AccessDenied', status: 403 });
    }
    const actions = ['s3:PutBucketTagging', 's3:GetBucketTagging', 's3:PutBucketVersioning'];
    const grant = { effect: 'allow', subjects: [`principal:default/${name}`], actions };
    await callNative(target, 'PUT', `/_/v1/tenants/default/grants/${newName('grant')}`, {
      ...grant,
      bucket: Bucket,
    });
    await other.send(new PutBucketTaggingCommand(tagging));
    await other.send(new GetBucketTaggingCommand({ Bucket }));
    await other.send(new DeleteBucketTaggingCommand({ Bucket }));
    await other.send(new PutBucketVersioningCommand(versioning));
    const get = other.send(new GetBucketVersioningCommand({ Bucket }));
    expect(await refusalOf(get)).toEqual({ code: 'AccessDenied', status: 403 });
  });

  it('the record of a setting says what it was set to', async () => {
    const Bucket = await newBucket(client);
    const VersioningConfiguration = { Status: 'Enabled' } as const;
    await client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
    const Tagging = { TagSet: [{ Key: 'a', Value: '1' }] };
    await client.send(new PutBucketTaggingCommand({ Bucket, Tagging }));
    const records = await findRecords(target, [['bucket', Bucket]]);
    const changes = records.map((record: { action: string; change?: object }) => [
      record.action,
      record.change,
    ]);
    expect(changes).toEqual(
      expect.arrayContaining([
        ['s3:PutBucketVersioning', { versioning: 'Enabled' }],
        ['s3:PutBucketTagging', { tags: [['a', '1']] }],
      ]),
    );
  });
}
