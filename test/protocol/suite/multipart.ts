// Multipart uploads: create, upload and copy parts, complete, abort, list.
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  type CreateMultipartUploadCommandInput,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { md5Of, multipartTag } from '../checksums.ts';
import {
  clientOf,
  elementsOf,
  findRecords,
  newBucket,
  newName,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { readObject } from './objects.ts';

export const partBytesMin = 5 * 1024 * 1024;

export interface Upload {
  Bucket: string;
  Key: string;
  UploadId: string;
}

/** Begins an upload. */
export async function begin(
  client: S3Client,
  Bucket: string,
  more: Partial<CreateMultipartUploadCommandInput> = {},
): Promise<Upload> {
  const Key = more.Key ?? newName('upload');
  const { UploadId = '' } = await client.send(
    new CreateMultipartUploadCommand({ Bucket, ...more, Key }),
  );
  return { Bucket, Key, UploadId };
}

/** Uploads a part, and gives what completing asks for. */
export async function putPart(
  client: S3Client,
  upload: Upload,
  PartNumber: number,
  Body: Buffer | string,
): Promise<CompletedPart> {
  const { ETag } = await client.send(new UploadPartCommand({ ...upload, PartNumber, Body }));
  return { PartNumber, ETag };
}

export function complete(client: S3Client, upload: Upload, Parts: CompletedPart[]) {
  return client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } }));
}

type Room = () => { target: Target; client: S3Client; Bucket: string };

export function describeMultipart(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });
  const room = () => ({ target, client, Bucket });
  describeCompleting(room);
  describeRefusals(room);
  describeEnding(room);
  describePartCopies(room);
  describeLists(room);
}

function describeCompleting(room: Room): void {
  describe('a multipart upload', () => {
    it('joins its parts in order of number, whatever the order they came in', async () => {
      const { client, Bucket } = room();
      const Metadata = { kind: 'joined' };
      const upload = await begin(client, Bucket, { ContentType: 'text/x-parts', Metadata });
      const bodies = [patternOf(partBytesMin, 1), patternOf(partBytesMin + 1, 2), patternOf(9, 3)];
      const parts: CompletedPart[] = [];
      for (const number of [7, 2, 5]) {
        const body = bodies[[2, 5, 7].indexOf(number)] as Buffer;
        parts.unshift(await putPart(client, upload, number, body));
      }
      parts.sort((a, b) => (a.PartNumber ?? 0) - (b.PartNumber ?? 0));
      expect(parts.map(({ ETag }) => ETag)).toEqual(bodies.map((body) => `"${md5Of(body)}"`));
      const absent = client.send(new HeadObjectCommand(upload));
      expect(await refusalOf(absent)).toMatchObject({ status: 404 });

      const done = await complete(client, upload, parts);
      expect(done).toMatchObject({
        Bucket,
        Key: upload.Key,
        ETag: `"${multipartTag(bodies)}"`,
      });
      const head = await client.send(new HeadObjectCommand(upload));
      expect(head).toMatchObject({
        ETag: done.ETag,
        ContentLength: 2 * partBytesMin + 10,
        ContentType: 'text/x-parts',
        Metadata,
      });
      const whole = Buffer.concat(bodies);
      expect((await readObject(client, Bucket, upload.Key)).equals(whole)).toBe(true);
    });

    it('uses the last of two parts of one number, and none that was not named', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      await putPart(client, upload, 1, 'first');
      await putPart(client, upload, 2, 'unused');
      const last = await putPart(client, upload, 1, 'last');
      await complete(client, upload, [last]);
      expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('last');
    });

    it('of one small part is whole, and part 10,000 is a part', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const part = await putPart(client, upload, 10_000, 'x');
      await complete(client, upload, [part]);
      expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('x');
    });

    it('completed twice gives the same answer twice', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const part = await putPart(client, upload, 1, 'once');
      const answers = [
        await complete(client, upload, [part]),
        await complete(client, upload, [part]),
      ].map(({ $metadata, ...answer }) => answer);
      expect(answers[1]).toEqual(answers[0]);
      const other = { ...part, ETag: '"0123456789abcdef0123456789abcdef"' };
      expect(await refusalOf(complete(client, upload, [other]))).toMatchObject({ status: 404 });
    });

    it.each([
      ['with no condition', undefined],
      ['where there must be none yet', '*'],
    ])(
      'completed by several at once, %s, makes one object, and all are told and recorded so',
      async (_title, IfNoneMatch) => {
        const { target, client, Bucket } = room();
        for (let i = 0; i < 5; i++) {
          const upload = await begin(client, Bucket);
          const Parts = [await putPart(client, upload, 1, 'together')];
          const asked = { ...upload, MultipartUpload: { Parts }, IfNoneMatch };
          const answers = await Promise.all(
            Array.from({ length: 8 }, () => client.send(new CompleteMultipartUploadCommand(asked))),
          );
          expect(new Set(answers.map(({ ETag }) => ETag)).size).toBe(1);
          const refused = [
            ['bucket', Bucket],
            ['prefix', upload.Key],
            ['status', '404'],
          ] as const;
          expect(await findRecords(target, refused)).toEqual([]);
        }
      },
    );

    it('that races with one of its parts holds the part of before, or is refused', async () => {
      const { client, Bucket } = room();
      for (let i = 0; i < 12; i++) {
        const upload = await begin(client, Bucket);
        const part = await putPart(client, upload, 1, 'before');
        const [done, replaced] = await Promise.allSettled([
          complete(client, upload, [part]),
          putPart(client, upload, 1, 'after'),
        ]);
        expect([done.status, replaced.status].sort()).toEqual(['fulfilled', 'rejected']);
        if (done.status === 'fulfilled') {
          expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('before');
        } else {
          expect(done.reason).toMatchObject({ name: 'InvalidPart' });
        }
      }
    });
  });
}

function describeRefusals(room: Room): void {
  const partsXml = (count: number) => {
    const etag = md5Of(Buffer.from('x'));
    const numbers = Array.from({ length: count }, (_, i) => i + 1);
    const parts = numbers.map(
      (n) => `<Part><PartNumber>${n}</PartNumber><ETag>${etag}</ETag></Part>`,
    );
    return `<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`;
  };

  describe('completing an upload is refused', () => {
    it.each([
      ['of a part that is too small', 'EntityTooSmall', [1, 2], undefined],
      ['with a part that was never uploaded', 'InvalidPart', [1, 3], undefined],
      [
        'with an ETag that is not the part’s',
        'InvalidPart',
        [1],
        '"00000000000000000000000000000000"',
      ],
      ['with parts out of order', 'InvalidPartOrder', [2, 1], undefined],
      ['with a part named twice', 'InvalidPartOrder', [1, 1], undefined],
    ] as const)('%s; the upload stays', async (_title, code, numbers, tag) => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const parts: CompletedPart[] = [];
      for (const number of [1, 2]) parts.push(await putPart(client, upload, number, `${number}`));
      const asked = numbers.map((PartNumber) => ({
        PartNumber,
        ETag: tag ?? parts[PartNumber - 1]?.ETag ?? parts[0]?.ETag,
      }));
      expect(await refusalOf(complete(client, upload, asked))).toEqual({ code, status: 400 });
      const left = await client.send(new ListPartsCommand(upload));
      expect(left.Parts?.map(({ PartNumber }) => PartNumber)).toEqual([1, 2]);
      const absent = client.send(new HeadObjectCommand(upload));
      expect(await refusalOf(absent)).toMatchObject({ status: 404 });
    });

    it.each([
      ['no part', partsXml(0)],
      ['no document', '', 'InvalidRequest'],
      ['10,001 parts', partsXml(10_001)],
      ['another document', '<Complete/>'],
      [
        'a part without a number',
        '<CompleteMultipartUpload><Part><ETag>x</ETag></Part></CompleteMultipartUpload>',
      ],
      [
        'a part without an ETag',
        '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>',
      ],
      [
        'a number that is none',
        '<CompleteMultipartUpload><Part><PartNumber>one</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>',
      ],
    ])('of a list with %s', async (_title, body, code = 'MalformedXML') => {
      const { target, client, Bucket } = room();
      const upload = await begin(client, Bucket);
      await putPart(client, upload, 1, 'x');
      const query = [['uploadId', upload.UploadId]] as const;
      const path = `/${Bucket}/${upload.Key}`;
      const answer = await send(target, { method: 'POST', path, query, body });
      expect([answer.status, answer.code]).toEqual([400, code]);
      expect((await client.send(new ListPartsCommand(upload))).Parts).toHaveLength(1);
    });

    it('of a list with 10,000 parts that are not there, without harm', async () => {
      const { target, client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const query = [['uploadId', upload.UploadId]] as const;
      const path = `/${Bucket}/${upload.Key}`;
      const answer = await send(target, { method: 'POST', path, query, body: partsXml(10_000) });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidPart']);
    });

    it.each(['0', '10001', '-1', 'one', '', '1.0'])('part number "%s"', async (partNumber) => {
      const { target, client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const query = [
        ['partNumber', partNumber],
        ['uploadId', upload.UploadId],
      ] as const;
      const path = `/${Bucket}/${upload.Key}`;
      const answer = await send(target, { method: 'PUT', path, query, body: 'x' });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
    });
  });
}

function describeEnding(room: Room): void {
  describe('an upload that is not there', () => {
    it('after its abort: its parts are gone, and nothing can be done with it', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const part = await putPart(client, upload, 1, 'x');
      const aborted = await client.send(new AbortMultipartUploadCommand(upload));
      expect(aborted.$metadata.httpStatusCode).toBe(204);
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }));
      expect(Uploads.map(({ UploadId }) => UploadId)).not.toContain(upload.UploadId);
      await expectGone(client, upload, part);
    });

    it('of another key, another bucket, or no name at all is NoSuchUpload', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const part = await putPart(client, upload, 1, 'x');
      const other = await newBucket(client);
      await expectGone(client, { ...upload, Key: 'other' }, part);
      await expectGone(client, { ...upload, Bucket: other }, part);
      await expectGone(client, { ...upload, UploadId: '../../etc' }, part);
      await expectGone(client, { ...upload, UploadId: 'x'.repeat(2000) }, part);
      expect((await client.send(new ListPartsCommand(upload))).Parts).toHaveLength(1);
    });

    it('once it is completed takes no part, and cannot be listed or aborted', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const part = await putPart(client, upload, 1, 'done');
      await complete(client, upload, [part]);
      const attempts = [
        () => putPart(client, upload, 2, 'late'),
        () => client.send(new ListPartsCommand(upload)),
        () => client.send(new AbortMultipartUploadCommand(upload)),
      ];
      for (const attempt of attempts) {
        expect(await refusalOf(attempt())).toEqual({ code: 'NoSuchUpload', status: 404 });
      }
      expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('done');
    });
  });
}

async function expectGone(client: S3Client, upload: Upload, part: CompletedPart): Promise<void> {
  const attempts = [
    () => putPart(client, upload, 2, 'x'),
    () => complete(client, upload, [part]),
    () => client.send(new ListPartsCommand(upload)),
    () => client.send(new AbortMultipartUploadCommand(upload)),
  ];
  for (const attempt of attempts) {
    expect(await refusalOf(attempt())).toEqual({ code: 'NoSuchUpload', status: 404 });
  }
}

function describePartCopies(room: Room): void {
  describe('a part that is a copy', () => {
    it('of slices of slices ends before it has more pieces than bytes can need', async () => {
      const { client, Bucket } = room();
      const copyPart = (upload: Upload, PartNumber: number, CopySource: string, range?: string) =>
        client
          .send(
            new UploadPartCopyCommand({
              ...upload,
              PartNumber,
              CopySource,
              ...(range ? { CopySourceRange: range } : {}),
            }),
          )
          .then(({ CopyPartResult }) => ({ PartNumber, ETag: CopyPartResult?.ETag }));
      let source = await begin(client, Bucket);
      let sizeBytes = partBytesMin + 1;
      await complete(client, source, [
        await putPart(client, source, 1, patternOf(partBytesMin, 5)),
        await putPart(client, source, 2, 'x'),
      ]);
      const grow = async () => {
        for (let step = 0; step < 24; step++) {
          const CopySource = `${Bucket}/${source.Key}`;
          const next = await begin(client, Bucket);
          const tail = `bytes=${partBytesMin}-${sizeBytes - 1}`;
          await complete(client, next, [
            await copyPart(next, 1, CopySource),
            await copyPart(next, 2, CopySource, tail),
          ]);
          sizeBytes += sizeBytes - partBytesMin;
          source = next;
        }
      };
      await expect(grow()).rejects.toMatchObject({ name: 'InvalidRequest' });
      // The pieces at its end, which is to read few of them.
      const asked = { Bucket, Key: source.Key, Range: 'bytes=-1000' };
      const { Body, ContentRange } = await client.send(new GetObjectCommand(asked));
      expect(ContentRange).toBe(`bytes ${sizeBytes - 1000}-${sizeBytes - 1}/${sizeBytes}`);
      expect(await Body?.transformToString()).toBe('x'.repeat(1000));
    }, 60_000);

    it('holds its source whole, or the range that was asked for', async () => {
      const { client, Bucket } = room();
      const body = patternOf(partBytesMin + 300_000, 11);
      await client.send(new PutObjectCommand({ Bucket, Key: 'source of parts', Body: body }));
      const upload = await begin(client, Bucket);
      const CopySource = `${Bucket}/source%20of%20parts`;
      const copy = async (PartNumber: number, CopySourceRange?: string) => {
        const { CopyPartResult } = await client.send(
          new UploadPartCopyCommand({ ...upload, PartNumber, CopySource, CopySourceRange }),
        );
        expect(CopyPartResult?.LastModified).toBeInstanceOf(Date);
        return { PartNumber, ETag: CopyPartResult?.ETag };
      };
      const slices = [body, body.subarray(10, partBytesMin + 10), body.subarray(299_999, 300_000)];
      const parts = [
        await copy(1),
        await copy(2, `bytes=10-${partBytesMin + 9}`),
        await copy(3, 'bytes=299999-299999'),
      ];
      expect(parts.map(({ ETag }) => ETag)).toEqual(slices.map((slice) => `"${md5Of(slice)}"`));
      await complete(client, upload, parts);
      const stored = await readObject(client, Bucket, upload.Key);
      expect(stored.equals(Buffer.concat(slices))).toBe(true);
    });

    it.each([
      'bytes=0-9999',
      'bytes=5-4',
      'bytes=4-',
      'bytes=-4',
      '0-4',
      'bytes=0-1,3-4',
      'octets=0-1',
    ])('of the range %s is refused', async (CopySourceRange) => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'short', Body: 'short source' }));
      const upload = await begin(client, Bucket);
      const asked = { ...upload, PartNumber: 1, CopySource: `${Bucket}/short`, CopySourceRange };
      const attempt = client.send(new UploadPartCopyCommand(asked));
      expect(await refusalOf(attempt)).toEqual({ code: 'InvalidArgument', status: 400 });
    });

    it('outlives its source', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'mortal', Body: 'kept' }));
      const upload = await begin(client, Bucket);
      const { CopyPartResult } = await client.send(
        new UploadPartCopyCommand({ ...upload, PartNumber: 1, CopySource: `${Bucket}/mortal` }),
      );
      await client.send(new PutObjectCommand({ Bucket, Key: 'mortal', Body: 'other' }));
      await complete(client, upload, [{ PartNumber: 1, ETag: CopyPartResult?.ETag }]);
      expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('kept');
    });
  });
}

function describeLists(room: Room): void {
  describe('lists of parts and uploads', () => {
    it('parts come in pages, in order of number', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const numbers = [9, 1, 20, 3, 100];
      for (const number of numbers) await putPart(client, upload, number, `part ${number}`);
      const pages: (number | undefined)[][] = [];
      let PartNumberMarker: string | undefined;
      for (let more = true; more; ) {
        const asked = { ...upload, MaxParts: 2, PartNumberMarker };
        const page = await client.send(new ListPartsCommand(asked));
        pages.push((page.Parts ?? []).map(({ PartNumber }) => PartNumber));
        expect(page.MaxParts).toBe(2);
        expect(page.StorageClass).toBe('STANDARD');
        PartNumberMarker = page.NextPartNumberMarker;
        more = page.IsTruncated ?? false;
      }
      expect(pages).toEqual([[1, 3], [9, 20], [100]]);
      const { Parts } = await client.send(new ListPartsCommand({ ...upload, MaxParts: 1 }));
      expect(Parts?.[0]).toMatchObject({ Size: 6, ETag: `"${md5Of(Buffer.from('part 1'))}"` });
    });

    it('uploads come in pages by key and id, several of one key included, and fold', async () => {
      const { client } = room();
      const Bucket = await newBucket(client);
      const begun: Upload[] = [];
      for (const Key of ['k', 'k', 'k', 'a/1', 'a/2', 'z/1', 'b']) {
        begun.push(await begin(client, Bucket, { Key }));
      }
      const sorted = begun.map(({ Key, UploadId }) => `${Key} ${UploadId}`).sort();
      for (const MaxUploads of [1, 2, 3, 1000]) {
        expect(await listUploads(client, { Bucket, MaxUploads })).toEqual(sorted);
        const folded = await listUploads(client, { Bucket, MaxUploads, Delimiter: '/' });
        const flat = sorted.filter((entry) => !entry.includes('/'));
        expect(folded.sort()).toEqual([...flat, 'a/', 'z/'].sort());
      }
      const under = await listUploads(client, { Bucket, MaxUploads: 1, Prefix: 'a/' });
      expect(under).toEqual(sorted.slice(0, 2));
    });

    it('an unfinished upload is in no listing of objects', async () => {
      const { client, target } = room();
      const Bucket = await newBucket(client);
      const upload = await begin(client, Bucket);
      await putPart(client, upload, 1, 'x');
      expect((await client.send(new ListObjectsV2Command({ Bucket }))).KeyCount).toBe(0);
      const query = [['uploads', '']] as const;
      const { text } = await send(target, { method: 'GET', path: `/${Bucket}`, query });
      expect(elementsOf(text, 'UploadId')).toEqual([upload.UploadId]);
    });
  });
}

/** All pages: `key id` of each upload, and the folded prefixes. */
async function listUploads(
  client: S3Client,
  asked: { Bucket: string; MaxUploads: number; Delimiter?: string; Prefix?: string },
): Promise<string[]> {
  const found: string[] = [];
  let markers: { KeyMarker?: string; UploadIdMarker?: string } = {};
  for (;;) {
    const page = await client.send(new ListMultipartUploadsCommand({ ...asked, ...markers }));
    found.push(...(page.Uploads ?? []).map(({ Key, UploadId }) => `${Key} ${UploadId}`));
    found.push(...(page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix ?? ''));
    if (!page.IsTruncated) return found;
    markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
  }
}
