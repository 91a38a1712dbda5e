// Which operation a request asks for: an ordered table, most particular first. A subresource of
// S3's that is not here yet is named all the same, so that it answers 501 and never something else.
import { Refusal } from '../../core/errors.ts';
import type { AnyOperation } from './operation.ts';
import { abortMultipartUpload } from './operations/abort-multipart-upload.ts';
import { getBucketAcl, putBucketAcl } from './operations/bucket-acl.ts';
import { deleteBucketCors, getBucketCors, putBucketCors } from './operations/bucket-cors.ts';
import {
  deleteBucketLifecycle,
  getBucketLifecycle,
  putBucketLifecycle,
} from './operations/bucket-lifecycle.ts';
import {
  deleteBucketOwnershipControls,
  getBucketOwnershipControls,
  putBucketOwnershipControls,
} from './operations/bucket-ownership-controls.ts';
import {
  deleteBucketPolicy,
  getBucketPolicy,
  getBucketPolicyStatus,
  putBucketPolicy,
} from './operations/bucket-policy.ts';
import {
  deleteBucketTagging,
  getBucketTagging,
  putBucketTagging,
} from './operations/bucket-tagging.ts';
import { getBucketVersioning, putBucketVersioning } from './operations/bucket-versioning.ts';
import { completeMultipartUpload } from './operations/complete-multipart-upload.ts';
import { copyObject } from './operations/copy-object.ts';
import { createBucket } from './operations/create-bucket.ts';
import { createMultipartUpload } from './operations/create-multipart-upload.ts';
import { deleteBucket } from './operations/delete-bucket.ts';
import { deleteObject } from './operations/delete-object.ts';
import { deleteObjects } from './operations/delete-objects.ts';
import { getBucketLocation } from './operations/get-bucket-location.ts';
import { getObject, headObject } from './operations/get-object.ts';
import { getObjectAttributes } from './operations/get-object-attributes.ts';
import { headBucket } from './operations/head-bucket.ts';
import { listBuckets } from './operations/list-buckets.ts';
import { listMultipartUploads } from './operations/list-multipart-uploads.ts';
import { listObjectVersions } from './operations/list-object-versions.ts';
import { listObjects, listObjectsV2 } from './operations/list-objects.ts';
import { listParts } from './operations/list-parts.ts';
import { getObjectAcl, putObjectAcl } from './operations/object-acl.ts';
import { getObjectLegalHold, putObjectLegalHold } from './operations/object-legal-hold.ts';
import {
  getObjectLockConfiguration,
  putObjectLockConfiguration,
} from './operations/object-lock-configuration.ts';
import { getObjectRetention, putObjectRetention } from './operations/object-retention.ts';
import {
  deleteObjectTagging,
  getObjectTagging,
  putObjectTagging,
} from './operations/object-tagging.ts';
import {
  deletePublicAccessBlock,
  getPublicAccessBlock,
  putPublicAccessBlock,
} from './operations/public-access-block.ts';
import { putObject } from './operations/put-object.ts';
import { uploadPart } from './operations/upload-part.ts';
import { uploadPartCopy } from './operations/upload-part-copy.ts';
import type { S3Request } from './request.ts';
import type { Resource } from './stages.ts';

/** What a request names, with the operations that are about such things. */
type Named =
  | { resource: 'service'; operation: Of<'service'> }
  | { resource: 'bucket'; operation: Of<'bucketName' | 'bucket' | 'listing'> }
  | { resource: 'object'; operation: Of<'object'> }
  | { resource: 'object'; operation: Of<'copy'>; header: 'x-amz-copy-source' };
type Of<R extends Resource> = AnyOperation & { resource: R };

type Route = Named & {
  method: string;
  /** Query parameters that must be present; `name=value` demands the value. */
  query?: readonly string[];
  /** Query parameters that may be present besides. */
  also?: readonly string[];
  /** A header that must be present. */
  header?: string;
};

const routes: readonly Route[] = [
  { method: 'GET', resource: 'service', operation: listBuckets },

  { method: 'GET', resource: 'bucket', query: ['acl'], operation: getBucketAcl },
  {
    method: 'GET',
    resource: 'bucket',
    query: ['object-lock'],
    operation: getObjectLockConfiguration,
  },
  {
    method: 'GET',
    resource: 'bucket',
    query: ['ownershipControls'],
    operation: getBucketOwnershipControls,
  },
  {
    method: 'GET',
    resource: 'bucket',
    query: ['publicAccessBlock'],
    operation: getPublicAccessBlock,
  },
  { method: 'GET', resource: 'bucket', query: ['lifecycle'], operation: getBucketLifecycle },
  { method: 'GET', resource: 'bucket', query: ['cors'], operation: getBucketCors },
  { method: 'GET', resource: 'bucket', query: ['location'], operation: getBucketLocation },
  { method: 'GET', resource: 'bucket', query: ['policy'], operation: getBucketPolicy },
  { method: 'GET', resource: 'bucket', query: ['policyStatus'], operation: getBucketPolicyStatus },
  { method: 'GET', resource: 'bucket', query: ['tagging'], operation: getBucketTagging },
  { method: 'GET', resource: 'bucket', query: ['versioning'], operation: getBucketVersioning },
  { method: 'GET', resource: 'bucket', query: ['uploads'], operation: listMultipartUploads },
  { method: 'GET', resource: 'bucket', query: ['versions'], operation: listObjectVersions },
  { method: 'GET', resource: 'bucket', query: ['list-type=2'], operation: listObjectsV2 },
  { method: 'GET', resource: 'bucket', operation: listObjects },
  { method: 'HEAD', resource: 'bucket', operation: headBucket },
  { method: 'PUT', resource: 'bucket', query: ['acl'], operation: putBucketAcl },
  {
    method: 'PUT',
    resource: 'bucket',
    query: ['object-lock'],
    operation: putObjectLockConfiguration,
  },
  {
    method: 'PUT',
    resource: 'bucket',
    query: ['ownershipControls'],
    operation: putBucketOwnershipControls,
  },
  {
    method: 'PUT',
    resource: 'bucket',
    query: ['publicAccessBlock'],
    operation: putPublicAccessBlock,
  },
  { method: 'PUT', resource: 'bucket', query: ['lifecycle'], operation: putBucketLifecycle },
  { method: 'PUT', resource: 'bucket', query: ['cors'], operation: putBucketCors },
  { method: 'PUT', resource: 'bucket', query: ['policy'], operation: putBucketPolicy },
  { method: 'PUT', resource: 'bucket', query: ['tagging'], operation: putBucketTagging },
  { method: 'PUT', resource: 'bucket', query: ['versioning'], operation: putBucketVersioning },
  { method: 'PUT', resource: 'bucket', operation: createBucket },
  {
    method: 'DELETE',
    resource: 'bucket',
    query: ['ownershipControls'],
    operation: deleteBucketOwnershipControls,
  },
  {
    method: 'DELETE',
    resource: 'bucket',
    query: ['publicAccessBlock'],
    operation: deletePublicAccessBlock,
  },
  { method: 'DELETE', resource: 'bucket', query: ['lifecycle'], operation: deleteBucketLifecycle },
  { method: 'DELETE', resource: 'bucket', query: ['cors'], operation: deleteBucketCors },
  { method: 'DELETE', resource: 'bucket', query: ['policy'], operation: deleteBucketPolicy },
  { method: 'DELETE', resource: 'bucket', query: ['tagging'], operation: deleteBucketTagging },
  { method: 'DELETE', resource: 'bucket', operation: deleteBucket },
  { method: 'POST', resource: 'bucket', query: ['delete'], operation: deleteObjects },

  { method: 'GET', resource: 'object', query: ['acl'], operation: getObjectAcl },
  { method: 'GET', resource: 'object', query: ['legal-hold'], operation: getObjectLegalHold },
  { method: 'GET', resource: 'object', query: ['retention'], operation: getObjectRetention },
  { method: 'GET', resource: 'object', query: ['uploadId'], operation: listParts },
  { method: 'GET', resource: 'object', query: ['tagging'], operation: getObjectTagging },
  { method: 'GET', resource: 'object', query: ['attributes'], operation: getObjectAttributes },
  { method: 'GET', resource: 'object', also: ['partNumber'], operation: getObject },
  { method: 'HEAD', resource: 'object', also: ['partNumber'], operation: headObject },
  { method: 'PUT', resource: 'object', query: ['tagging'], operation: putObjectTagging },
  { method: 'PUT', resource: 'object', query: ['acl'], operation: putObjectAcl },
  { method: 'PUT', resource: 'object', query: ['legal-hold'], operation: putObjectLegalHold },
  { method: 'PUT', resource: 'object', query: ['retention'], operation: putObjectRetention },
  {
    method: 'PUT',
    resource: 'object',
    query: ['partNumber', 'uploadId'],
    header: 'x-amz-copy-source',
    operation: uploadPartCopy,
  },
  { method: 'PUT', resource: 'object', query: ['partNumber', 'uploadId'], operation: uploadPart },
  { method: 'PUT', resource: 'object', header: 'x-amz-copy-source', operation: copyObject },
  { method: 'PUT', resource: 'object', operation: putObject },
  { method: 'POST', resource: 'object', query: ['uploads'], operation: createMultipartUpload },
  { method: 'POST', resource: 'object', query: ['uploadId'], operation: completeMultipartUpload },
  { method: 'DELETE', resource: 'object', query: ['uploadId'], operation: abortMultipartUpload },
  { method: 'DELETE', resource: 'object', query: ['tagging'], operation: deleteObjectTagging },
  { method: 'DELETE', resource: 'object', operation: deleteObject },
];

/** By method and resource. */
const routesTo = new Map<string, Route[]>();
for (const route of routes) {
  const name = `${route.method} ${route.resource}`;
  routesTo.set(name, [...(routesTo.get(name) ?? []), route]);
}

/**
 * Query parameters that select an S3 operation: where the route does not name them the answer is
 * 501, so that no DELETE of a part of a bucket ever deletes the bucket.
 */
const subresources = new Set([
  'abac',
  'accelerate',
  'acl',
  'analytics',
  'annotation',
  'attributes',
  'cors',
  'delete',
  'encryption',
  'intelligent-tiering',
  'inventory',
  'legal-hold',
  'lifecycle',
  'location',
  'logging',
  'metadataAnnotationTable',
  'metadataConfiguration',
  'metadataInventoryTable',
  'metadataJournalTable',
  'metadataTable',
  'metrics',
  'notification',
  'object-lock',
  'ownershipControls',
  'partNumber',
  'policy',
  'policyStatus',
  'publicAccessBlock',
  'replication',
  'requestPayment',
  'restore',
  'retention',
  'select',
  'session',
  'tagging',
  'torrent',
  'uploadId',
  'uploads',
  'versioning',
  'versions',
  'website',
  'renameObject',
]);

/** Query parameters besides these that operations read. */
const otherParameters = new Set([
  'bucket-region',
  'continuation-token',
  'delimiter',
  'encoding-type',
  'fetch-owner',
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
    ['x-amz-server-side-encryption', always],
    ['x-amz-server-side-encryption-aws-kms-key-id', always],
    ['x-amz-server-side-encryption-bucket-key-enabled', always],
    ['x-amz-server-side-encryption-context', always],
    ['x-amz-server-side-encryption-customer-algorithm', always],
    ['x-amz-server-side-encryption-customer-key', always],
    ['x-amz-server-side-encryption-customer-key-md5', always],
    ['x-amz-copy-source-server-side-encryption-customer-algorithm', always],
    ['x-amz-copy-source-server-side-encryption-customer-key', always],
    ['x-amz-copy-source-server-side-encryption-customer-key-md5', always],
    ['x-amz-checksum-md5', always],
    ['x-amz-checksum-sha512', always],
    ['x-amz-checksum-xxhash64', always],
    ['x-amz-checksum-xxhash3', always],
    ['x-amz-checksum-xxhash128', always],
    ['x-amz-if-match-initiated-time', always],
    ['x-amz-if-match-last-modified-time', exceptOfDeletion],
    ['x-amz-if-match-size', exceptOfDeletion],
    ['x-amz-write-offset-bytes', always],
    ['x-amz-mfa', always],
  ]);

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
function refusePost({ headers, query }: S3Request, resource: Route['resource']): Refusal {
  if (resource !== 'bucket' || query.length > 0 || headers['content-type'] === undefined) {
    return new Refusal('NotImplemented');
  }
  const Condition = 'Bucket POST must be of the enclosure-type multipart/form-data';
  return new Refusal('PreconditionFailed', { fields: { Condition } });
}

function resourceOf(request: S3Request): Route['resource'] {
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
    return request.query.some((pair) => pair[0] === name && pair[1] === value);
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
 * Throws `Refusal` NotImplemented for a header that is not. To be asked of what is allowed only:
 * a policy may deny a request for its headers.
 */
export function refuseUnimplemented(request: S3Request): void {
  for (const name in request.headers) {
    if (!name.startsWith('x-amz-')) continue;
    const isUnimplemented = unimplementedHeaders.get(name);
    if (isUnimplemented?.(String(request.headers[name]), request)) {
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
