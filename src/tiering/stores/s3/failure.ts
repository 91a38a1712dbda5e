// What the answers and errors of an S3 server say of a try that failed.
// Specification: "Error responses" of the Amazon S3 API reference.
import { AttemptFailure, type FailureCause } from '../attempt-failure.ts';

const slowDownCodes: ReadonlySet<string> = new Set([
  'SlowDown',
  'RequestLimitExceeded',
  'ThrottlingException',
  'TooManyRequests',
]);
const damagedCodes: ReadonlySet<string> = new Set([
  'BadDigest',
  'InvalidDigest',
  'XAmzContentChecksumMismatch',
  'XAmzContentSHA256Mismatch',
]);
const conflictCodes: ReadonlySet<string> = new Set([
  'ConditionalRequestConflict',
  'OperationAborted',
]);
const expiryCodes: ReadonlySet<string> = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'TokenRefreshRequired',
]);
/** The codes with which S3 refuses keys that were revoked or replaced. */
const credentialCodes: ReadonlySet<string> = new Set([
  'InvalidAccessKeyId',
  'InvalidSecurity',
  'InvalidToken',
  'NotSignedUp',
  'SignatureDoesNotMatch',
]);
const statusCauses = new Map<number, FailureCause>([
  [429, 'http-503'],
  [500, 'http-500'],
  [502, 'http-502'],
  [503, 'http-503'],
  [504, 'http-504'],
]);

/** Returns the failure for an HTTP answer that is no success and was not expected. */
export function failureOfAnswer(
  status: number,
  code: string | undefined,
  text: string,
): AttemptFailure {
  const slowDown = status === 429 || (code !== undefined && slowDownCodes.has(code));
  const message = `HTTP ${status}${code === undefined ? '' : ` ${code}`}${text && `: ${text}`}`;
  return new AttemptFailure(causeOfAnswer(status, code), message, { slowDown, code });
}

function causeOfAnswer(status: number, code: string | undefined): FailureCause {
  const known = statusCauses.get(status);
  if (known !== undefined) return known;
  if (code !== undefined) {
    if (code === 'NoSuchBucket') return 'no-bucket';
    if (damagedCodes.has(code)) return 'damaged';
    if (conflictCodes.has(code)) return 'conflict';
    if (expiryCodes.has(code)) return 'expired';
    if (credentialCodes.has(code)) return 'credentials';
    if (code === 'RequestTimeTooSkewed') return 'clock';
    // S3 gives up on a request whose bytes come too slowly.
    if (code === 'RequestTimeout') return 'stall';
  }
  if (status >= 500 && status !== 501) return 'http-other';
  if (status === 401 || status === 403) return 'denied';
  return 'unfit';
}

/** Returns the failure for an error of the network, of the HTTP parser or of the SDK. */
export function failureOfError(error: unknown): AttemptFailure {
  if (error instanceof AttemptFailure) return error;
  const { name = '', message = '', code = '', $metadata } = error as SdkError;
  const status = $metadata?.httpStatusCode;
  if (status !== undefined && status >= 300) return failureOfAnswer(status, name, message);
  return new AttemptFailure(causeOfError(name, String(code)), `${code || name} ${message}`, {
    cause: error,
  });
}

interface SdkError extends NodeJS.ErrnoException {
  $metadata?: { httpStatusCode?: number };
}

function causeOfError(name: string, code: string): FailureCause {
  switch (code) {
    case 'EMFILE':
    case 'ENFILE':
      return 'no-descriptors';
    case 'ECONNREFUSED':
      return 'refused';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'EADDRNOTAVAIL':
      return 'unreachable';
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ETIMEDOUT':
      return 'timeout-connect';
    case 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH':
      return 'truncated';
    case 'ECONNRESET':
    case 'EPIPE':
    case 'UND_ERR_SOCKET':
      return 'reset';
  }
  if (name === 'CredentialsProviderError') return 'credentials';
  if (name === 'TimeoutError') return 'timeout-first-byte';
  if (/^(ERR_TLS|ERR_SSL|UNABLE_TO_)|CERT/.test(code)) return 'unreachable';
  // The answer was not HTTP, or not XML.
  return 'wrong-body';
}

/** The text of an element of an error document; undefined when there is none. */
export function errorElement(document: string, name: 'Code' | 'Message'): string | undefined {
  return new RegExp(`<${name}>([^<]*)</${name}>`).exec(document)?.[1];
}
