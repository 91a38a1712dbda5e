// Object lock as S3 has it, through the real client: what buckets, versions and headers say of it,
// and what a lock forbids. Who tries to get round it is in test/attacks/object-lock.test.ts.
import { createHash } from 'node:crypto';
import {
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetBucketVersioningCommand,
  GetObjectLegalHoldCommand,
  GetObjectLockConfigurationCommand,
  GetObjectRetentionCommand,
  HeadObjectCommand,
  type ObjectLockMode,
  type ObjectLockRule,
  PutBucketPolicyCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
  PutObjectLegalHoldCommand,
  PutObjectLockConfigurationCommand,
  PutObjectRetentionCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { formBody, postForm, signPolicy } from '../forms.ts';
import {
  as,
  callNative,
  clientOf,
  elementOf,
  newBucket,
  newName,
  newPrincipal,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { complete, putPart } from './multipart.ts';

const dayMs = 24 * 3_600_000;
const later = new Date('2098-01-01T00:00:00.000Z');
const latest = new Date('2099-01-01T00:00:00.000Z');
const denied = { code: 'AccessDenied', status: 403 };
const malformed = { code: 'MalformedXML', status: 400 };
const lockless = { code: 'InvalidRequest', status: 400 };

export function describeObjectLock(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  /** With object lock, and without. */
  let Bucket: string;
  let plain: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newLocked();
    plain = await newBucket(client);
    await client.send(new PutObjectCommand({ Bucket: plain, Key: 'k', Body: 'x' }));
  });

  async function newLocked(): Promise<string> {
    const name = newName('locked');
    await client.send(new CreateBucketCommand({ Bucket: name, ObjectLockEnabledForBucket: true }));
    return name;
  }
  const put = (more: Partial<PutObjectCommandInput> = {}) =>
    client.send(new PutObjectCommand({ Bucket, Key: newName('k'), Body: 'kept', ...more }));
  /** A new object and its version. */
  async function made(more: Partial<PutObjectCommandInput> = {}) {
    const Key = newName('k');
    const { VersionId } = await put({ Key, ...more });
    return { Bucket: more.Bucket ?? Bucket, Key, VersionId };
  }
  type Place = Awaited<ReturnType<typeof made>>;
  const locked = (Mode: ObjectLockMode, until = later) =>
    made({ ObjectLockMode: Mode, ObjectLockRetainUntilDate: until });
  const retain = (place: object, Mode: ObjectLockMode | undefined, until = later, bypass = false) =>
    client.send(
      new PutObjectRetentionCommand({
        ...(place as Place),
        Retention: Mode ? { Mode, RetainUntilDate: until } : {},
        BypassGovernanceRetention: bypass,
      }),
    );
  const retentionOf = async (place: object) =>
    (await client.send(new GetObjectRetentionCommand(place as Place))).Retention;
  const hold = (place: object, Status: 'ON' | 'OFF') =>
    client.send(new PutObjectLegalHoldCommand({ ...(place as Place), LegalHold: { Status } }));
  const holdOf = async (place: object) =>
    (await client.send(new GetObjectLegalHoldCommand(place as Place))).LegalHold?.Status;
  const remove = (place: Place, bypass = false) =>
    client.send(new DeleteObjectCommand({ ...place, BypassGovernanceRetention: bypass }));
  const configure = (bucket: string, Rule?: ObjectLockRule) =>
    client.send(
      new PutObjectLockConfigurationCommand({
        Bucket: bucket,
        ObjectLockConfiguration: { ObjectLockEnabled: 'Enabled', ...(Rule && { Rule }) },
      }),
    );
  const configurationOf = async (bucket: string) =>
    (await client.send(new GetObjectLockConfigurationCommand({ Bucket: bucket })))
      .ObjectLockConfiguration;
  const version = (bucket: string, Status: 'Enabled' | 'Suspended') =>
    client.send(
      new PutBucketVersioningCommand({ Bucket: bucket, VersioningConfiguration: { Status } }),
    );
  const putXml = (path: string, parameter: string, body: string) =>
    send(target, { method: 'PUT', path, query: [[parameter, '']], body });

  describe('a bucket with object lock', () => {
    it('has versioning from the start, for ever', async () => {
      const { Status } = await client.send(new GetBucketVersioningCommand({ Bucket }));
      expect(Status).toBe('Enabled');
      expect(await configurationOf(Bucket)).toEqual({ ObjectLockEnabled: 'Enabled' });
      expect(await refusalOf(version(Bucket, 'Suspended'))).toEqual({
        code: 'InvalidBucketState',
        status: 409,
      });
    });

    it('can be made of one whose versioning is enabled, and of no other', async () => {
      const bucket = await newBucket(client);
      const wrongState = { code: 'InvalidBucketState', status: 409 };
      expect(await refusalOf(configurationOf(bucket))).toEqual({
        code: 'ObjectLockConfigurationNotFoundError',
        status: 404,
      });
      expect(await refusalOf(configure(bucket))).toEqual(wrongState);
      await version(bucket, 'Suspended');
      expect(await refusalOf(configure(bucket))).toEqual(wrongState);
      await version(bucket, 'Enabled');
      await configure(bucket);
      expect(await configurationOf(bucket)).toEqual({ ObjectLockEnabled: 'Enabled' });
    });

    it('gives its default to versions without a retention, until it is taken away', async () => {
      const bucket = await newLocked();
      const rule = { DefaultRetention: { Mode: 'GOVERNANCE', Days: 7 } } as const;
      await configure(bucket, rule);
      expect(await configurationOf(bucket)).toEqual({ ObjectLockEnabled: 'Enabled', Rule: rule });
      const beforeMs = Date.now();
      const first = await made({ Bucket: bucket });
      const { Mode, RetainUntilDate } = (await retentionOf(first)) ?? {};
      expect(Mode).toBe('GOVERNANCE');
      const untilMs = RetainUntilDate?.getTime() ?? 0;
      expect(untilMs).toBeGreaterThanOrEqual(beforeMs + 7 * dayMs);
      expect(untilMs).toBeLessThanOrEqual(Date.now() + 7 * dayMs);
      const own = { ObjectLockMode: 'COMPLIANCE', ObjectLockRetainUntilDate: later } as const;
      expect(await retentionOf(await made({ Bucket: bucket, ...own }))).toEqual({
        ...{ Mode: 'COMPLIANCE', RetainUntilDate: later },
      });
      const copy = { Bucket: bucket, Key: newName('copy') };
      await client.send(new CopyObjectCommand({ ...copy, CopySource: `${plain}/k` }));
      expect(await retentionOf(copy)).toMatchObject({ Mode: 'GOVERNANCE' });
      await configure(bucket, { DefaultRetention: { Mode: 'COMPLIANCE', Years: 1 } });
      await configure(bucket);
      expect(await refusalOf(retentionOf(await made({ Bucket: bucket })))).toEqual({
        ...{ code: 'NoSuchObjectLockConfiguration', status: 404 },
      });
    });

    it.each([
      [
        'both days and years',
        '<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>',
        'MalformedXML',
      ],
      ['neither', '<Mode>GOVERNANCE</Mode>', 'MalformedXML'],
      ['another mode', '<Mode>governance</Mode><Days>1</Days>', 'MalformedXML'],
      ['no mode', '<Days>1</Days>', 'MalformedXML'],
      ['no day', '<Mode>GOVERNANCE</Mode><Days>0</Days>', 'InvalidArgument'],
      ['years before now', '<Mode>GOVERNANCE</Mode><Years>-1</Years>', 'InvalidArgument'],
      ['more than a century', '<Mode>GOVERNANCE</Mode><Years>101</Years>', 'InvalidArgument'],
      ['part of a day', '<Mode>GOVERNANCE</Mode><Days>0.5</Days>', 'MalformedXML'],
    ])('takes no default of %s', async (_title, retention, code) => {
      const rule = `<Rule><DefaultRetention>${retention}</DefaultRetention></Rule>`;
      const body =
        '<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>' +
        `${rule}</ObjectLockConfiguration>`;
      const answer = await putXml(`/${Bucket}`, 'object-lock', body);
      expect([answer.status, answer.code]).toEqual([400, code]);
      expect(await configurationOf(Bucket)).toEqual({ ObjectLockEnabled: 'Enabled' });
    });

    it('cannot be told that it has none', async () => {
      for (const enabled of ['<ObjectLockEnabled>Disabled</ObjectLockEnabled>', '']) {
        const body = `<ObjectLockConfiguration>${enabled}</ObjectLockConfiguration>`;
        const answer = await putXml(`/${Bucket}`, 'object-lock', body);
        expect([answer.status, answer.code]).toEqual([400, 'MalformedXML']);
      }
    });

    it('is not one that was made without, when that is made again', async () => {
      const again = { Bucket: plain, ObjectLockEnabledForBucket: true };
      expect(await refusalOf(client.send(new CreateBucketCommand(again)))).toEqual({
        ...{ code: 'BucketAlreadyOwnedByYou', status: 409 },
      });
      await client.send(new CreateBucketCommand({ ...again, Bucket }));
    });
  });

  describe('a version', () => {
    it.each(['GOVERNANCE', 'COMPLIANCE'] as const)(
      'under %s is not deleted, and says until when',
      async (mode) => {
        const place = await locked(mode);
        expect(await retentionOf(place)).toEqual({ Mode: mode, RetainUntilDate: later });
        const head = await client.send(new HeadObjectCommand(place));
        expect([head.ObjectLockMode, head.ObjectLockRetainUntilDate]).toEqual([mode, later]);
        expect(head.ObjectLockLegalHoldStatus).toBeUndefined();
        expect(await refusalOf(remove(place))).toEqual(denied);
        const bypassed = remove(place, true);
        if (mode === 'COMPLIANCE') expect(await refusalOf(bypassed)).toEqual(denied);
        else expect((await bypassed).$metadata.httpStatusCode).toBe(204);
      },
    );

    it('that no lock protects is not deleted by a request that says it bypasses one', async () => {
      const plain = { Bucket: await newBucket(client), Key: 'k', VersionId: undefined };
      await client.send(new PutObjectCommand({ ...plain, Body: 'x' }));
      const wrong = { code: 'InvalidArgument', status: 400 };
      for (const bypass of [true, false])
        expect(await refusalOf(remove(plain, bypass))).toEqual(wrong);
      await client.send(new DeleteObjectCommand(plain));
    });

    it('under a legal hold is not deleted until that ends, whatever is bypassed', async () => {
      const place = await made({ ObjectLockLegalHoldStatus: 'ON' });
      expect(await holdOf(place)).toBe('ON');
      const head = await client.send(new HeadObjectCommand(place));
      expect(head.ObjectLockLegalHoldStatus).toBe('ON');
      expect(await refusalOf(remove(place))).toEqual(denied);
      expect(await refusalOf(remove(place, true))).toEqual(denied);
      await hold(place, 'OFF');
      expect(await holdOf(place)).toBe('OFF');
      await remove(place);
    });

    it('stays under what is put over it, and under a marker', async () => {
      const place = await locked('COMPLIANCE');
      const { Key } = place;
      await put({ Key, Body: 'newer' });
      const marker = await client.send(new DeleteObjectCommand({ Bucket, Key }));
      expect(marker.DeleteMarker).toBe(true);
      expect(await refusalOf(remove(place))).toEqual(denied);
      expect((await client.send(new HeadObjectCommand(place))).ContentLength).toBe(4);
      await remove({ ...place, VersionId: marker.VersionId });
      expect(await refusalOf(remove(place, true))).toEqual(denied);
    });

    it('in a list to delete is refused by itself', async () => {
      const held = await locked('GOVERNANCE');
      const free = await made();
      const Objects = [held, free].map(({ Key, VersionId }) => ({ Key, VersionId }));
      const list = { Bucket, Delete: { Objects } };
      const first = await client.send(new DeleteObjectsCommand(list));
      expect(first.Deleted).toEqual([Objects[1]]);
      expect(first.Errors).toMatchObject([{ ...Objects[0], Code: 'AccessDenied' }]);
      const bypass = { ...list, BypassGovernanceRetention: true };
      const second = await client.send(new DeleteObjectsCommand(bypass));
      expect(second.Errors).toBeUndefined();
      expect(second.Deleted).toContainEqual(Objects[0]);
    });

    it('of an upload is locked as the upload was begun', async () => {
      const Key = newName('big');
      const begun = await client.send(
        new CreateMultipartUploadCommand({
          ...{ Bucket, Key, ObjectLockMode: 'GOVERNANCE', ObjectLockRetainUntilDate: later },
          ObjectLockLegalHoldStatus: 'ON',
        }),
      );
      const upload = { Bucket, Key, UploadId: begun.UploadId as string };
      const part = await putPart(client, upload, 1, Buffer.from('abc'));
      const { VersionId } = await complete(client, upload, [part]);
      const place = { Bucket, Key, VersionId };
      expect(await retentionOf(place)).toEqual({ Mode: 'GOVERNANCE', RetainUntilDate: later });
      expect(await holdOf(place)).toBe('ON');
      expect(await refusalOf(remove(place, true))).toEqual(denied);
    });

    it('that is copied leaves its lock where it is', async () => {
      const { Key } = await made({
        ...{ ObjectLockMode: 'COMPLIANCE', ObjectLockRetainUntilDate: later },
        ObjectLockLegalHoldStatus: 'ON',
      });
      const none = { code: 'NoSuchObjectLockConfiguration', status: 404 };
      const copy = { Bucket, Key: newName('copy') };
      const CopySource = `${Bucket}/${Key}`;
      await client.send(new CopyObjectCommand({ ...copy, CopySource }));
      expect(await refusalOf(retentionOf(copy))).toEqual(none);
      expect(await refusalOf(holdOf(copy))).toEqual(none);
      const lock = { ObjectLockMode: 'GOVERNANCE', ObjectLockRetainUntilDate: latest } as const;
      await client.send(new CopyObjectCommand({ ...copy, CopySource, ...lock }));
      expect(await retentionOf(copy)).toEqual({ Mode: 'GOVERNANCE', RetainUntilDate: latest });
    });
  });

  describe('a retention', () => {
    it('is put on the newest version, or on the one that is named', async () => {
      const older = await made();
      const { Key } = older;
      const newer = { ...older, VersionId: (await put({ Key })).VersionId };
      await retain({ Bucket, Key }, 'GOVERNANCE');
      const none = { code: 'NoSuchObjectLockConfiguration', status: 404 };
      expect(await refusalOf(retentionOf(older))).toEqual(none);
      expect(await retentionOf(newer)).toMatchObject({ Mode: 'GOVERNANCE' });
      await retain(older, 'COMPLIANCE', latest);
      expect(await retentionOf(older)).toEqual({ Mode: 'COMPLIANCE', RetainUntilDate: latest });
      expect(await retentionOf(newer)).toMatchObject({ Mode: 'GOVERNANCE' });
    });

    it('of governance is lengthened by who may set it, else changed by bypassing it', async () => {
      const place = await locked('GOVERNANCE');
      await retain(place, 'GOVERNANCE', latest);
      expect(await refusalOf(retain(place, 'GOVERNANCE', later))).toEqual(denied);
      expect(await refusalOf(retain(place, 'COMPLIANCE', latest))).toEqual(denied);
      expect(await refusalOf(retain(place, undefined))).toEqual(denied);
      expect(await retentionOf(place)).toEqual({ Mode: 'GOVERNANCE', RetainUntilDate: latest });
      await retain(place, 'GOVERNANCE', later, true);
      await retain(place, undefined, later, true);
      expect(await refusalOf(retentionOf(place))).toMatchObject({ status: 404 });
      await remove(place);
    });

    it('of compliance is lengthened, and nothing else', async () => {
      const place = await locked('COMPLIANCE');
      for (const bypass of [false, true]) {
        for (const mode of ['GOVERNANCE', undefined] as const) {
          expect(await refusalOf(retain(place, mode, latest, bypass))).toEqual(denied);
        }
        const shorter = new Date(later.getTime() - 1000);
        expect(await refusalOf(retain(place, 'COMPLIANCE', shorter, bypass))).toEqual(denied);
      }
      await retain(place, 'COMPLIANCE', latest);
      expect(await retentionOf(place)).toEqual({ Mode: 'COMPLIANCE', RetainUntilDate: latest });
    });

    it('that is over holds nothing any more', async () => {
      const soon = new Date(Date.now() + 1500);
      const place = await locked('COMPLIANCE', soon);
      expect(await refusalOf(remove(place))).toEqual(denied);
      await expect.poll(() => Date.now()).toBeGreaterThan(soon.getTime());
      await remove(place);
    });

    it.each([
      [
        'of another mode',
        '<Mode>governance</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate>',
        'MalformedXML',
      ],
      ['without a date', '<Mode>GOVERNANCE</Mode>', 'MalformedXML'],
      ['without a mode', '<RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate>', 'MalformedXML'],
      [
        'until no date',
        '<Mode>GOVERNANCE</Mode><RetainUntilDate>soon</RetainUntilDate>',
        'MalformedXML',
      ],
      [
        'that is over',
        '<Mode>GOVERNANCE</Mode><RetainUntilDate>2001-01-01T00:00:00Z</RetainUntilDate>',
        'InvalidArgument',
      ],
    ])('%s is refused', async (_title, content, code) => {
      const { Key } = await made();
      const answer = await putXml(
        `/${Bucket}/${Key}`,
        'retention',
        `<Retention>${content}</Retention>`,
      );
      expect([answer.status, answer.code]).toEqual([400, code]);
    });

    it('needs a bucket with object lock, and a version', async () => {
      const there = { Bucket: plain, Key: 'k' };
      expect(await refusalOf(retain(there, 'GOVERNANCE'))).toEqual(lockless);
      expect(await refusalOf(retentionOf(there))).toEqual(lockless);
      expect(await refusalOf(hold(there, 'ON'))).toEqual(lockless);
      expect(await refusalOf(holdOf(there))).toEqual(lockless);
      const missing = { Bucket, Key: 'missing' };
      const noKey = { code: 'NoSuchKey', status: 404 };
      expect(await refusalOf(retain(missing, 'GOVERNANCE'))).toEqual(noKey);
      expect(await refusalOf(holdOf(missing))).toEqual(noKey);
      const { Key } = await made();
      const { VersionId } = await client.send(new DeleteObjectCommand({ Bucket, Key }));
      const marker = { Bucket, Key, VersionId };
      const notAllowed = { code: 'MethodNotAllowed', status: 405 };
      expect(await refusalOf(retain(marker, 'GOVERNANCE'))).toEqual(notAllowed);
      expect(await refusalOf(hold(marker, 'ON'))).toEqual(notAllowed);
    });
  });

  it('a retention that is over is given back as S3 writes times', async () => {
    const { Key } = await made();
    for (const [date, shown] of [
      ['2020-01-01T00:00:00Z', 'Tue Dec 31 16:00:00 PST 2019'],
      ['2021-07-04T08:09:10Z', 'Sun Jul 04 01:09:10 PDT 2021'],
    ]) {
      const until = `<RetainUntilDate>${date}</RetainUntilDate>`;
      const body = `<Retention><Mode>GOVERNANCE</Mode>${until}</Retention>`;
      const { code, text } = await putXml(`/${Bucket}/${Key}`, 'retention', body);
      expect([code, elementOf(text, 'ArgumentValue')]).toEqual(['InvalidArgument', shown]);
    }
  });

  describe('a legal hold', () => {
    it('of another word is refused', async () => {
      const { Key } = await made();
      const holds = ['<Status>on</Status>', ''].map((one) => `<LegalHold>${one}</LegalHold>`);
      for (const body of [...holds, '']) {
        const answer = await putXml(`/${Bucket}/${Key}`, 'legal-hold', body);
        expect([answer.status, answer.code]).toEqual([400, malformed.code]);
      }
    });
  });

  describe('the headers of a write', () => {
    const mode = 'x-amz-object-lock-mode';
    const until = 'x-amz-object-lock-retain-until-date';
    const date = '2099-01-01T00:00:00Z';
    it.each<[string, Record<string, string>]>([
      ['a mode alone', { [mode]: 'GOVERNANCE' }],
      ['a date alone', { [until]: date }],
      ['another mode', { [mode]: 'governance', [until]: date }],
      ['a date that is none', { [mode]: 'GOVERNANCE', [until]: '2099' }],
      ['a date that is past', { [mode]: 'GOVERNANCE', [until]: '2001-01-01T00:00:00Z' }],
      ['a hold of another word', { 'x-amz-object-lock-legal-hold': 'on' }],
    ])('that give %s are refused, and nothing is written', async (_title, headers) => {
      const path = `/${Bucket}/${newName('refused')}`;
      const answer = await send(target, { method: 'PUT', path, headers, body: 'x' });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
      expect((await send(target, { method: 'HEAD', path })).status).toBe(404);
    });

    it('lock what comes as a form too, under its policy', async () => {
      const Key = newName('form');
      const md5 = createHash('md5').update('kept').digest('base64');
      const fields: [string, string][] = [
        ['key', Key],
        ['Content-MD5', md5],
        [mode, 'GOVERNANCE'],
        [until, date],
        ['x-amz-object-lock-legal-hold', 'ON'],
      ];
      const conditions = [
        { bucket: Bucket },
        ...fields.map(([name, value]) => ({ [name]: value })),
      ];
      const signed = signPolicy(target.keys, conditions);
      const posted = await postForm(
        target,
        Bucket,
        formBody([...fields, ...signed], { content: 'kept' }),
      );
      expect([posted.status, posted.text]).toEqual([204, '']);
      expect(await retentionOf({ Bucket, Key })).toEqual({
        ...{ Mode: 'GOVERNANCE', RetainUntilDate: new Date(date) },
      });
      expect(await holdOf({ Bucket, Key })).toBe('ON');
    });

    it('are refused where there is no object lock', async () => {
      const more = { Bucket: plain, ObjectLockLegalHoldStatus: 'OFF' } as const;
      expect(await refusalOf(put(more))).toEqual(lockless);
    });

    it('need a digest of the body, as does a default', async () => {
      const bucket = await newLocked();
      const path = `/${bucket}/k`;
      const unsigned = { method: 'PUT', path, body: 'x', payload: 'UNSIGNED-PAYLOAD' };
      const headers = { [mode]: 'GOVERNANCE', [until]: date };
      expect((await send(target, unsigned)).status).toBe(200);
      expect((await send(target, { ...unsigned, headers })).code).toBe('InvalidRequest');
      const md5 = { 'content-md5': 'nd1KKVeZ/Ws+Cg2AkFTd0w==' };
      const wrong = await send(target, { ...unsigned, headers: { ...headers, ...md5 } });
      expect(wrong.code).toBe('BadDigest');
      await configure(bucket, { DefaultRetention: { Mode: 'GOVERNANCE', Days: 1 } });
      expect((await send(target, unsigned)).code).toBe('InvalidRequest');
    });
  });

  describe('a right to object lock', () => {
    it('is one of its own, to set, to see and to bypass', async () => {
      const bucket = await newLocked();
      const name = newName('writer');
      const writer = clientOf(as(target, await newPrincipal(target, { name })));
      const grants = '/_/v1/tenants/default/grants';
      const give = (actions: string[]) =>
        callNative(target, 'PUT', `${grants}/${name}`, {
          ...{ effect: 'allow', subjects: [`principal:default/${name}`], bucket, actions },
        });
      const write = [
        's3:PutObject',
        's3:GetObject',
        's3:GetObjectVersion',
        's3:DeleteObjectVersion',
      ];
      await give(write);
      const key = { Bucket: bucket, Key: 'k' };
      const lock = { ObjectLockMode: 'GOVERNANCE', ObjectLockRetainUntilDate: later } as const;
      const held = { ObjectLockLegalHoldStatus: 'ON' } as const;
      const putBy = (more: object) =>
        writer.send(new PutObjectCommand({ ...key, Body: 'x', ...more }));
      expect(await refusalOf(putBy(lock))).toEqual(denied);
      expect(await refusalOf(putBy(held))).toEqual(denied);
      await give([...write, 's3:PutObjectRetention']);
      const { VersionId } = await putBy(lock);
      expect(await refusalOf(putBy({ ...lock, ...held }))).toEqual(denied);
      const head = () => writer.send(new HeadObjectCommand(key));
      expect((await head()).ObjectLockMode).toBeUndefined();
      expect(await refusalOf(writer.send(new GetObjectRetentionCommand(key)))).toEqual(denied);
      const removal = { ...key, VersionId, BypassGovernanceRetention: true };
      expect(await refusalOf(writer.send(new DeleteObjectCommand(removal)))).toEqual(denied);
      await give([...write, 's3:GetObjectRetention', 's3:BypassGovernanceRetention']);
      expect((await head()).ObjectLockMode).toBe('GOVERNANCE');
      const plainly = { ...key, VersionId };
      expect(await refusalOf(writer.send(new DeleteObjectCommand(plainly)))).toEqual(denied);
      await writer.send(new DeleteObjectCommand(removal));
    });

    it('can be bounded by a policy, in headers and in documents', async () => {
      const bucket = await newLocked();
      const rule = {
        ...{ Effect: 'Deny', Principal: '*', Resource: `arn:aws:s3:::${bucket}/*` },
        Action: ['s3:PutObject', 's3:PutObjectRetention'],
        Condition: { NumericGreaterThan: { 's3:object-lock-remaining-retention-days': '10' } },
      };
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [rule] });
      await client.send(new PutBucketPolicyCommand({ Bucket: bucket, Policy }));
      const ahead = (days: number) => new Date(Date.now() + days * dayMs);
      const write = (days: number) =>
        made({
          ...{ Bucket: bucket, ObjectLockMode: 'GOVERNANCE' },
          ObjectLockRetainUntilDate: ahead(days),
        });
      expect(await refusalOf(write(11))).toEqual(denied);
      const place = await write(9);
      expect(await refusalOf(retain(place, 'GOVERNANCE', ahead(11)))).toEqual(denied);
      await retain(place, 'GOVERNANCE', ahead(10));
    });
  });
}
