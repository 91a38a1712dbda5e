// What a request says about its signer, read from its Authorization header, its query or the fields
// of its form, and not yet believed: authenticate.ts checks it. Invariant: a request carries one
// claim, none, or is refused; where a part is missing, repeated or of the wrong form there is no
// claim to misread.
// Specification: "Authenticating Requests: Using the Authorization Header" and "… Using Query
// Parameters" of the Amazon S3 API reference, "POST Object" there; of SigV4A, "AWS Signature
// Version 4A" of the IAM user guide.

import type { Headers, QueryPairs } from '../core/canonical-request.ts';
import { invalidArgument, Refusal } from '../core/errors.ts';
import { presignSecondsMax, sessionTokenBytesMax } from '../core/limits.ts';
import {
  algorithm,
  formatAmzDate,
  isScopeDate,
  parseAmzDate,
  parseHttpDate,
  type Scope,
  terminator,
} from '../core/sigv4.ts';
import { asymmetricAlgorithm, isRegionSet } from '../core/sigv4a.ts';
import type { FormFields } from './post-policy.ts';

export interface Claim {
  /** 'header' for an Authorization header, 'query' for a presigned URL, 'form' for its fields. */
  where: 'header' | 'query' | 'form';
  /** SigV4's or SigV4A's. */
  algorithm: string;
  accessKeyId: string;
  /** What the signing key is derived for; null: SigV4A, where none is. */
  scope: Scope | null;
  /** The scope as the signature has it. */
  scopeLine: string;
  /**
   * Sorted, lower-case, without repetition; `host` is among them or the request is refused later.
   */
  signedHeaders: string[];
  signature: string;
  /** `YYYYMMDDTHHMMSSZ`. */
  amzDate: string;
  signedAtMs: number;
  /** How long a presigned URL, or a form's signing key, is valid; 0 for a header. */
  expiresSeconds: number;
  /** Of a temporary key, and signed with the rest; nothing of it is believed yet. */
  sessionToken: string | undefined;
}

const signedHeadersMax = 100;
const accessKeyIdLengthMax = 128;
const regionLengthMax = 64;

/**
 * The claim of a request, null if it carries no credentials. Throws a Refusal if it is malformed.
 */
export function readClaim(headers: Headers, query: QueryPairs): Claim | null {
  const authorization = headers.authorization;
  if (authorization === undefined) return hasQueryClaim(query) ? readQueryClaim(query) : null;
  if (query.length > 0) refuseQueryClaim(authorization, query);
  return readHeaderClaim(authorization, headers);
}

/** Throws a Refusal if a request with an Authorization header has credentials in its query too. */
export function refuseQueryClaim(authorization: string, query: QueryPairs): void {
  if (!hasQueryClaim(query)) return;
  const message =
    'Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature ' +
    'query string parameter or the Authorization header should be specified';
  throw invalidArgument('Authorization', authorization, message);
}

function hasQueryClaim(query: QueryPairs): boolean {
  for (const [name] of query) {
    if (name === 'X-Amz-Algorithm' || name === 'X-Amz-Credential') return true;
    if (name === 'X-Amz-Signature' || name === 'AWSAccessKeyId') return true;
  }
  return false;
}

// The Authorization header ---------------------------------------------------------------------

function malformedHeader(detail: string, fields?: Record<string, string>): Refusal {
  const message = `The authorization header is malformed; ${detail}`;
  return new Refusal('AuthorizationHeaderMalformed', fields ? { message, fields } : { message });
}

function readHeaderClaim(authorization: string, headers: Headers): Claim {
  const name = algorithmOf(authorization);
  if (name === undefined) throw otherMechanism(authorization);
  const parts = readComponents(authorization.slice(name.length + 1));
  const credential = readCredential(name, parts.credential, malformedHeader);
  const { amzDate, signedAtMs } = readHeaderTime(headers);
  checkDate(credential.date, amzDate, malformedHeader);
  if (name === asymmetricAlgorithm && !isRegionSet(headers['x-amz-region-set'] ?? '')) {
    throw malformedHeader('the x-amz-region-set header is missing or not a list of regions.');
  }
  return {
    where: 'header',
    algorithm: name,
    accessKeyId: credential.accessKeyId,
    scope: credential.scope,
    scopeLine: credential.scopeLine,
    signedHeaders: readSignedHeaders(parts.signedHeaders, malformedHeader),
    signature: parts.signature,
    amzDate,
    signedAtMs,
    expiresSeconds: 0,
    sessionToken: readSessionToken(headers['x-amz-security-token']),
  };
}

/** undefined: it is not signed by either. */
function algorithmOf(authorization: string): string | undefined {
  if (authorization.startsWith(`${algorithm} `)) return algorithm;
  return authorization.startsWith(`${asymmetricAlgorithm} `) ? asymmetricAlgorithm : undefined;
}

function otherMechanism(authorization: string): Refusal {
  const end = authorization.indexOf(' ');
  const scheme = end < 0 ? authorization : authorization.slice(0, end);
  switch (scheme) {
    case algorithm:
    case asymmetricAlgorithm:
      return wrongComponents();
    case 'AWS':
      return notSupported();
    case 'Bearer':
    case 'DPoP':
      return new Refusal('NotImplemented', { fields: { Header: 'Authorization' } });
    default:
      return invalidArgument('Authorization', authorization, 'Unsupported Authorization Type');
  }
}

function notSupported(): Refusal {
  const message =
    'The authorization mechanism you have provided is not supported. Please use ' +
    "AWS4-HMAC-SHA256. In boto3, for presigned URLs too, that is Config(signature_version='s3v4')" +
    '; for those of AWS CLI 1, aws configure set s3.signature_version s3v4.';
  return new Refusal('InvalidRequest', { message });
}

function wrongComponents(): Refusal {
  return malformedHeader(
    'the authorization header requires three components: Credential, SignedHeaders, and Signature.',
  );
}

interface Components {
  credential: string;
  signedHeaders: string;
  signature: string;
}

/** `Credential=…, SignedHeaders=…, Signature=…`, in any order, each exactly once. */
function readComponents(text: string): Components {
  let credential: string | undefined;
  let signedHeaders: string | undefined;
  let signature: string | undefined;
  let at = 0;
  while (at <= text.length) {
    const comma = text.indexOf(',', at);
    const end = comma < 0 ? text.length : comma;
    const part = text.slice(at, end).trim();
    at = end + 1;
    if (part.startsWith('Credential=') && credential === undefined) {
      credential = part.slice('Credential='.length);
    } else if (part.startsWith('SignedHeaders=') && signedHeaders === undefined) {
      signedHeaders = part.slice('SignedHeaders='.length);
    } else if (part.startsWith('Signature=') && signature === undefined) {
      signature = part.slice('Signature='.length);
    } else {
      throw wrongComponents();
    }
  }
  if (!credential || !signedHeaders || !signature) throw wrongComponents();
  return { credential, signedHeaders, signature };
}

/**
 * x-amz-date, or else Date. Throws AccessDenied, as S3 does, if neither is there and well-formed.
 */
function readHeaderTime(headers: Headers): { amzDate: string; signedAtMs: number } {
  const amzDate = headers['x-amz-date'];
  const text = amzDate ?? headers.date ?? '';
  const signedAtMs = amzDate === undefined ? parseHttpDate(text) : parseAmzDate(text);
  if (signedAtMs === undefined) {
    throw new Refusal('AccessDenied', {
      message: 'AWS authentication requires a valid Date or x-amz-date header',
    });
  }
  return { amzDate: amzDate ?? formatAmzDate(signedAtMs), signedAtMs };
}

// The query --------------------------------------------------------------------------------------

function malformedQuery(message: string, fields?: Record<string, string>): Refusal {
  return new Refusal(
    'AuthorizationQueryParametersError',
    fields ? { message, fields } : { message },
  );
}

function malformedCredentialParameter(detail: string, fields?: Record<string, string>): Refusal {
  return malformedQuery(`Error parsing the X-Amz-Credential parameter; ${detail}`, fields);
}

function readQueryClaim(query: QueryPairs): Claim {
  const parameters = readParameters(query);
  if (parameters.has('AWSAccessKeyId')) throw notSupported();
  const take = (name: string): string => {
    const value = parameters.get(name);
    if (value === undefined || value === '') {
      throw malformedQuery(
        'Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, ' +
          'X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.',
      );
    }
    return value;
  };
  const name = take('X-Amz-Algorithm');
  if (name !== algorithm && name !== asymmetricAlgorithm) {
    throw malformedQuery(`X-Amz-Algorithm only supports "${algorithm} and ${asymmetricAlgorithm}"`);
  }
  const credential = readCredential(name, take('X-Amz-Credential'), malformedCredentialParameter);
  const amzDate = take('X-Amz-Date');
  const signedAtMs = parseAmzDate(amzDate);
  if (signedAtMs === undefined) {
    throw malformedQuery("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"");
  }
  checkDate(credential.date, amzDate, malformedCredentialParameter);
  if (name === asymmetricAlgorithm && !isRegionSet(take('X-Amz-Region-Set'))) {
    throw malformedQuery('X-Amz-Region-Set must be a list of regions');
  }
  return {
    where: 'query',
    algorithm: name,
    accessKeyId: credential.accessKeyId,
    scope: credential.scope,
    scopeLine: credential.scopeLine,
    signedHeaders: readSignedHeaders(take('X-Amz-SignedHeaders'), malformedQuery),
    signature: take('X-Amz-Signature'),
    amzDate,
    signedAtMs,
    expiresSeconds: readExpires(take('X-Amz-Expires')),
    sessionToken: readSessionToken(parameters.get('X-Amz-Security-Token')),
  };
}

const authParameters = new Set([
  'AWSAccessKeyId',
  'X-Amz-Algorithm',
  'X-Amz-Content-Sha256',
  'X-Amz-Credential',
  'X-Amz-Date',
  'X-Amz-Expires',
  'X-Amz-Region-Set',
  'X-Amz-Security-Token',
  'X-Amz-Signature',
  'X-Amz-SignedHeaders',
]);

/** Is it a parameter of the signature itself, as those are written? */
export function isAuthParameter(name: string): boolean {
  return authParameters.has(name);
}

function readParameters(query: QueryPairs): Map<string, string> {
  const parameters = new Map<string, string>();
  for (const [name, value] of query) {
    if (!authParameters.has(name)) continue;
    if (parameters.has(name)) throw malformedQuery(`The parameter ${name} is given twice.`);
    parameters.set(name, value);
  }
  return parameters;
}

function readExpires(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw malformedQuery('X-Amz-Expires should be a number');
  const seconds = Number(text);
  if (seconds < 0) throw malformedQuery('X-Amz-Expires must be non-negative');
  if (seconds < 1 || seconds > presignSecondsMax) {
    throw malformedQuery(
      'X-Amz-Expires must be less than a week (in seconds) and at least 1; that is, the given ' +
        `X-Amz-Expires must be at most ${presignSecondsMax} seconds`,
    );
  }
  return seconds;
}

// A form -----------------------------------------------------------------------------------------

/** As S3 calls them. */
const formNames = [
  ...['policy', 'X-Amz-Algorithm', 'X-Amz-Credential', 'X-Amz-Date'],
  'X-Amz-Signature',
];

/**
 * The claim of a form's fields, null if they carry no credentials. Throws a Refusal if it is
 * malformed.
 */
export function readFormClaim(fields: FormFields): Claim | null {
  if (fields.has('awsaccesskeyid') || fields.has('signature')) throw notSupported();
  const given = formNames.filter((name) => fields.has(name.toLowerCase()));
  if (given.length === 0) return null;
  // As on S3: a policy that nobody signed.
  if (given.length === 1 && given[0] === 'policy') throw new Refusal('AccessDenied');
  for (const name of formNames) {
    if (fields.get(name.toLowerCase())) continue;
    const message =
      `Bucket POST must contain a field named '${name}'.  ` +
      'If it is specified, please check the order of the fields.';
    throw invalidArgument(name, '', message);
  }
  const take = (name: string): string => fields.get(name) as string;
  if (take('x-amz-algorithm') !== algorithm) {
    const message = `X-Amz-Algorithm only supports "${algorithm}"`;
    throw invalidArgument('x-amz-algorithm', take('x-amz-algorithm'), message);
  }
  const malformed: Malformed = (detail) =>
    invalidArgument('x-amz-credential', take('x-amz-credential'), detail);
  const { date, ...credential } = readCredential(algorithm, take('x-amz-credential'), malformed);
  const amzDate = take('x-amz-date');
  const signedAtMs = parseAmzDate(amzDate);
  if (signedAtMs === undefined) {
    const message = "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"";
    throw invalidArgument('x-amz-date', amzDate, message);
  }
  checkDate(date, amzDate, malformed);
  return {
    ...credential,
    where: 'form',
    algorithm,
    signedHeaders: [],
    signature: take('x-amz-signature'),
    amzDate,
    signedAtMs,
    expiresSeconds: presignSecondsMax,
    sessionToken: readSessionToken(fields.get('x-amz-security-token')),
  };
}

// All --------------------------------------------------------------------------------------------

type Malformed = (detail: string, fields?: Record<string, string>) => Refusal;

interface Credential {
  accessKeyId: string;
  date: string;
  scope: Scope | null;
  scopeLine: string;
}

/** An id and a scope, which is a date, a region, a service and its end. */
const symmetricCredential = /^(.+)\/(([^/]*)\/([^/]*)\/([^/]*)\/([^/]*))$/s;
/** The same without a region, for which a header names a set; its place is empty. */
const asymmetricCredential = /^(.+)\/(([^/]*)()\/([^/]*)\/([^/]*))$/s;

/**
 * `<id>/YYYYMMDD/<region>/s3/aws4_request`, of SigV4A without the region; the id itself may hold
 * slashes.
 */
function readCredential(name: string, credential: string, malformed: Malformed): Credential {
  const isAsymmetric = name === asymmetricAlgorithm;
  const match = (isAsymmetric ? asymmetricCredential : symmetricCredential).exec(credential);
  if (!match) {
    throw malformed(
      'the Credential is mal-formed; expecting ' +
        `"<YOUR-AKID>/YYYYMMDD/${isAsymmetric ? '' : 'REGION/'}SERVICE/aws4_request".`,
    );
  }
  const [, accessKeyId = '', scopeLine = '', date = '', region = '', service, end] = match;
  if (accessKeyId.length > accessKeyIdLengthMax) throw new Refusal('InvalidAccessKeyId');
  if (end !== terminator) {
    throw malformed(`incorrect terminal "${end}". This endpoint uses "${terminator}".`);
  }
  if (service !== 's3') {
    throw malformed(`incorrect service "${service}". This endpoint belongs to "s3".`);
  }
  if (!isScopeDate(date)) {
    throw malformed(
      `incorrect date format "${date}". This date in the credential must be in the format ` +
        '"yyyyMMdd".',
    );
  }
  if (isAsymmetric) return { accessKeyId, date, scope: null, scopeLine };
  if (region === '' || region.length > regionLengthMax) {
    throw malformed('the region is missing or too long');
  }
  return { accessKeyId, date, scope: { date, region, service }, scopeLine };
}

function checkDate(date: string, amzDate: string, malformed: Malformed): void {
  const signed = amzDate.slice(0, 8);
  if (date === signed) return;
  throw malformed(
    `Invalid credential date "${date}". This date is not the same as X-Amz-Date: "${signed}".`,
  );
}

/** A repeated header's values are joined by a comma, which no token has. */
const sessionTokenForm = /^[\x21-\x2b\x2d-\x7e]+$/;

function readSessionToken(token: string | undefined): string | undefined {
  if (token === undefined) return undefined;
  if (token.length > sessionTokenBytesMax || !sessionTokenForm.test(token)) {
    throw new Refusal('InvalidToken');
  }
  return token;
}

const headerNames = /^[!#$%&'*+.^_`|~0-9a-z-]+(?:;[!#$%&'*+.^_`|~0-9a-z-]+)*$/;

function readSignedHeaders(text: string, malformed: Malformed): string[] {
  const names = headerNames.test(text) ? text.split(';') : [];
  if (names.length === 0 || names.length > signedHeadersMax) {
    throw malformed('SignedHeaders must be lower-case header names separated by semicolons.');
  }
  for (let i = 1; i < names.length; i++) {
    if ((names[i - 1] as string) >= (names[i] as string)) {
      throw malformed('SignedHeaders must be sorted and name each header once.');
    }
  }
  return names;
}
