// Limits of writers on a served gateway: what somebody wrote counts for them, whoever owns the
// bucket and whatever becomes of it; nothing is let in beyond the last byte; and what another does
// in their name is let in only where it fits them.
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  ListObjectVersionsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  clientOf,
  exchange,
  findRecords,
  newBucket,
  newName,
  newPrincipal,
  refusalOf,
  send,
  signMessage,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';

const much = 1_000_000_000;

let target: Target;
let owner: S3Client;
let Bucket: string;
let alice: Person;
let bob: Person;

interface Person {
  id: string;
  target: Target;
  client: S3Client;
}

beforeAll(async () => {
  target = await startEmbeddedTarget();
  owner = clientOf(target);
});
afterAll(async () => {
  for (const client of [owner, alice?.client, bob?.client]) client?.destroy();
  await target?.stop();
});
beforeEach(async () => {
  Bucket = await newBucket(owner);
  [alice, bob] = [await newPerson(), await newPerson()];
});

/** A member who may do everything with objects of the bucket. */
async function newPerson(): Promise<Person> {
  const name = newName('person');
  const theirs = as(target, await newPrincipal(target, { name }));
  await callNative(target, 'PUT', `/_/v1/tenants/default/grants/${name}`, {
    ...{ effect: 'allow', actions: ['s3:*'], bucket: Bucket },
    subjects: [`principal:default/${name}`],
  });
  return { id: `default/${name}`, target: theirs, client: clientOf(theirs) };
}

const everywhere = ({ id }: Person) => `writer:${id}`;
const here = ({ id }: Person) => `writer:default/${Bucket}/${id}`;
const limit = (account: string, limits: object | null) => putLimits(target, account, limits);

async function used(account: string) {
  const { headers } = signMessage(target, { method: 'GET', path: `/_/v1/usage/${account}` });
  const path = `/_/v1/usage/${encodeURIComponent(account)}`;
  const answer = await exchange(target, 'GET', path, headers);
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return JSON.parse(answer.text);
}

async function stored(account: string) {
  const { storedBytes, storedObjects } = await used(account);
  return { storedBytes, storedObjects };
}

const put = ({ client }: Pick<Person, 'client'>, Key: string, bytes: number) =>
  client.send(new PutObjectCommand({ Bucket, Key, Body: Buffer.alloc(bytes, 7) }));
const remove = (Key: string) => owner.send(new DeleteObjectCommand({ Bucket, Key }));

const rename = (by: Person, from: string, to: string) =>
  send(by.target, {
    method: 'PUT',
    path: `/${Bucket}/${to}`,
    query: [['renameObject', '']],
    headers: { 'x-amz-rename-source': `/${Bucket}/${from}` },
  });

/** What is counted now is what counting anew finds. */
async function expectCounted(account: string): Promise<void> {
  const before = await stored(account);
  await limit(account, null);
  expect(await stored(account)).toEqual({ storedBytes: 0, storedObjects: 0 });
  await limit(account, { storedBytes: { total: much } });
  expect(await stored(account)).toEqual(before);
}

async function begin(by: Person, Key: string): Promise<string> {
  const { UploadId } = await by.client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  return UploadId as string;
}

async function sendPart(by: Person, upload: { Key: string; UploadId: string }, bytes: number) {
  const part = { Bucket, ...upload, PartNumber: 1, Body: Buffer.alloc(bytes, 1) };
  const { ETag } = await by.client.send(new UploadPartCommand(part));
  return [{ PartNumber: 1, ETag }];
}

describe('what a principal writes', () => {
  it('counts for it in the buckets of others, with what was there before', async () => {
    await put(alice, 'a1', 100);
    await put({ client: owner }, 'owners', 1000);
    await limit(everywhere(alice), { storedBytes: { total: 200 } });
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 100, storedObjects: 1 });
    expect((await refusalOf(put(alice, 'a2', 101))).code).toBe('QuotaExceeded');
    await put(alice, 'a2', 100);
    expect((await refusalOf(put(alice, 'a3', 1))).code).toBe('QuotaExceeded');
    await put(bob, 'b', 5000);
    await put({ client: owner }, 'owners', 2000);
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 200, storedObjects: 2 });
    await expectCounted(everywhere(alice));
  });

  it('makes room when it is deleted or overwritten, by whomever', async () => {
    await limit(everywhere(alice), { storedObjects: { total: 2 } });
    await put(alice, 'a1', 10);
    await put(alice, 'a2', 10);
    expect((await refusalOf(put(alice, 'a3', 1))).code).toBe('QuotaExceeded');
    await remove('a1');
    await put(bob, 'a2', 10);
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 0, storedObjects: 0 });
    await put(alice, 'a3', 1);
    await expectCounted(everywhere(alice));
  });

  it('is limited in one bucket, and goes on in others', async () => {
    await limit(here(alice), { storedBytes: { total: 10 } });
    expect((await refusalOf(put(alice, 'a', 11))).code).toBe('QuotaExceeded');
    await put(alice, 'a', 10);
    const other = await newBucket(alice.client);
    const elsewhere = { Bucket: other, Key: 'a', Body: Buffer.alloc(1000) };
    await alice.client.send(new PutObjectCommand(elsewhere));
    expect(await stored(here(alice))).toEqual({ storedBytes: 10, storedObjects: 1 });
    await limit(everywhere(alice), { storedBytes: { total: much } });
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 1010, storedObjects: 2 });
    await expectCounted(everywhere(alice));
    await expectCounted(here(alice));
  });

  it('stays theirs when its bucket gets another owner', async () => {
    const mine = await newBucket(alice.client);
    const object = { Bucket: mine, Key: 'a', Body: Buffer.alloc(30) };
    await alice.client.send(new PutObjectCommand(object));
    const name = bob.id.replace('default/', '');
    const path = `/_/v1/tenants/default/buckets/${mine}/owner`;
    await callNative(target, 'PUT', path, { owner: name });
    for (const person of [alice, bob]) await limit(everywhere(person), { requests: { day: 99 } });
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 30, storedObjects: 1 });
    expect(await stored(everywhere(bob))).toEqual({ storedBytes: 0, storedObjects: 0 });
    await expectCounted(everywhere(alice));
  });

  it('is what the requests cost by which they write, and not what they read', async () => {
    await limit(everywhere(alice), { requests: { total: 3 }, ingressBytes: { total: 100 } });
    await put(alice, 'a', 60);
    await send(alice.target, { method: 'GET', path: `/${Bucket}/a` });
    await send(alice.target, { method: 'HEAD', path: `/${Bucket}/a` });
    expect(await used(everywhere(alice))).toMatchObject({ requests: 1, ingressBytes: 60 });
    expect((await refusalOf(put(alice, 'b', 41))).code).toBe('QuotaExceeded');
    await limit(everywhere(alice), { spend: { total: '0.000001' } });
    expect((await refusalOf(put(alice, 'b', 1))).code).toBe('QuotaExceeded');
    await send(alice.target, { method: 'GET', path: `/${Bucket}/a` });
    const { spend } = await used(everywhere(alice));
    expect(Number(spend)).toBeGreaterThan(0);
  });

  it('is in the records, and broken down by writer', async () => {
    await limit(here(alice), { storedBytes: { total: much } });
    await put(alice, 'told', 10);
    await put(bob, 'told', 4);
    const records = await findRecords(target, [['bucket', Bucket]]);
    const told = records.flatMap(({ limited = [] }) => limited);
    const bytes = told.filter(({ account }) => account === here(alice));
    expect(bytes.map(({ storedBytes, charged }) => [storedBytes, charged])).toEqual([
      [10, true],
      [-10, false],
    ]);
    const path = `/_/v1/usage/bucket:default/${Bucket}/by/writer`;
    const { headers } = signMessage(target, { method: 'GET', path });
    const encoded = path.replace(`bucket:default/${Bucket}`, encodeURIComponent);
    const { text } = await exchange(target, 'GET', encoded, headers);
    expect(JSON.parse(text).rows).toEqual([
      expect.objectContaining({ name: alice.id, requests: 1, storedBytes: 0 }),
    ]);
  });
});

describe('what is done in the name of a writer', () => {
  it('has to fit them: parts and the object of an upload that they began', async () => {
    await limit(everywhere(alice), { storedBytes: { total: 100 }, storedObjects: { total: 1 } });
    const Key = 'big';
    const UploadId = await begin(alice, Key);
    expect((await refusalOf(sendPart(bob, { Key, UploadId }, 101))).code).toBe('QuotaExceeded');
    const Parts = await sendPart(bob, { Key, UploadId }, 100);
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 100, storedObjects: 0 });
    await put({ client: owner }, 'owners', 10);
    const CompleteMultipart = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
    await bob.client.send(new CompleteMultipartUploadCommand(CompleteMultipart));
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 100, storedObjects: 1 });
    const another = await begin(alice, 'another');
    const of = { Key: 'another', UploadId: another };
    await remove(Key);
    await sendPart(bob, of, 7);
    await expectCounted(everywhere(alice));
    await alice.client.send(new AbortMultipartUploadCommand({ Bucket, ...of }));
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 0, storedObjects: 0 });
  });

  it('has to fit them: an upload that is given to them, with the parts that it has', async () => {
    const Key = 'given';
    const UploadId = await begin(bob, Key);
    await sendPart(bob, { Key, UploadId }, 100);
    await limit(everywhere(bob), { storedBytes: { total: much } });
    await limit(everywhere(alice), { storedBytes: { total: 200 }, requests: { total: 0 } });
    await limit(here(alice), { storedBytes: { total: 99 } });
    const name = ({ id }: Person) => id.slice('default/'.length);
    const give = async () => {
      const path = `/_/v1/tenants/default/buckets/${Bucket}/uploads/${UploadId}/initiator`;
      const body = { initiator: name(alice), from: name(bob) };
      return callNative(target, 'PUT', path, body);
    };
    await expect(give()).rejects.toThrow(`403 {"type":"urn:bursar:error:QuotaExceeded"`);
    await expect(give()).rejects.toThrow(here(alice));
    expect(await stored(everywhere(bob))).toEqual({ storedBytes: 100, storedObjects: 0 });
    // What is reserved is what is stored: nobody's requests or money.
    await limit(here(alice), { storedBytes: { total: 100 } });
    await give();
    expect(await stored(everywhere(bob))).toEqual({ storedBytes: 0, storedObjects: 0 });
    for (const account of [everywhere(alice), here(alice)]) {
      expect(await stored(account)).toEqual({ storedBytes: 100, storedObjects: 0 });
      await expectCounted(account);
    }
  });

  it('has to fit them: of uploads given at once, those alone that there is room for', async () => {
    const uploads = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const [Key, UploadId] = [`at-once-${i}`, await begin(bob, `at-once-${i}`)];
        await sendPart(bob, { Key, UploadId }, 60);
        return UploadId;
      }),
    );
    const name = ({ id }: Person) => id.slice('default/'.length);
    // Several come in one commit.
    const give = (ids: readonly string[]) =>
      Promise.all(
        ids.map(async (id) => {
          const path = `/_/v1/tenants/default/buckets/${Bucket}/uploads/${id}/initiator`;
          const body = JSON.stringify({ initiator: name(alice), from: name(bob) });
          const headers = { 'content-type': 'application/json' };
          const { status, text } = await send(target, { method: 'PUT', path, headers, body });
          return status < 300 ? 'given' : JSON.parse(text).code;
        }),
      );
    await limit(here(alice), { storedBytes: { total: 100 } });
    expect((await give(uploads.slice(0, 2))).toSorted()).toEqual(['QuotaExceeded', 'given']);
    expect((await stored(here(alice))).storedBytes).toBe(60);
    await limit(here(alice), { storedBytes: { total: 299 } });
    const given = await give(uploads.slice(2));
    expect(given.filter((one) => one === 'given')).toHaveLength(3);
    expect(given.filter((one) => one === 'QuotaExceeded')).toHaveLength(7);
    expect((await stored(here(alice))).storedBytes).toBe(240);
    await expectCounted(here(alice));
  });

  it('has to fit them: a rename that leaves a version behind', async () => {
    const VersioningConfiguration = { Status: 'Enabled' } as const;
    await owner.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
    await put(alice, 'a', 60);
    await limit(everywhere(alice), { storedBytes: { total: 100 } });
    expect((await rename(bob, 'a', 'b')).status).toBe(403);
    await limit(everywhere(alice), { storedBytes: { total: 120 } });
    expect((await rename(bob, 'a', 'b')).status).toBe(200);
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 120, storedObjects: 2 });
    await limit(everywhere(bob), { storedBytes: { total: much } });
    expect(await stored(everywhere(bob))).toEqual({ storedBytes: 0, storedObjects: 0 });
    await expectCounted(everywhere(alice));
  });

  it('is a copy of whoever copies', async () => {
    await limit(everywhere(alice), { storedBytes: { total: much } });
    await limit(everywhere(bob), { storedBytes: { total: 50 } });
    await put(alice, 'a', 60);
    const CopySource = `${Bucket}/a`;
    const copy = () => bob.client.send(new CopyObjectCommand({ Bucket, Key: 'c', CopySource }));
    expect((await refusalOf(copy())).code).toBe('QuotaExceeded');
    await limit(everywhere(bob), { storedBytes: { total: 60 } });
    await copy();
    expect(await stored(everywhere(bob))).toEqual({ storedBytes: 60, storedObjects: 1 });
    expect(await stored(everywhere(alice))).toEqual({ storedBytes: 60, storedObjects: 1 });
  });

  it('is exact through versions, snapshots, tags and deletions', async () => {
    await put(alice, 'a', 5);
    await limit(here(alice), { storedBytes: { total: much } });
    const VersioningConfiguration = { Status: 'Enabled' } as const;
    await owner.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
    await put(alice, 'a', 20);
    await put(bob, 'a', 30);
    const snapshot = `/_/v1/tenants/default/buckets/${Bucket}/snapshots/one`;
    await callNative(target, 'PUT', snapshot, {});
    const Tagging = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>';
    await send(target, {
      method: 'PUT',
      path: `/${Bucket}/a`,
      query: [['tagging', '']],
      body: Tagging,
    });
    await put(alice, 'c', 7);
    await remove('a');
    expect(await stored(here(alice))).toEqual({ storedBytes: 32, storedObjects: 3 });
    await expectCounted(here(alice));
    const { Versions = [], DeleteMarkers = [] } = await owner.send(
      new ListObjectVersionsCommand({ Bucket }),
    );
    const Objects = [...Versions, ...DeleteMarkers].map(({ Key, VersionId }) => {
      return { Key: Key as string, VersionId: VersionId as string };
    });
    await owner.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    // The snapshot holds what there was when it was made.
    expect(await stored(here(alice))).toEqual({ storedBytes: 25, storedObjects: 0 });
    await expectCounted(here(alice));
  });
});

describe('a limit of a writer', () => {
  it('is warned about where it binds nothing', async () => {
    await limit(everywhere(alice), { storedBytes: { total: 50 }, requests: { day: 9 } });
    const wanted = { storedBytes: { total: 50 }, requests: { day: 8 }, egressBytes: { day: 1 } };
    expect((await answerOf(here(alice), wanted)).warnings).toEqual([
      expect.stringMatching(/on egressBytes binds nothing: writers are counted what they write/),
      expect.stringContaining(`that of ${everywhere(alice)} is not above it`),
    ]);
    const owned = await answerOf(`principal:${alice.id}`, { storedBytes: { total: 5 } });
    expect(owned.warnings).toEqual([expect.stringContaining(`or ${everywhere(alice)}.`)]);
  });

  it('is seen by who writes, and by nobody beside them without a right to it', async () => {
    await limit(here(alice), { storedBytes: { total: 50 } });
    const path = `/_/v1/limits/${here(alice)}`;
    const encoded = `/_/v1/limits/${encodeURIComponent(here(alice))}`;
    const status = async (person: Person) => {
      const { headers } = signMessage(person.target, { method: 'GET', path });
      return (await exchange(target, 'GET', encoded, headers)).status;
    };
    expect([await status(alice), await status(bob)]).toEqual([200, 404]);
    const { limits } = await callNative(alice.target, 'GET', '/_/v1/limits');
    expect(limits.map(({ account }: { account: string }) => account)).toContain(here(alice));
    const others = await callNative(bob.target, 'GET', '/_/v1/limits');
    expect(others.limits).toEqual([]);
    const nobody = `writer:default/${newName('nobody')}`;
    await expect(answerOf(nobody, { requests: { day: 1 } })).rejects.toThrow('404');
  });
});

/** Sets limits of an account; gives the answer. */
async function answerOf(account: string, limits: object) {
  const path = `/_/v1/limits/${account}`;
  const body = JSON.stringify(limits);
  const type = { 'content-type': 'application/json' };
  const { headers } = signMessage(target, { method: 'PUT', path, headers: type, body });
  const encoded = `/_/v1/limits/${encodeURIComponent(account)}`;
  const { status, text } = await exchange(target, 'PUT', encoded, headers, body);
  if (status >= 300) throw new Error(`${path}: ${status} ${text}`);
  return JSON.parse(text);
}
