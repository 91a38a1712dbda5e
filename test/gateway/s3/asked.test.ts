// What was decided by a version's tags, when another version comes before it is read.
import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { GrantIndex } from '#bursar/authz/grants/grant-index.js';
import { anonymousIn } from '#bursar/authz/identity.js';
import { sealObject } from '#bursar/catalog/authentic.js';
import { type Bucket, getBucket } from '#bursar/catalog/buckets.js';
import { findNamed, type Version } from '#bursar/catalog/versions.js';
import type { Exchange } from '#bursar/gateway/http/exchange.js';
import { AskedRequest } from '#bursar/gateway/s3/asked.js';
import { getObject } from '#bursar/gateway/s3/operations/get-object.js';
import { parseRequest } from '#bursar/gateway/s3/request.js';
import type { RequestServices } from '#bursar/gateway/services.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import { BucketCache } from '#bursar/state/bucket-cache.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../../ledger/fixture.ts';

const policy = JSON.stringify({
  Version: '2012-10-17',
  Statement: {
    ...{ Effect: 'Allow', Principal: '*', Resource: 'arn:aws:s3:::data/*' },
    Action: ['s3:GetObject', 's3:GetObjectVersion'],
    Condition: { StringEquals: { 's3:ExistingObjectTag/for': 'all' } },
  },
});

let fixture: LedgerFixture;
let bucket: Bucket;

beforeAll(async () => {
  fixture = await openLedger();
  const change = { kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' } as const;
  await fixture.ledger.commit(commitOf(change));
  bucket = { ...((await getBucket(fixture.read, 1)) as Bucket), policy };
});

afterAll(() => fixture.close());

/** Of nobody, who reads the key, of the version that is named. */
function rightsTo(key: string, versionId?: string): AskedRequest {
  const named = versionId === undefined ? '' : `?versionId=${versionId}`;
  const raw = { method: 'GET', url: `/data/${key}${named}`, headers: {}, rawHeaders: [] };
  const buckets = new BucketCache(fixture.read, { index: 0 });
  const about = { id: '0', source: '192.0.2.1', isSecure: false };
  const services = {
    ...catalog(),
    grants: { index: new GrantIndex() },
    buckets,
  } as RequestServices;
  const request = parseRequest(raw as unknown as IncomingMessage, about, []);
  const who = anonymousIn('one');
  const identified = {
    ...{ request, who, refused: null, findOperation: () => getObject },
    renew: async () => who,
  };
  const rights = new AskedRequest(services, {} as Exchange, identified, 0);
  rights.concern(getObject);
  rights.place({ tenant: 'one', name: 'data', bucket });
  return rights;
}

const catalog = () => ({ read: fixture.read, keyring });

/** Puts another version of the key, and gives it as it is read. */
async function put(key: string, tags: readonly (readonly [string, string])[]): Promise<Version> {
  const commit = putOf(key);
  const change = commit.change as Extract<Change, { kind: 'putObject' }>;
  const attributes = JSON.stringify({ tags });
  const object = sealObject(keyring, { ...change.object, attributes });
  const result = await fixture.ledger.commit({ ...commit, change: { ...change, object } });
  expect(result.ok).toBe(true);
  return (await findNamed(catalog(), bucket, { key })) as Version;
}

const open = [['for', 'all']] as const;
const denied = { code: 'AccessDenied' };

it('lets the version be read by whose tags it was decided', async () => {
  const version = await put('same', open);
  const rights = rightsTo('same');
  await rights.authorizeKey('s3:GetObject');
  expect(rights.admitVersion(version)).toBeNull();
});

it('decides anew of one that came meanwhile', async () => {
  await put('other', open);
  const rights = rightsTo('other');
  await rights.authorizeKey('s3:GetObject');
  await expect(rights.admitVersion(await put('other', open))).resolves.toBeUndefined();
  await expect(rights.admitVersion(await put('other', []))).rejects.toMatchObject(denied);
});

it('decides anew of one that lost its tags meanwhile', async () => {
  const version = await put('lost', open);
  const rights = rightsTo('lost');
  await rights.authorizeKey('s3:GetObject');
  const lost = { ...version, attributes: '{}' };
  await expect(rights.admitVersion(lost)).rejects.toMatchObject(denied);
});

it('decides of the version that is named by its own tags', async () => {
  const shut = await put('named', []);
  const shown = await put('named', open);
  const idOf = ({ versionId }: Version): string => versionId as string;
  const refused = rightsTo('named', idOf(shut)).authorizeKey('s3:GetObjectVersion');
  await expect(refused).rejects.toMatchObject(denied);
  const rights = rightsTo('named', idOf(shown));
  await rights.authorizeKey('s3:GetObjectVersion');
  expect(rights.admitVersion(shown)).toBeNull();
  await expect(rights.admitVersion(shut)).rejects.toMatchObject(denied);
});
