// Every refusal Bursar can give, in one table: the S3 error code, its HTTP status and its message.
// Codes, statuses and wording of the S3 ones follow the "Error responses" page of the S3 API
// reference. A refusal is thrown as `Refusal` and becomes an answer in one place, the gateway's
// pipeline; anything else that is thrown is a bug and becomes 500 InternalError.

import { constants } from 'node:os';

const table = {
  AccessControlListNotSupported: [400, 'The bucket does not allow ACLs'],
  AccessDenied: [403, 'Access Denied'],
  AccessForbidden: [403, 'Access Forbidden'],
  AuthorizationHeaderMalformed: [400, 'The authorization header is malformed.'],
  AuthorizationQueryParametersError: [400, 'Error parsing the query authentication parameters.'],
  BadDigest: [400, 'The Content-MD5 or checksum you specified did not match what we received.'],
  BadRequest: [400, 'Bad Request'],
  BucketAlreadyExists: [409, 'The requested bucket name is not available.'],
  BucketAlreadyOwnedByYou: [
    409,
    'Your previous request to create the named bucket succeeded and you already own it.',
  ],
  BucketNotEmpty: [409, 'The bucket you tried to delete is not empty'],
  BursarIntegrityError: [500, 'Stored data failed authentication and was not sent.'],
  InvalidObjectState: [403, "The operation is not valid for the object's storage class"],
  RestoreAlreadyInProgress: [409, 'Object restore is already in progress'],
  BursarObjectLost: [410, 'No store has the object any more, as its storage class allows.'],
  ConditionalRequestConflict: [
    409,
    'The conditional request cannot succeed due to a conflicting operation against this resource.',
  ],
  EntityTooLarge: [400, 'Your proposed upload exceeds the maximum allowed size'],
  EntityTooSmall: [400, 'Your proposed upload is smaller than the minimum allowed size'],
  ExpectationFailed: [417, 'The expectation of the Expect header cannot be met.'],
  ExpiredBearerToken: [401, 'The bearer token has expired.'],
  ExpiredToken: [400, 'The provided token has expired.'],
  IdempotencyParameterMismatch: [
    400,
    'Parameters on this idempotent request are inconsistent with parameters used in previous ' +
      'request(s).',
  ],
  IdMismatch: [400, 'Document ID does not match the specified configuration ID.'],
  IllegalLocationConstraintException: [
    400,
    'The location constraint is not valid for this gateway.',
  ],
  IllegalVersioningConfigurationException: [400, 'The Versioning element must be specified'],
  IncompleteBody: [
    400,
    'You did not provide the number of bytes specified by the Content-Length HTTP header',
  ],
  InternalError: [500, 'We encountered an internal error. Please try again.'],
  InvalidAccessKeyId: [403, 'The AWS Access Key Id you provided does not exist in our records.'],
  InvalidArgument: [400, 'Invalid Argument'],
  InvalidBearerToken: [401, 'The bearer token is not valid here.'],
  InvalidBucketAclWithObjectOwnership: [
    400,
    "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting",
  ],
  InvalidBucketAclWithBlockPublicAccessError: [
    400,
    'Bucket cannot have public ACLs set with BlockPublicAccess enabled',
  ],
  InvalidBucketName: [400, 'The specified bucket is not valid.'],
  InvalidBucketOwnerAWSAccountID: [
    400,
    'The value of the expected bucket owner parameter must be an AWS Account ID.',
  ],
  InvalidBucketState: [409, 'The request is not valid for the current state of the bucket.'],
  InvalidDigest: [400, 'The Content-MD5 or checksum value that you specified is not valid.'],
  InvalidEncryptionAlgorithmError: [
    400,
    'The Encryption request you specified is not valid. Supported value: AES256.',
  ],
  InvalidLocationConstraint: [400, 'The specified location-constraint is not valid'],
  InvalidPart: [
    400,
    'One or more of the specified parts could not be found.  The part may not have been ' +
      "uploaded, or the specified entity tag may not match the part's entity tag.",
  ],
  InvalidPartNumber: [416, 'The requested partnumber is not satisfiable'],
  InvalidPartOrder: [
    400,
    'The list of parts was not in ascending order. Parts must be ordered by part number.',
  ],
  InvalidPolicyDocument: [
    400,
    'The content of the form does not meet the conditions specified in the policy document.',
  ],
  InvalidProof: [401, 'The proof that you hold the key of the bearer token is not valid.'],
  InvalidRange: [416, 'The requested range is not satisfiable'],
  InvalidRedirectLocation: [
    400,
    "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
  ],
  InvalidRequest: [400, 'Invalid Request'],
  InvalidS3DestinationBucket: [400, 'Invalid bucket ARN.'],
  InvalidStorageClass: [400, 'The storage class you specified is not valid'],
  InvalidTag: [400, 'The tag provided was not a valid tag.'],
  InvalidToken: [400, 'The provided token is malformed or otherwise invalid.'],
  InvalidURI: [400, "Couldn't parse the specified URI."],
  KeyTooLongError: [400, 'Your key is too long'],
  MalformedACLError: [
    400,
    'The XML you provided was not well-formed or did not validate against our published schema',
  ],
  MalformedPOSTRequest: [400, 'The body of your POST request is not well-formed.'],
  MalformedPolicy: [400, 'The policy is not valid.'],
  MalformedTrailerError: [
    400,
    'The request contained trailing data that was not well-formed or did not conform to our ' +
      'published schema.',
  ],
  MalformedXML: [
    400,
    'The XML you provided was not well-formed or did not validate against our published schema',
  ],
  MaxMessageLengthExceeded: [400, 'Your request was too large.'],
  MaxPostPreDataLengthExceededError: [
    400,
    'Your POST request fields preceding the upload file were too large.',
  ],
  MetadataTooLarge: [400, 'Your metadata headers exceed the maximum allowed metadata size'],
  MethodNotAllowed: [405, 'The specified method is not allowed against this resource.'],
  MisdirectedRequest: [421, 'The gateway does not answer for this host.'],
  MissingContentLength: [411, 'You must provide the Content-Length HTTP header.'],
  MissingRequestBodyError: [400, 'Request Body is empty'],
  MissingSecurityHeader: [400, 'Your request was missing a required header'],
  NoSuchBucket: [404, 'The specified bucket does not exist'],
  NoSuchBucketPolicy: [404, 'The bucket policy does not exist'],
  NoSuchCORSConfiguration: [404, 'The CORS configuration does not exist'],
  NoSuchKey: [404, 'The specified key does not exist.'],
  NoSuchObjectLockConfiguration: [
    404,
    'The specified object does not have a ObjectLock configuration',
  ],
  NoSuchPublicAccessBlockConfiguration: [
    404,
    'The public access block configuration was not found',
  ],
  TooManyConfigurations: [400, 'You have reached the maximum configuration limit.'],
  NoSuchConfiguration: [404, 'The specified configuration does not exist.'],
  NoSuchLifecycleConfiguration: [404, 'The lifecycle configuration does not exist'],
  NoSuchTagSet: [404, 'The TagSet does not exist'],
  NoSuchUpload: [
    404,
    'The specified upload does not exist. The upload ID may be invalid, or the upload may have ' +
      'been aborted or completed.',
  ],
  NoSuchWebsiteConfiguration: [404, 'The specified bucket does not have a website configuration'],
  NoSuchVersion: [404, 'The specified version does not exist.'],
  NotImplemented: [501, 'A header you provided implies functionality that is not implemented'],
  NotModified: [304, 'Not Modified'],
  ObjectLockConfigurationNotFoundError: [
    404,
    'Object Lock configuration does not exist for this bucket',
  ],
  OwnershipControlsNotFoundError: [404, 'The bucket ownership controls were not found'],
  PreconditionFailed: [412, 'At least one of the pre-conditions you specified did not hold'],
  QuotaExceeded: [403, 'A limit of an account leaves too little for this request.'],
  ReplicationConfigurationNotFoundError: [404, 'The replication configuration was not found'],
  RequestHeaderSectionTooLarge: [
    400,
    'Your request header section exceeds the maximum allowed size.',
  ],
  RequestTimeout: [
    400,
    'Your socket connection to the server was not read from or written to within the timeout ' +
      'period.',
  ],
  RequestTimeTooSkewed: [
    403,
    'The difference between the request time and the current time is too large.',
  ],
  ServerSideEncryptionConfigurationNotFoundError: [
    404,
    'The server side encryption configuration was not found',
  ],
  ServiceUnavailable: [503, 'Service is unable to handle request.'],
  SignatureDoesNotMatch: [
    403,
    'The request signature we calculated does not match the signature you provided. Check ' +
      'your key and signing method.',
  ],
  SlowDown: [503, 'Please reduce your request rate.'],
  TooManyBuckets: [400, 'You have attempted to create more buckets than allowed.'],
  UnexpectedContent: [400, 'This request does not support content'],
  XAmzContentSHA256Mismatch: [
    400,
    "The provided 'x-amz-content-sha256' header does not match what was computed.",
  ],

  // STS's.
  ExpiredTokenException: [401, 'The web identity token has expired.'],
  IDPCommunicationError: [400, 'The issuer of the web identity token cannot be reached.'],
  InvalidAction: [400, 'There is no such action.'],
  InvalidIdentityToken: [401, 'The web identity token is not valid here.'],
  MalformedPolicyDocument: [400, 'The session policy is not valid.'],
  PackedPolicyTooLarge: [400, 'The token and the session policy are too large together.'],
  ValidationError: [400, 'The request does not fit the documented parameters.'],

  // The native API's own (RFC 9457 problem types use the same codes).
  NoSuchTenant: [404, 'The tenant does not exist.'],
  NoSuchPrincipal: [404, 'The principal does not exist.'],
  NoSuchGroup: [404, 'The group does not exist.'],
  NoSuchAccessKey: [404, 'The access key does not exist.'],
  NoSuchPublicKey: [404, 'The public key is not enrolled.'],
  NoSuchGrant: [404, 'The grant does not exist.'],
  NoSuchMount: [404, 'The mount does not exist.'],
  NoSuchSnapshot: [
    404,
    'The bucket has no snapshot of this name; a time is written as 2026-11-23T16:30:00Z.',
  ],
  NoSuchIssuer: [404, 'The issuer is not trusted.'],
  NoSuchClass: [404, 'The storage class does not exist.'],
  MomentNotKept: [404, 'What the bucket held then is not kept.'],
  NoSuchToken: [404, 'The token is not known.'],
  NoSuchShare: [404, 'There is no such share link.'],
  NoSuchRecord: [404, 'There is no such record.'],
  NoSuchRequest: [404, 'Nothing is known of such a request.'],
  PackMissing: [500, 'A pack of the archive of records is missing from its store.'],
  RecordErased: [410, 'The record was erased; the log keeps its place, and nothing of it.'],
  ShareEnded: [410, 'The share link is no longer valid.'],
  NotFound: [404, 'There is nothing at this path.'],
  AlreadyExists: [409, 'Something of this name exists already.'],
  InUse: [409, 'It is still in use.'],
  OtherTenant: [
    409,
    'A bucket stays in its tenant, whose keys seal it. Its objects can be copied into one of ' +
      'another tenant (docs/admin/ownership.md).',
  ],
  TooManyAccessKeys: [409, 'The principal has as many access keys as it may have.'],
  TooManyGrants: [409, 'There is no room for another grant in this place.'],
  TooManyClasses: [409, 'The tenant has as many storage classes as it may.'],
  TooManyIssuers: [409, 'The tenant trusts as many issuers as it may.'],
  SnapshotLocked: [409, 'The snapshot is locked until it expires.'],
  TooManySnapshots: [409, 'The bucket has as many snapshots as it may have.'],
  TooManyPublicKeys: [409, 'The principal has as many public keys as it may have.'],
  TooManyTokens: [409, 'The principal has as many tokens as it may have.'],
  InvalidInput: [400, 'The request does not fit the documented schema.'],
  InvalidAudience: [
    400,
    'The audience must end with a slash and the name of the tenant, or be one that an operator ' +
      'set for this issuer of the tenant.',
  ],
} as const satisfies Record<string, readonly [number, string]>;

export type ErrorCode = keyof typeof table;

/** The HTTP status of a code. */
export function statusOf(code: ErrorCode): number {
  return table[code][0];
}

/** The documented message of a code. */
export function messageOf(code: ErrorCode): string {
  return table[code][1];
}

export interface RefusalDetail {
  /** Replaces the table's message. */
  message?: string;
  /** Extra elements of the S3 error document, e.g. `{ArgumentName: 'max-keys'}`. */
  fields?: Record<string, string>;
  /** Headers of the S3 answer that say more, e.g. `{allow: 'DELETE'}`. */
  headers?: Record<string, string>;
  cause?: unknown;
}

/** A documented answer to a request that cannot be granted. Not a bug. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: ErrorCode;
  readonly fields: Record<string, string>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ErrorCode, detail: RefusalDetail = {}) {
    super(detail.message ?? table[code][1], { cause: detail.cause });
    this.code = code;
    this.fields = detail.fields ?? {};
    this.headers = detail.headers ?? {};
  }

  get status(): number {
    return table[this.code][0];
  }
}

/** `InvalidArgument` with the two fields that S3 adds to it. */
export function invalidArgument(name: string, value: string, message?: string): Refusal {
  const fields = { ArgumentName: name, ArgumentValue: value };
  return new Refusal('InvalidArgument', message === undefined ? { fields } : { message, fields });
}

/**
 * What is stored is not what was written: it failed authentication. Nothing of it is sent to a
 * client, who gets BursarIntegrityError.
 */
export class IntegrityError extends Error {
  override readonly name = 'IntegrityError';
  readonly kind: IntegrityKind;
  /** Number of the store that holds what failed; 0, the catalog, until who asked it says more. */
  store: number;
  /** The extent that no store gave as it was written; null: another thing failed. */
  extentId: Buffer | null = null;
  /** The store refuses it, and gives others: it may be there. */
  readonly isRefused: boolean;

  constructor(
    message: string,
    detail: { kind?: IntegrityKind; store?: number; cause?: unknown; isRefused?: boolean } = {},
  ) {
    super(message, { cause: detail.cause });
    this.isRefused = detail.isRefused ?? false;
    this.kind = detail.kind ?? 'row';
    this.store = detail.store ?? 0;
  }
}

/**
 * What failed: a row of the catalog, a record, or of a stored extent its presence, its length or a
 * chunk.
 */
export type IntegrityKind = 'row' | 'record' | 'missing' | 'length' | 'chunk';

/** What can be wrong of one copy of an extent, and right of another. */
export const extentFailures: ReadonlySet<IntegrityKind> = new Set(['missing', 'length', 'chunk']);

/**
 * Whether a disk takes nothing: it is full, a quota of its file system is used up, or that was made
 * read-only. All of them pass.
 */
export function isUnwritable(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT', 'EROFS'].includes(systemCode(error) ?? '');
}

/**
 * The system's name of an error. Node has none for EDQUOT, and says one thing or another instead.
 */
export function systemCode(error: unknown): string | undefined {
  const { code, errno } = (error ?? {}) as NodeJS.ErrnoException;
  return errno === -constants.errno.EDQUOT ? 'EDQUOT' : code;
}

/** Returns whether the process, or the machine, has no file descriptors left. That passes. */
export function isOutOfDescriptors(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === 'EMFILE' || code === 'ENFILE';
}
