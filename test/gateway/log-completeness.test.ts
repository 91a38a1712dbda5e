import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createKeyProof } from '#bursar/authz/tokens/key-proof.js';
import { generatePrivateKey } from '#bursar/authz/tokens/keys.js';
import { operations } from '#bursar/gateway/s3/routes.js';
import { formBody, postForm, signPolicy } from '../protocol/forms.ts';
import {
  type Answer,
  as,
  callNative,
  elementOf,
  exchange,
  type Message,
  newPrincipal,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let target: Target;
/** Of cms, with a bucket `raw`. */
let alice: Target;
/** Of another tenant, and of the same: neither may do anything there. */
let eve: Target;
let bob: Target;
/** What earlier answers said, for later calls. */
const said: Record<string, string> = {};

beforeAll(async () => {
  target = await startEmbeddedTarget();
  for (const name of ['cms', 'atlas']) await callNative(target, 'POST', '/_/v1/tenants', { name });
  alice = as(target, await newPrincipal(target, { tenant: 'cms', name: 'alice' }));
  bob = as(target, await newPrincipal(target, { tenant: 'cms', name: 'bob' }));
  eve = as(target, await newPrincipal(target, { tenant: 'atlas', name: 'eve' }));
  const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
  await send(alice, { method: 'PUT', path: '/locked', headers });
  await send(alice, { method: 'PUT', path: '/locked/k', body: 'kept' });
});

afterAll(() => target?.stop());

interface Call {
  /** Which operation, allowed or refused. */
  title: string;
  answer: Answer;
}

interface Recorded {
  index: number;
  requestId: string;
  action: string;
  status: number;
  error?: string;
}

/** By request: each call has the record of what it was answered with. */
async function expectRecords(calls: readonly Call[]): Promise<Map<string, Recorded>> {
  const found = new Map<string, Recorded>();
  let cursor: string | undefined;
  const readMore = async (): Promise<string[]> => {
    for (;;) {
      const query = [['limit', '1000'] as const, ...(cursor ? [['cursor', cursor] as const] : [])];
      const page = await callNative(target, 'GET', '/_/v1/records', undefined, query);
      for (const record of page.records) found.set(record.requestId, record);
      const last = page.records.at(-1);
      if (last) cursor = String(last.index);
      if (page.next === null) break;
      cursor = page.next;
    }
    return calls.filter(({ answer }) => !found.has(idOf(answer))).map(({ title }) => title);
  };
  await expect.poll(readMore).toEqual([]);
  for (const { title, answer } of calls) {
    const record = found.get(idOf(answer));
    // An answer to HEAD does not say its code.
    const code = answer.status < 400 ? undefined : (codeOf(answer) ?? expect.any(String));
    expect([title, record?.status, record?.error]).toEqual([title, answer.status, code]);
  }
  return found;
}

/** Of the native API only problems tell it; the index of the record does it as well. */
function idOf({ headers }: Answer): string {
  const id = headers['x-amz-request-id'];
  if (id === undefined) throw new Error('an answer without its request id');
  return id;
}

function codeOf({ code, text, headers }: Answer): string | undefined {
  if (code !== undefined) return code;
  return headers['content-type']?.includes('json') ? JSON.parse(text).code : undefined;
}

/** In an order in which each can be done. */
const s3: Record<string, (bucket: string) => Message> = {
  createBucket: (bucket) => ({ method: 'PUT', path: `/${bucket}` }),
  headBucket: (bucket) => ({ method: 'HEAD', path: `/${bucket}` }),
  listBuckets: () => ({ method: 'GET', path: '/' }),
  getBucketLocation: (bucket) => on(bucket, 'location'),
  putPublicAccessBlock: (bucket) => ({
    ...on(bucket, 'publicAccessBlock', 'PUT'),
    body: documentOf('PublicAccessBlockConfiguration', '<BlockPublicAcls>true</BlockPublicAcls>'),
  }),
  getPublicAccessBlock: (bucket) => on(bucket, 'publicAccessBlock'),
  deletePublicAccessBlock: (bucket) => on(bucket, 'publicAccessBlock', 'DELETE'),
  putBucketPolicy: (bucket) => ({ ...on(bucket, 'policy', 'PUT'), body: policyOf(bucket) }),
  getBucketPolicy: (bucket) => on(bucket, 'policy'),
  getBucketPolicyStatus: (bucket) => on(bucket, 'policyStatus'),
  deleteBucketPolicy: (bucket) => on(bucket, 'policy', 'DELETE'),
  putBucketCors: (bucket) => ({ ...on(bucket, 'cors', 'PUT'), body: cors }),
  getBucketCors: (bucket) => on(bucket, 'cors'),
  deleteBucketCors: (bucket) => on(bucket, 'cors', 'DELETE'),
  putBucketLifecycleConfiguration: (bucket) => ({
    ...on(bucket, 'lifecycle', 'PUT'),
    body: lifecycle,
  }),
  getBucketLifecycleConfiguration: (bucket) => on(bucket, 'lifecycle'),
  deleteBucketLifecycle: (bucket) => on(bucket, 'lifecycle', 'DELETE'),
  putBucketTagging: (bucket) => ({ ...on(bucket, 'tagging', 'PUT'), body: tagging }),
  getBucketTagging: (bucket) => on(bucket, 'tagging'),
  deleteBucketTagging: (bucket) => on(bucket, 'tagging', 'DELETE'),
  putBucketAccelerateConfiguration: (bucket) => ({
    ...on(bucket, 'accelerate', 'PUT'),
    body: documentOf('AccelerateConfiguration', '<Status>Enabled</Status>'),
  }),
  getBucketAccelerateConfiguration: (bucket) => on(bucket, 'accelerate'),
  putBucketEncryption: (bucket) => ({
    ...on(bucket, 'encryption', 'PUT'),
    body: documentOf(
      'ServerSideEncryptionConfiguration',
      '<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>' +
        '</ApplyServerSideEncryptionByDefault></Rule>',
    ),
  }),
  getBucketEncryption: (bucket) => on(bucket, 'encryption'),
  deleteBucketEncryption: (bucket) => on(bucket, 'encryption', 'DELETE'),
  getBucketLogging: (bucket) => on(bucket, 'logging'),
  getBucketNotificationConfiguration: (bucket) => on(bucket, 'notification'),
  putBucketInventoryConfiguration: (bucket) => ({
    ...oneOf(bucket, 'inventory'),
    method: 'PUT',
    body: documentOf(
      'InventoryConfiguration',
      '<Id>a</Id><IsEnabled>false</IsEnabled><Destination><S3BucketDestination>' +
        '<Bucket>arn:aws:s3:::lists</Bucket><Format>CSV</Format></S3BucketDestination>' +
        '</Destination><IncludedObjectVersions>Current</IncludedObjectVersions>' +
        '<Schedule><Frequency>Daily</Frequency></Schedule>',
    ),
  }),
  putBucketIntelligentTieringConfiguration: (bucket) => ({
    ...oneOf(bucket, 'intelligent-tiering'),
    method: 'PUT',
    body: documentOf(
      'IntelligentTieringConfiguration',
      '<Id>a</Id><Status>Enabled</Status>' +
        '<Tiering><AccessTier>ARCHIVE_ACCESS</AccessTier><Days>90</Days></Tiering>',
    ),
  }),
  deleteBucketIntelligentTieringConfiguration: (bucket) => ({
    ...oneOf(bucket, 'intelligent-tiering'),
    method: 'DELETE',
  }),
  deleteBucketInventoryConfiguration: (bucket) => ({
    ...oneOf(bucket, 'inventory'),
    method: 'DELETE',
  }),
  putBucketNotificationConfiguration: (bucket) => ({
    ...on(bucket, 'notification', 'PUT'),
    body: documentOf('NotificationConfiguration', ''),
  }),
  getBucketReplication: (bucket) => on(bucket, 'replication'),
  putBucketRequestPayment: (bucket) => ({
    ...on(bucket, 'requestPayment', 'PUT'),
    body: documentOf('RequestPaymentConfiguration', '<Payer>BucketOwner</Payer>'),
  }),
  getBucketRequestPayment: (bucket) => on(bucket, 'requestPayment'),
  putBucketWebsite: (bucket) => ({ ...on(bucket, 'website', 'PUT'), body: website }),
  getBucketWebsite: (bucket) => on(bucket, 'website'),
  deleteBucketWebsite: (bucket) => on(bucket, 'website', 'DELETE'),
  listBucketAnalyticsConfigurations: (bucket) => on(bucket, 'analytics'),
  listBucketIntelligentTieringConfigurations: (bucket) => on(bucket, 'intelligent-tiering'),
  listBucketInventoryConfigurations: (bucket) => on(bucket, 'inventory'),
  listBucketMetricsConfigurations: (bucket) => on(bucket, 'metrics'),
  getBucketAnalyticsConfiguration: (bucket) => oneOf(bucket, 'analytics'),
  getBucketIntelligentTieringConfiguration: (bucket) => oneOf(bucket, 'intelligent-tiering'),
  getBucketInventoryConfiguration: (bucket) => oneOf(bucket, 'inventory'),
  putBucketMetricsConfiguration: (bucket) => ({
    ...oneOf(bucket, 'metrics'),
    method: 'PUT',
    body: documentOf('MetricsConfiguration', '<Id>a</Id>'),
  }),
  deleteBucketMetricsConfiguration: (bucket) => ({ ...oneOf(bucket, 'metrics'), method: 'DELETE' }),
  getBucketMetricsConfiguration: (bucket) => oneOf(bucket, 'metrics'),
  getBucketAcl: (bucket) => on(bucket, 'acl'),
  putBucketOwnershipControls: (bucket) => ({
    ...on(bucket, 'ownershipControls', 'PUT'),
    body: documentOf(
      'OwnershipControls',
      '<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule>',
    ),
  }),
  putBucketAcl: (bucket) => ({
    ...on(bucket, 'acl', 'PUT'),
    headers: { 'x-amz-acl': 'private' },
  }),
  getBucketOwnershipControls: (bucket) => on(bucket, 'ownershipControls'),
  deleteBucketOwnershipControls: (bucket) => on(bucket, 'ownershipControls', 'DELETE'),
  putObject: (bucket) => ({ method: 'PUT', path: `/${bucket}/k`, body: 'body' }),
  getObject: (bucket) => ({ method: 'GET', path: `/${bucket}/k` }),
  headObject: (bucket) => ({ method: 'HEAD', path: `/${bucket}/k` }),
  getObjectAcl: (bucket) => on(`${bucket}/k`, 'acl'),
  putObjectAcl: (bucket) => ({
    ...on(`${bucket}/k`, 'acl', 'PUT'),
    headers: { 'x-amz-acl': 'private' },
  }),
  putObjectRetention: () => ({
    ...on('locked/k', 'retention', 'PUT'),
    body: documentOf(
      'Retention',
      '<Mode>GOVERNANCE</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate>',
    ),
  }),
  getObjectRetention: () => on('locked/k', 'retention'),
  putObjectLegalHold: () => ({
    ...on('locked/k', 'legal-hold', 'PUT'),
    body: documentOf('LegalHold', '<Status>ON</Status>'),
  }),
  getObjectLegalHold: () => on('locked/k', 'legal-hold'),
  putObjectLockConfiguration: () => ({
    ...on('locked', 'object-lock', 'PUT'),
    body: documentOf('ObjectLockConfiguration', '<ObjectLockEnabled>Enabled</ObjectLockEnabled>'),
  }),
  getObjectLockConfiguration: () => on('locked', 'object-lock'),
  getObjectTagging: (bucket) => on(`${bucket}/k`, 'tagging'),
  putObjectTagging: (bucket) => ({ ...on(`${bucket}/k`, 'tagging', 'PUT'), body: tagging }),
  deleteObjectTagging: (bucket) => on(`${bucket}/k`, 'tagging', 'DELETE'),
  getObjectAttributes: (bucket) => ({
    ...on(`${bucket}/k`, 'attributes'),
    headers: { 'x-amz-object-attributes': 'ETag' },
  }),
  restoreObject: (bucket) => ({
    ...on(`${bucket}/k`, 'restore', 'POST'),
    body: documentOf('RestoreRequest', '<Days>1</Days>'),
  }),
  listObjectVersions: (bucket) => on(bucket, 'versions'),
  copyObject: (bucket) => ({
    ...{ method: 'PUT', path: `/${bucket}/copy` },
    headers: { 'x-amz-copy-source': `${bucket}/k` },
  }),
  renameObject: (bucket) => ({
    ...on(`${bucket}/renamed`, 'renameObject', 'PUT'),
    headers: { 'x-amz-rename-source': 'copy' },
  }),
  listObjects: (bucket) => ({ method: 'GET', path: `/${bucket}` }),
  listObjectsV2: (bucket) => ({ ...on(bucket, 'list-type'), query: [['list-type', '2']] }),
  createMultipartUpload: (bucket) => on(`${bucket}/big`, 'uploads', 'POST'),
  listMultipartUploads: (bucket) => on(bucket, 'uploads'),
  uploadPart: (bucket) => ({ method: 'PUT', path: `/${bucket}/big`, query: part(1), body: 'part' }),
  uploadPartCopy: (bucket) => ({
    ...{ method: 'PUT', path: `/${bucket}/big`, query: part(2) },
    headers: { 'x-amz-copy-source': `${bucket}/k` },
  }),
  listParts: (bucket) => ({ method: 'GET', path: `/${bucket}/big`, query: part() }),
  completeMultipartUpload: (bucket) => ({
    ...{ method: 'POST', path: `/${bucket}/big`, query: part() },
    body:
      '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>' +
      `<ETag>${said.etag}</ETag></Part></CompleteMultipartUpload>`,
  }),
  abortMultipartUpload: (bucket) => ({
    ...{ method: 'DELETE', path: `/${bucket}/other` },
    query: [['uploadId', said.other ?? '']],
  }),
  deleteObject: (bucket) => ({ method: 'DELETE', path: `/${bucket}/k` }),
  deleteObjects: (bucket) => ({
    ...on(bucket, 'delete', 'POST'),
    body: '<Delete><Object><Key>renamed</Key></Object><Object><Key>big</Key></Object></Delete>',
  }),
  // Nothing is in it any more that would be kept.
  putBucketVersioning: (bucket) => ({ ...on(bucket, 'versioning', 'PUT'), body: versioning }),
  getBucketVersioning: (bucket) => on(bucket, 'versioning'),
  deleteBucket: (bucket) => ({ method: 'DELETE', path: `/${bucket}` }),
};

function on(path: string, name: string, method = 'GET'): Message {
  return { method, path: `/${path}`, query: [[name, '']] };
}

/** The setting of an id. */
function oneOf(path: string, name: string): Message {
  const message = on(path, name);
  return { ...message, query: [...(message.query ?? []), ['id', 'a']] };
}

function part(number?: number): [string, string][] {
  const upload: [string, string] = ['uploadId', said.upload ?? ''];
  return number === undefined ? [upload] : [['partNumber', String(number)], upload];
}

const cors = documentOf(
  'CORSConfiguration',
  '<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>',
);

const website = documentOf(
  'WebsiteConfiguration',
  '<IndexDocument><Suffix>index.html</Suffix></IndexDocument>',
);

const lifecycle =
  '<LifecycleConfiguration><Rule><ID>r</ID><Filter/><Status>Enabled</Status>' +
  '<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>';

const versioning = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
const tagging = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>';

function documentOf(root: string, content: string): string {
  return `<${root}>${content}</${root}>`;
}

function policyOf(bucket: string): string {
  const Resource = `arn:aws:s3:::${bucket}/public/*`;
  const rule = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource };
  return JSON.stringify({ Version: '2012-10-17', Statement: [rule] });
}

describe('S3', () => {
  it('has each operation that routes lead to in this file', () => {
    const routed = operations.map(({ name }) => name);
    expect(routed.length).toBeGreaterThan(20);
    const called = Object.keys(s3).map((name) => `${name[0]?.toUpperCase()}${name.slice(1)}`);
    expect([...new Set(routed)].sort()).toEqual(called.sort());
  });

  it('leaves a record of each operation, allowed or refused', async () => {
    const calls: Call[] = [];
    for (const [name, messageOf] of Object.entries(s3)) {
      if (name === 'abortMultipartUpload') {
        const begun = await send(alice, on('raw/other', 'uploads', 'POST'));
        said.other = elementOf(begun.text, 'UploadId') ?? '';
      }
      if (name === 'putObject') calls.push(...(await postForms()));
      const message = messageOf('raw');
      const refused = await refuse(name, message);
      calls.push({ title: `${name} refused`, answer: refused });
      const answer = await send(alice, message);
      // A setting that no bucket has is not there for who may read it.
      const isThere = !/^getBucketReplication$|Configuration$/.test(name);
      // What is not in an archive cannot be restored.
      const isRefused = (one: number) =>
        (one === 403 && name === 'restoreObject') ||
        // No class here stands for what follows use.
        (one === 501 && name === 'putBucketIntelligentTieringConfiguration');
      const fits = (one: number) => one < 300 || (one === 404 && !isThere) || isRefused(one);
      expect([name, answer.status]).toEqual([name, expect.toSatisfy(fits)]);
      calls.push({ title: `${name} allowed`, answer });
      if (name === 'createMultipartUpload') said.upload = elementOf(answer.text, 'UploadId') ?? '';
      if (name === 'uploadPart') said.etag = answer.headers.etag?.replaceAll('"', '') ?? '';
      if (message.method !== 'GET' && message.method !== 'HEAD') {
        expect([name, refused.headers['x-bursar-receipt']]).toEqual([name, expect.any(String)]);
        expect([name, answer.headers['x-bursar-receipt']]).toEqual([name, expect.any(String)]);
      }
    }
    await expectRecords(calls);
  });

  it('leaves a record of what is no operation of its own, and of denied lists', async () => {
    await send(alice, { method: 'PUT', path: '/raw' });
    await send(alice, { method: 'PUT', path: '/raw/a/1', body: 'x' });
    await callNative(target, 'PUT', '/_/v1/tenants/cms/grants/some', {
      ...{ effect: 'allow', subjects: ['principal:cms/bob'], actions: ['s3:DeleteObject'] },
      ...{ bucket: 'raw', prefix: 'a/' },
    });
    const list = ['a/1', 'b/1'].map((key) => `<Object><Key>${key}</Key></Object>`).join('');
    const asked = { ...on('raw', 'delete', 'POST'), body: `<Delete>${list}</Delete>` };
    const answer = await send(bob, asked);
    expect(answer.status).toBe(200);
    const { records } = await callNative(target, 'GET', '/_/v1/records', undefined, [
      ['principal', 'cms/bob'],
      ['action', 's3:DeleteObject'],
    ]);
    const ofIt = records.filter(
      ({ requestId }: Recorded) => requestId === answer.headers['x-amz-request-id'],
    );
    expect(ofIt).toHaveLength(2);
    expect(ofIt).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ key: 'a/1', status: 200 }),
        expect.objectContaining({ key: 'b/1', status: 403, error: 'AccessDenied' }),
      ]),
    );
    const odd = await send(alice, { method: 'PATCH', path: '/raw/k' });
    const unknown = await send(alice, on('raw', 'replication', 'PUT'));
    const found = await expectRecords([
      { title: 'PATCH', answer: odd },
      { title: 'PUT replication', answer: unknown },
    ]);
    expect(found.get(idOf(odd))?.action).toBe('s3:Unknown');
  });
});

/** No route leads to a form: it is another way to PutObject. */
async function postForms(): Promise<Call[]> {
  const post = (who: Target): Promise<Answer> => {
    const signed = signPolicy(who.keys, [{ bucket: 'raw' }, { key: 'k' }]);
    return postForm(who, 'raw', formBody([['key', 'k'], ...signed], { content: 'form' }));
  };
  const [refused, answer] = [await post(bob), await post(alice)];
  const receipt = expect.any(String);
  expect([refused.status, refused.headers['x-bursar-receipt']]).toEqual([403, receipt]);
  expect([answer.status, answer.headers['x-bursar-receipt']]).toEqual([204, receipt]);
  return [
    { title: 'PostObject refused', answer: refused },
    { title: 'PostObject allowed', answer },
  ];
}

/** By who may not; where everybody may, for what nobody may. */
async function refuse(name: string, message: Message): Promise<Answer> {
  const refused: Record<string, Message> = {
    createBucket: { ...message, path: '/atlas:raw' },
    listBuckets: { ...message, query: [['max-buckets', 'x']] },
  };
  const answer = await send(bob, refused[name] ?? message);
  expect([name, answer.status]).toEqual([name, expect.toSatisfy((one) => one >= 400)]);
  return answer;
}

interface NativeCall {
  method: string;
  path: string;
  body?: object | undefined;
  /** A refusal of the call is as good: what it needs is not here. */
  mayFail?: true;
  /** Takes from the answer what later calls need. */
  // biome-ignore lint/suspicious/noExplicitAny: JSON is whatever the schema says.
  keep?: (json: any) => void;
}

const cms = '/_/v1/tenants/cms';
const carol = `${cms}/principals/carol`;
const get = (path: string): NativeCall => ({ method: 'GET', path });
const remove = (path: string): NativeCall => ({ method: 'DELETE', path });
const put = (path: string, body: object): NativeCall => ({ method: 'PUT', path, body });
const patch = (path: string, body: object): NativeCall => ({ method: 'PATCH', path, body });
const post = (path: string, body?: object): NativeCall => ({ method: 'POST', path, body });
const grant = { effect: 'allow', subjects: ['principal:cms/carol'], actions: ['s3:GetObject'] };
const hook = { url: 'https://hooks.example.org/bursar' };
const key = generatePrivateKey('EdDSA');
const mapping = { pathPrefix: '/raw', principals: { 1: 'carol' }, groups: {} };

/** In an order in which each can be done, by an operator. */
const native: Record<string, () => NativeCall> = {
  CreateTenant: () => post('/_/v1/tenants', { name: 'lhcb' }),
  ListTenants: () => get('/_/v1/tenants'),
  GetTenant: () => get('/_/v1/tenants/lhcb'),
  UpdateTenant: () => patch('/_/v1/tenants/lhcb', { membersCreateBuckets: false }),
  DeleteTenant: () => remove('/_/v1/tenants/lhcb'),
  CreateGroup: () => post(`${cms}/groups`, { name: 'muons' }),
  ListGroups: () => get(`${cms}/groups`),
  GetGroup: () => get(`${cms}/groups/muons`),
  CreatePrincipal: () => post(`${cms}/principals`, { name: 'carol' }),
  ListPrincipals: () => get(`${cms}/principals`),
  GetPrincipal: () => get(carol),
  UpdatePrincipal: () => patch(carol, { groups: ['muons'] }),
  CreateAccessKey: () => ({
    ...post(`${carol}/access-keys`, {}),
    keep: ({ accessKeyId }) => {
      said.accessKey = accessKeyId;
    },
  }),
  ListAccessKeys: () => get(`${carol}/access-keys`),
  GetAccessKey: () => get(`${carol}/access-keys/${said.accessKey}`),
  UpdateAccessKey: () => patch(`${carol}/access-keys/${said.accessKey}`, { active: false }),
  DeleteAccessKey: () => remove(`${carol}/access-keys/${said.accessKey}`),
  CreatePublicKey: () => {
    const asked = { audience: target.endpoint, principal: 'cms/carol', nowMs: Date.now() };
    const proof = createKeyProof(key, asked);
    return post(`${carol}/public-keys`, { jwk: key.publicKey.jwk, proof });
  },
  ListPublicKeys: () => get(`${carol}/public-keys`),
  GetPublicKey: () => get(`${carol}/public-keys/${key.publicKey.thumbprint}`),
  UpdatePublicKey: () =>
    patch(`${carol}/public-keys/${key.publicKey.thumbprint}`, { active: false }),
  DeletePublicKey: () => remove(`${carol}/public-keys/${key.publicKey.thumbprint}`),
  PutIssuer: () =>
    put(`${cms}/issuers/iam`, { url: 'https://iam.example.org', audience: 'bursar', mapping }),
  GetIssuer: () => get(`${cms}/issuers/iam`),
  ListIssuers: () => get(`${cms}/issuers`),
  DeleteIssuer: () => remove(`${cms}/issuers/iam`),
  CreateClass: () =>
    post(`${cms}/classes`, { name: 'derived', durability: { legs: [{ store: 'local' }] } }),
  GetClass: () => get(`${cms}/classes/derived`),
  ListClasses: () => get(`${cms}/classes`),
  DeleteClass: () => remove(`${cms}/classes/derived`),
  PutGrant: () => put(`${cms}/grants/g`, grant),
  GetGrant: () => get(`${cms}/grants/g`),
  ListGrants: () => get(`${cms}/grants`),
  DeleteGrant: () => remove(`${cms}/grants/g`),
  PutMount: () => put(`${cms}/mounts/mounted`, { bucketTenant: 'atlas', bucket: 'data' }),
  GetMount: () => get(`${cms}/mounts/mounted`),
  ListMounts: () => get(`${cms}/mounts`),
  DeleteMount: () => remove(`${cms}/mounts/mounted`),
  PutOwnMount: () => put(`${carol}/mounts/own`, { bucketTenant: 'atlas', bucket: 'data' }),
  GetOwnMount: () => get(`${carol}/mounts/own`),
  ListOwnMounts: () => get(`${carol}/mounts`),
  ListAliases: () => get(`${cms}/aliases`),
  ListOwnMountsOfTenant: () => get(`${cms}/own-mounts`),
  DeleteOwnMount: () => remove(`${carol}/mounts/own`),
  CreateSnapshot: () => put(`${cms}/buckets/raw/snapshots/s`, {}),
  GetSnapshot: () => get(`${cms}/buckets/raw/snapshots/s`),
  DiffSnapshot: () => get(`${cms}/buckets/raw/snapshots/s/diff`),
  ListSnapshots: () => get(`${cms}/buckets/raw/snapshots`),
  DeleteSnapshot: () => remove(`${cms}/buckets/raw/snapshots/s`),
  GetBucket: () => get(`${cms}/buckets/raw`),
  UpdateBucket: () => patch(`${cms}/buckets/raw`, { recordReads: 'prompt' }),
  ListHoldings: () => get(`${cms}/principals/alice/holdings`),
  TransferUpload: () => ({
    ...put(`${cms}/buckets/raw/uploads/none/initiator`, { initiator: 'nobody', from: 'alice' }),
    mayFail: true,
  }),
  ChangeOwner: () => put(`${cms}/buckets/raw/owner`, { owner: 'alice' }),
  PutUndelete: () => put(`${cms}/buckets/raw/undelete`, { seconds: 3600 }),
  ListLocks: () => get(`${cms}/buckets/raw/locks`),
  ListUses: () => get(`${cms}/buckets/raw/uses`),
  Undelete: () => ({ ...get(`${cms}/buckets/raw/undelete`), mayFail: true }),
  PurgeHeld: () => post(`${cms}/buckets/raw/purges`, { key: 'gone', reason: 'by law' }),
  ListInventories: () => get(`${cms}/buckets/raw/inventories`),
  RunInventory: () => ({ ...post(`${cms}/buckets/raw/inventories/a/run`), mayFail: true }),
  GetRecipe: () => ({ ...get(`${cms}/recipe`), mayFail: true }),
  ListWork: () => get(`${cms}/work`),
  LeaseWork: () => post(`${cms}/work/leases`, {}),
  ListCopies: () => get(`${cms}/copies`),
  RetryCopies: () => ({
    ...put(`${cms}/copies/${'0'.repeat(32)}`, { retry: true }),
    mayFail: true,
  }),
  UpdateWork: () => ({ ...put(`${cms}/work/1`, { retry: true }), mayFail: true }),
  DeleteUndelete: () => remove(`${cms}/buckets/raw/undelete`),
  DeletePrincipal: () => remove(carol),
  DeleteGroup: () => remove(`${cms}/groups/muons`),
  CreateToken: () => ({
    ...post('/_/v1/tokens', { scope: 'storage.read:/first', expiresIn: 3600 }),
    keep: ({ jti }) => {
      said.jti = jti;
    },
  }),
  ListTokens: () => get('/_/v1/tokens'),
  GetToken: () => get(`/_/v1/tokens/${said.jti}`),
  RevokeToken: () => remove(`/_/v1/tokens/${said.jti}`),
  CreateShare: () => ({
    ...post('/_/v1/shares', { bucket: 'first', key: 'k', expiresIn: 3600 }),
    keep: ({ id }) => {
      said.share = id;
    },
  }),
  ListShares: () => get('/_/v1/shares'),
  TransferShare: () => put(`/_/v1/shares/${said.share}/principal`, { principal: 'admin' }),
  RevokeShare: () => remove(`/_/v1/shares/${said.share}`),
  Explain: () => post('/_/v1/explain', { principal: 'cms/alice', action: 'bursar:WhoAmI' }),
  WhoAmI: () => get('/_/v1/whoami'),
  ReadChanges: () => get(`${cms}/changes`),
  SearchRecords: () => get('/_/v1/records'),
  GetRequest: () => ({ ...get('/_/v1/requests/0123456789ABCDEF'), mayFail: true }),
  BeginBundle: () => get(`${cms}/bundle`),
  ReadBundle: () => ({ ...get(`${cms}/bundle/0`), mayFail: true }),
  EraseRecords: () => post(`${cms}/erasures`, { indexes: [Number(said.index)], reason: 'a test' }),
  GetReceipt: () => get('/_/v1/receipts/0'),
  GetLog: () => get('/_/v1/log'),
  ListLogKeys: () => get('/_/v1/log/keys'),
  RotateLogKey: () => post('/_/v1/log/keys/rotations', { overlapSeconds: 60 }),
  RevokeLogKey: () => remove(`/_/v1/log/keys/${said.logKey}`),
  ListUsage: () => get('/_/v1/usage'),
  GetUsage: () => get('/_/v1/usage/tenant:cms'),
  BreakDownUsage: () => get('/_/v1/usage/tenant:cms/by/day'),
  PutLimit: () => put('/_/v1/limits/tenant:cms', { requests: { total: 1_000_000 } }),
  PatchLimit: () => patch('/_/v1/limits/tenant:cms', { requests: { day: 1_000_000 } }),
  GetLimit: () => get('/_/v1/limits/tenant:cms'),
  ListLimits: () => get('/_/v1/limits'),
  ReconcileLimit: () => post('/_/v1/limits/tenant:cms/reconcile'),
  DeleteLimit: () => remove('/_/v1/limits/tenant:cms'),
  VerifyData: () => post('/_/v1/verifications', {}),
  BeginDeepVerification: () => post('/_/v1/deep-verification'),
  GetDeepVerification: () => get('/_/v1/deep-verification'),
  StopDeepVerification: () => remove('/_/v1/deep-verification'),
  ListKeys: () => get('/_/v1/keys'),
  RotateKeys: () => post('/_/v1/keys/rotations'),
  GetClock: () => get('/_/v1/clock'),
  GetHealth: () => get('/_/v1/health'),
  ConfirmClock: () => post('/_/v1/clock/confirmations'),
  ListStores: () => get('/_/v1/stores'),
  DrillStore: () => ({ ...post('/_/v1/stores/local/drills', {}), mayFail: true }),
  ListStoreCosts: () => get('/_/v1/store-costs'),
  ListPriceBooks: () => get('/_/v1/price-books'),
  GetMetrics: () => get('/_/v1/metrics'),
  PutTenantAlarmHook: () => put(`${cms}/alarm-hook`, hook),
  GetTenantAlarmHook: () => get(`${cms}/alarm-hook`),
  TestTenantAlarmHook: () => ({ ...post(`${cms}/alarm-hook/test`), mayFail: true }),
  DeleteTenantAlarmHook: () => remove(`${cms}/alarm-hook`),
  PutOwnAlarmHook: () => put(`${cms}/principals/alice/alarm-hook`, hook),
  GetOwnAlarmHook: () => get(`${cms}/principals/alice/alarm-hook`),
  TestOwnAlarmHook: () => ({
    ...post(`${cms}/principals/alice/alarm-hook/test`),
    mayFail: true,
  }),
  DeleteOwnAlarmHook: () => remove(`${cms}/principals/alice/alarm-hook`),
  PutTarget: () => put(`${cms}/targets/hook`, { kind: 'webhook', ...hook }),
  GetTarget: () => get(`${cms}/targets/hook`),
  ListTargets: () => get(`${cms}/targets`),
  ListDeadLetters: () => get(`${cms}/targets/hook/dead-letters`),
  TestTarget: () => ({ ...post(`${cms}/targets/hook/test`), mayFail: true }),
  ResendToTarget: () => post(`${cms}/targets/hook/resend`, { after: 0 }),
  DeleteTarget: () => remove(`${cms}/targets/hook`),
  PutGatewayAlarmHook: () => put('/_/v1/alarm-hook', hook),
  GetGatewayAlarmHook: () => get('/_/v1/alarm-hook'),
  TestGatewayAlarmHook: () => ({ ...post('/_/v1/alarm-hook/test'), mayFail: true }),
  DeleteGatewayAlarmHook: () => remove('/_/v1/alarm-hook'),
};

function callAs(who: Target, { method, path, body }: NativeCall, query: Message['query'] = []) {
  if (body === undefined) return send(who, { method, path, query });
  const headers = { 'content-type': 'application/json' };
  return send(who, { method, path, query, headers, body: JSON.stringify(body) });
}

/** What an answer gives with which somebody can act. */
function secretsIn(text: string): string[] {
  if (!text.startsWith('{')) return [];
  const { secretAccessKey, token, url, secret } = JSON.parse(text) as Record<string, string>;
  // A share link's is in its URL, behind its id.
  const shared = url?.split('/_/share/')[1]?.split(/[./]/)[1];
  return [secretAccessKey, token, shared, secret].filter((one) => typeof one === 'string');
}

describe('the native API', () => {
  it('has each operation of its description in this file', async () => {
    const { text } = await exchange(target, 'GET', '/_/v1/openapi.json');
    const { paths } = JSON.parse(text) as {
      paths: Record<string, Record<string, { operationId: string }>>;
    };
    const described = Object.values(paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    );
    // This one is a listing, and is recorded as those are: find.test.ts.
    expect(described.sort()).toEqual([...Object.keys(native), 'FindObjects'].sort());
  });

  it('leaves a record of each call, allowed or refused, that its answer names', async () => {
    const own = await send(alice, { method: 'PUT', path: '/raw/k', body: 'shared' });
    said.index = String(own.headers['x-bursar-receipt']);
    await send(eve, { method: 'PUT', path: '/data' });
    await send(target, { method: 'PUT', path: '/first' });
    await send(target, { method: 'PUT', path: '/first/k', body: 'shared' });
    const named: Call[] = [];
    const secrets: string[] = [];
    for (const [name, callOf] of Object.entries(native)) {
      if (name === 'RevokeLogKey') {
        const { keys } = await callNative(target, 'GET', '/_/v1/log/keys');
        said.logKey = keys.at(-1).id;
      }
      const call = callOf();
      let refused = await callAs(eve, call);
      // What everybody may is refused for a parameter that it does not have.
      if (refused.status < 400) refused = await callAs(eve, call, [['unknown', '1']]);
      expect([name, refused.status]).toEqual([name, expect.toSatisfy((one) => one >= 400)]);
      named.push({ title: `${name} refused`, answer: refused });
      const answer = await callAs(target, call);
      if (!call.mayFail && answer.status >= 300) throw new Error(`${name}: ${answer.text}`);
      named.push({ title: `${name} allowed`, answer });
      if (call.keep) call.keep(JSON.parse(answer.text));
      secrets.push(...secretsIn(answer.text));
    }
    const found = new Map<number, Recorded>();
    for (let cursor: string | null = '0'; cursor !== null; ) {
      const query = [
        ['limit', '1000'],
        ['cursor', cursor],
      ] as const;
      const page = await callNative(target, 'GET', '/_/v1/records', undefined, query);
      for (const record of page.records) found.set(record.index, record);
      cursor = page.next;
    }
    for (const { title, answer } of named) {
      const record = found.get(Number(answer.headers['x-bursar-receipt']));
      const error = answer.status < 400 ? undefined : codeOf(answer);
      expect([title, record?.status, record?.error]).toEqual([title, answer.status, error]);
      expect(record?.action).toMatch(/^bursar:[A-Z]\w+$/);
    }
    // Of an access key, a token, a share link and four webhooks.
    expect(secrets).toHaveLength(7);
    const all = JSON.stringify([...found.values()]);
    expect(secrets.filter((secret) => all.includes(secret))).toEqual([]);
  });
});
