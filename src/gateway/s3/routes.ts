// Which operation a request asks for: an ordered table, most particular first. A subresource of
// S3's that is not here yet is named all the same, so that it answers 501 and never something else.
import { Refusal } from '../../core/errors.ts';
import { customerHeaderNames, isStrayKey } from './objects/customer-key.ts';
import { refuseStrayEncryption } from './objects/encryption.ts';
import type { AnyOperation } from './operation.ts';
import { getBucketAcl, getObjectAcl, putBucketAcl, putObjectAcl } from './operations/acl.ts';
import { bucketInventory } from './operations/bucket-inventory.ts';
import { bucketMetrics } from './operations/bucket-metrics.ts';
import { bucketPolicy, getBucketPolicyStatus } from './operations/bucket-policy.ts';
import {
  bucketAccelerate,
  bucketCors,
  bucketEncryption,
  bucketLifecycle,
  bucketNotification,
  bucketTagging,
  bucketWebsite,
  ownershipControls,
  publicAccessBlock,
  requestPayment,
} from './operations/bucket-settings.ts';
import { bucketTiering } from './operations/bucket-tiering.ts';
import { getBucketVersioning, putBucketVersioning } from './operations/bucket-versioning.ts';
import { createBucket, deleteBucket, getBucketLocation, headBucket } from './operations/buckets.ts';
import { completeMultipartUpload } from './operations/complete-multipart-upload.ts';
import { copyObject } from './operations/copy-object.ts';
import { deleteObject, deleteObjects } from './operations/delete-objects.ts';
import { getObject, headObject } from './operations/get-object.ts';
import { getObjectAttributes } from './operations/get-object-attributes.ts';
import { listBuckets } from './operations/list-buckets.ts';
import { listObjects, listObjectsV2, listObjectVersions } from './operations/list-objects.ts';
import {
  abortMultipartUpload,
  createMultipartUpload,
  listMultipartUploads,
  listParts,
} from './operations/multipart-uploads.ts';
import { lockConfiguration, objectLegalHold, objectRetention } from './operations/object-lock.ts';
import { objectTagging } from './operations/object-tagging.ts';
import { putObject } from './operations/put-object.ts';
import { renameObject } from './operations/rename-object.ts';
import { restoreObject } from './operations/restore-object.ts';
import { bucketAnalytics, bucketLogging, bucketReplication } from './operations/unset-settings.ts';
import { uploadPart, uploadPartCopy } from './operations/upload-part.ts';
import type { S3Request } from './request.ts';
import type { Resource } from './stages.ts';

const methods = ['GET', 'HEAD', 'PUT', 'POST', 'DELETE'] as const;

/** What requests name, with the operations that are about such things, by their methods. */
type Row = { query?: readonly string[]; also?: readonly string[] } & (
  | ({ resource: 'service' } & ByMethod<'service'>)
  | ({ resource: 'bucket' } & ByMethod<'bucketName' | 'bucket' | 'listing'>)
  | ({ resource: 'object'; header?: undefined } & ByMethod<'object'>)
  | ({ resource: 'object'; header: 'x-amz-copy-source' } & ByMethod<'copy'>)
);
type ByMethod<R extends Resource> = {
  [method in (typeof methods)[number]]?: AnyOperation & { resource: R };
};

interface Route {
  /** Query parameters that must be present; `name=value` demands the value, `name=*` any. */
  query?: readonly string[];
  /** Query parameters that may be present besides. */
  also?: readonly string[];
  /** A header that must be present. */
  header?: string;
  operation: AnyOperation;
}

const rows: readonly Row[] = [
  { resource: 'service', GET: listBuckets },

  { resource: 'bucket', query: ['acl'], GET: getBucketAcl, PUT: putBucketAcl },
  { resource: 'bucket', query: ['object-lock'], ...lockConfiguration },
  { resource: 'bucket', query: ['ownershipControls'], ...ownershipControls },
  { resource: 'bucket', query: ['publicAccessBlock'], ...publicAccessBlock },
  { resource: 'bucket', query: ['lifecycle'], ...bucketLifecycle },
  { resource: 'bucket', query: ['cors'], ...bucketCors },
  { resource: 'bucket', query: ['location'], GET: getBucketLocation },
  { resource: 'bucket', query: ['policy'], ...bucketPolicy },
  { resource: 'bucket', query: ['policyStatus'], GET: getBucketPolicyStatus },
  { resource: 'bucket', query: ['tagging'], ...bucketTagging },
  {
    resource: 'bucket',
    query: ['versioning'],
    GET: getBucketVersioning,
    PUT: putBucketVersioning,
  },
  { resource: 'bucket', query: ['accelerate'], ...bucketAccelerate },
  { resource: 'bucket', query: ['analytics', 'id=*'], GET: bucketAnalytics.one },
  { resource: 'bucket', query: ['analytics'], GET: bucketAnalytics.list },
  { resource: 'bucket', query: ['encryption'], ...bucketEncryption },
  { resource: 'bucket', query: ['intelligent-tiering', 'id=*'], ...bucketTiering.one },
  { resource: 'bucket', query: ['intelligent-tiering'], ...bucketTiering.list },
  { resource: 'bucket', query: ['inventory', 'id=*'], ...bucketInventory.one },
  { resource: 'bucket', query: ['inventory'], ...bucketInventory.list },
  { resource: 'bucket', query: ['logging'], GET: bucketLogging },
  { resource: 'bucket', query: ['metrics', 'id=*'], ...bucketMetrics.one },
  { resource: 'bucket', query: ['metrics'], ...bucketMetrics.list },
  { resource: 'bucket', query: ['notification'], ...bucketNotification },
  { resource: 'bucket', query: ['replication'], GET: bucketReplication },
  { resource: 'bucket', query: ['requestPayment'], ...requestPayment },
  { resource: 'bucket', query: ['website'], ...bucketWebsite },
  { resource: 'bucket', query: ['uploads'], GET: listMultipartUploads },
  { resource: 'bucket', query: ['versions'], GET: listObjectVersions },
  { resource: 'bucket', query: ['list-type=2'], GET: listObjectsV2 },
  { resource: 'bucket', query: ['delete'], POST: deleteObjects },
  {
    resource: 'bucket',
    GET: listObjects,
    HEAD: headBucket,
    PUT: createBucket,
    DELETE: deleteBucket,
  },

  { resource: 'object', query: ['acl'], GET: getObjectAcl, PUT: putObjectAcl },
  { resource: 'object', query: ['legal-hold'], ...objectLegalHold },
  { resource: 'object', query: ['retention'], ...objectRetention },
  {
    resource: 'object',
    query: ['partNumber', 'uploadId'],
    header: 'x-amz-copy-source',
    PUT: uploadPartCopy,
  },
  { resource: 'object', query: ['partNumber', 'uploadId'], PUT: uploadPart },
  { resource: 'object', query: ['uploads'], POST: createMultipartUpload },
  {
    resource: 'object',
    query: ['uploadId'],
    GET: listParts,
    POST: completeMultipartUpload,
    DELETE: abortMultipartUpload,
  },
  { resource: 'object', query: ['tagging'], ...objectTagging },
  { resource: 'object', query: ['attributes'], GET: getObjectAttributes },
  { resource: 'object', query: ['restore'], POST: restoreObject },
  { resource: 'object', query: ['renameObject'], PUT: renameObject },
  { resource: 'object', also: ['partNumber'], GET: getObject, HEAD: headObject },
  { resource: 'object', header: 'x-amz-copy-source', PUT: copyObject },
  { resource: 'object', PUT: putObject, DELETE: deleteObject },
];

/** By method and resource. */
const routesTo = new Map<string, Route[]>();
for (const { resource, ...row } of rows) {
  for (const method of methods) {
    const operation = row[method];
    const name = `${method} ${resource}`;
    if (operation) routesTo.set(name, [...(routesTo.get(name) ?? []), { ...row, operation }]);
  }
}

/** All that there are. */
export const operations: readonly AnyOperation[] = [...routesTo.values()].flatMap((routes) =>
  routes.map(({ operation }) => operation),
);

/**
 * Query parameters that select an S3 operation: where the route does not name them the answer is
 * 501, so that no DELETE of a part of a bucket ever deletes the bucket. Those that routes name, and
 * those of operations that are not here.
 */
const subresources = new Set([
  ...rows.flatMap(({ query = [], also = [] }) => [...query, ...also]).filter(isBareName),
  ...['abac', 'annotation', 'metadataAnnotationTable', 'metadataConfiguration'],
  ...['metadataInventoryTable', 'metadataJournalTable', 'metadataTable', 'select'],
  ...['session', 'torrent'],
]);

/** A value that a route demands, as of `list-type=2`, makes no subresource of its parameter. */
function isBareName(name: string): boolean {
  return !name.includes('=');
}

/** Query parameters besides these that operations read. */
const otherParameters = new Set([
  'bucket-region',
  'continuation-token',
  'delimiter',
  'encoding-type',
  'fetch-owner',
  'id',
  'key-marker',
  'list-type',
  'marker',
  'max-buckets',
  'max-keys',
  'max-parts',
  'max-uploads',
  'part-number-marker',
  'prefix',
  'response-cache-control',
  'response-content-disposition',
  'response-content-encoding',
  'response-content-language',
  'response-content-type',
  'response-expires',
  'start-after',
  'upload-id-marker',
  'version-id-marker',
  'versionId',
]);

/** Has S3 a query parameter of this name? Whether the route takes it, `findOperation` says. */
export function isRouteParameter(name: string): boolean {
  return subresources.has(name) || otherParameters.has(name);
}

/** Request headers whose meaning is not implemented: ignoring them would be a silent lie. */
const unimplementedHeaders: ReadonlyMap<string, (value: string, request: S3Request) => boolean> =
  new Map<string, (value: string, request: S3Request) => boolean>([
    ['x-amz-server-side-encryption-context', always],
    ['x-amz-if-match-initiated-time', always],
    ['x-amz-if-match-last-modified-time', exceptOfDeletion],
    ['x-amz-if-match-size', exceptOfDeletion],
    ['x-amz-write-offset-bytes', always],
    ['x-amz-mfa', always],
  ]);

const keyHeaders: ReadonlySet<string> = new Set(customerHeaderNames);

/** `name`: in lower case. */
export function isUnimplementedHeader(name: string): boolean {
  return unimplementedHeaders.has(name);
}

/** Throws `Refusal` NotImplemented or MethodNotAllowed. Of headers, see `refuseUnimplemented`. */
export function findOperation(request: S3Request): AnyOperation {
  const resource = resourceOf(request);
  const hasQuery = request.query.length > 0;
  for (const route of routesTo.get(`${request.method} ${resource}`) ?? []) {
    if ((route.query && !hasQuery) || !fits(route, request)) continue;
    if (hasQuery) refuseOthers(request, route);
    return route.operation;
  }
  if (request.method === 'POST') throw refusePost(request, resource);
  const fields = { Method: request.method, ResourceType: resource.toUpperCase() };
  throw new Refusal('MethodNotAllowed', { fields });
}

/** A form without a file's encoding is one that was meant to upload something. */
function refusePost({ headers, query }: S3Request, resource: Row['resource']): Refusal {
  if (resource !== 'bucket' || query.length > 0 || headers['content-type'] === undefined) {
    return new Refusal('NotImplemented');
  }
  const Condition = 'Bucket POST must be of the enclosure-type multipart/form-data';
  return new Refusal('PreconditionFailed', { fields: { Condition } });
}

function resourceOf(request: S3Request): Row['resource'] {
  if (request.bucketName === null) return 'service';
  return request.key === null ? 'bucket' : 'object';
}

function fits(route: Route, request: S3Request): boolean {
  if (route.header !== undefined && request.headers[route.header] === undefined) return false;
  if (!route.query) return true;
  return route.query.every((wanted) => {
    const equals = wanted.indexOf('=');
    if (equals < 0) return request.query.some(([name]) => name === wanted);
    const name = wanted.slice(0, equals);
    const value = wanted.slice(equals + 1);
    return request.query.some((pair) => pair[0] === name && (value === '*' || pair[1] === value));
  });
}

function refuseOthers(request: S3Request, route: Route): void {
  const { query, also, operation } = route;
  const takesVersion = operation.versionAction !== undefined || operation.takesVersion === true;
  for (const [name] of request.query) {
    const isTaken = query?.includes(name) || also?.includes(name);
    if (name === 'versionId' ? !takesVersion : subresources.has(name) && !isTaken) {
      throw new Refusal('NotImplemented', { fields: { Parameter: name } });
    }
  }
}

/**
 * Throws `Refusal` NotImplemented for a header that is not, or one of `refuseStrayEncryption`. To
 * be asked of what is allowed only: a policy may deny a request for its headers.
 */
export function refuseUnimplemented(request: S3Request): void {
  refuseStrayEncryption(request);
  for (const name in request.headers) {
    if (!name.startsWith('x-amz-')) continue;
    const isUnimplemented = unimplementedHeaders.get(name);
    const isStray = keyHeaders.has(name) && isStrayKey(name, request);
    if (isStray || isUnimplemented?.(String(request.headers[name]), request)) {
      throw new Refusal('NotImplemented', { fields: { Header: name } });
    }
  }
}

function always(): boolean {
  return true;
}

function exceptOfDeletion(_value: string, { method, key }: S3Request): boolean {
  return method !== 'DELETE' || key === null;
}
