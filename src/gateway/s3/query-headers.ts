// Headers that a presigned URL carries in its query. Whoever uses the URL may be able to send
// nothing but the URL, so signers move headers there ("hoisting"), and S3 takes them as if they had
// been sent. Invariants: what a signer put into the query counts for every decision and every
// effect, exactly as a signed header would, because the request that the rest of the gateway sees
// has it as a header; and no parameter of a presigned URL is ignored that could be meant to change
// something.
// Specification: "Authenticating Requests: Using Query Parameters" of the Amazon S3 API reference;
// docs/decisions/0042-presigned-headers.md.
import { Buffer } from 'node:buffer';
import { isAuthParameter } from '../../authz/claim.ts';
import { contentSha256 } from '../../authz/signed-parts.ts';
import { headerNameOf, headerTextOf } from '../../core/canonical-request.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { unsignedPayload } from '../../core/sigv4.ts';
import { checksumAlgorithms, computeChecksum } from '../../tiering/checksums.ts';
import { checksumHeader } from './objects/checksum-headers.ts';
import { isCustomerHeader } from './objects/customer-key.ts';
import { encryptionHeader } from './objects/encryption.ts';
import type { S3Request } from './request.ts';
import { isRouteParameter, isUnimplementedHeader } from './routes.ts';

const metadataName = /^x-amz-meta-[!#$%&'*+.^_`|~0-9a-z-]+$/;
const sdkAlgorithm = 'x-amz-sdk-checksum-algorithm';

/** The request headers of S3, and of Bursar, that have an effect here or are checked. */
const s3Headers: ReadonlySet<string> = new Set([
  'x-amz-acl',
  'x-amz-bucket-object-lock-enabled',
  'x-amz-bypass-governance-retention',
  'x-amz-checksum-algorithm',
  'x-amz-checksum-mode',
  'x-amz-checksum-type',
  ...checksumAlgorithms.map(checksumHeader),
  'x-amz-client-token',
  'x-amz-copy-source',
  'x-amz-copy-source-if-match',
  'x-amz-copy-source-if-modified-since',
  'x-amz-copy-source-if-none-match',
  'x-amz-copy-source-if-unmodified-since',
  'x-amz-copy-source-range',
  contentSha256,
  'x-amz-decoded-content-length',
  'x-amz-expected-bucket-owner',
  'x-amz-grant-full-control',
  'x-amz-grant-read',
  'x-amz-grant-read-acp',
  'x-amz-grant-write',
  'x-amz-grant-write-acp',
  'x-amz-if-match-last-modified-time',
  'x-amz-if-match-size',
  'x-amz-max-parts',
  'x-amz-metadata-directive',
  'x-amz-mp-object-size',
  'x-amz-object-attributes',
  'x-amz-object-lock-legal-hold',
  'x-amz-object-lock-mode',
  'x-amz-object-lock-retain-until-date',
  'x-amz-object-ownership',
  'x-amz-optional-object-attributes',
  'x-amz-part-number-marker',
  'x-amz-rename-source',
  'x-amz-rename-source-if-match',
  'x-amz-rename-source-if-modified-since',
  'x-amz-rename-source-if-none-match',
  'x-amz-rename-source-if-unmodified-since',
  'x-amz-request-payer',
  sdkAlgorithm,
  encryptionHeader,
  `${encryptionHeader}-aws-kms-key-id`,
  `${encryptionHeader}-bucket-key-enabled`,
  'x-amz-source-expected-bucket-owner',
  'x-amz-storage-class',
  'x-amz-tagging',
  'x-amz-tagging-directive',
  'x-amz-trailer',
  'x-amz-transition-default-minimum-object-size',
  'x-amz-website-redirect-location',
  'x-bursar-copy-source-as-of',
  'x-bursar-remakes',
  'x-bursar-store',
]);

/** Headers of S3 without an effect here, as where they are sent as headers. */
const harmlessHeaders: ReadonlySet<string> = new Set(['x-amz-user-agent']);

/** Headers of HTTP that change what an S3 operation does. */
const httpHeaders: ReadonlySet<string> = new Set([
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-md5',
  'content-type',
  'expires',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
]);

/** Names of S3's own are told from others by their beginning. */
const ownName = /^x-(?:amz|bursar)-/i;

/** Parameters that would change what is done, if they counted outside of presigned URLs. */
const effective = /^(?:x-amz-|x-bursar-|if-)/i;

/** What no header can have in it: it could not be given back either. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const control = /[\u0000-\u0008\u000a-\u001f\u007f]/;

/**
 * The request as all that follows authentication is to see it: of a presigned one, with the headers
 * that its query carries.
 *
 * Throws `Refusal` NotImplemented for a parameter of a presigned URL that has no meaning here and
 * may be meant to have one, and InvalidArgument for one that is given twice, cannot be a header or
 * contradicts one. Of a request that is not presigned InvalidArgument for a header in its query: S3
 * documents them for presigned URLs alone, and who signs headers, or nothing, can send them.
 */
export function takeQueryHeaders(request: S3Request, presigned: boolean): S3Request {
  if (!presigned) {
    refuseQueryHeaders(request);
    return request;
  }
  const headers: Record<string, string | undefined> = { ...request.headers };
  const seen = new Set<string>();
  for (const [parameter, value] of request.query) {
    const name = headerNameOf(parameter) ?? parameter;
    if (seen.has(name)) throw invalidArgument(parameter, value, 'The parameter is given twice.');
    seen.add(name);
    if (countsAsHeader(name)) headers[name] = readHeader(request, { parameter, name, value });
    else if (!isHarmless(request, parameter, name)) {
      throw new Refusal('NotImplemented', { fields: { Parameter: parameter } });
    }
  }
  // Of a presigned request this is what was signed for the body where nothing else is given.
  headers[contentSha256] ??= unsignedPayload;
  forgetEmptyChecksum(headers, seen);
  return { ...request, headers };
}

function refuseQueryHeaders({ query }: S3Request): void {
  for (const [parameter, value] of query) {
    if (!effective.test(parameter)) continue;
    const message = 'A header counts in the query of a presigned URL only; send it as a header.';
    throw invalidArgument(
      parameter,
      isCustomerHeader(parameter.toLowerCase()) ? '' : value,
      message,
    );
  }
}

/** `name`: in lower case. */
function countsAsHeader(name: string): boolean {
  if (metadataName.test(name)) return true;
  return s3Headers.has(name) || httpHeaders.has(name) || isUnimplementedHeader(name);
}

/** `parameter` as it is written, `name` in lower case. */
function isHarmless({ method }: S3Request, parameter: string, name: string): boolean {
  if (isAuthParameter(parameter) || isRouteParameter(parameter)) return true;
  if (ownName.test(parameter)) return harmlessHeaders.has(name);
  // "Amazon S3 server access log format": S3 ignores these, which are for who reads its logs.
  if (/^x-/i.test(parameter)) return true;
  // S3 ignores any other. Where nothing is changed, that does no harm.
  return method === 'GET' || method === 'HEAD';
}

/** Throws `Refusal` InvalidArgument for what cannot be a header, or contradicts one. */
function readHeader(
  request: S3Request,
  { parameter, name, value }: Record<'parameter' | 'name' | 'value', string>,
): string {
  const text = headerTextOf(value).replace(/^[ \t]+|[ \t]+$/g, '');
  if (control.test(text)) throw invalidArgument(parameter, value, 'It cannot be a header.');
  const sent = request.headers[name];
  if (sent === undefined || sent === text) return text;
  throw invalidArgument(
    parameter,
    value,
    `The query and the header ${name} contradict each other.`,
  );
}

/**
 * The AWS SDK for JavaScript signs the checksum of no bytes into a URL for a body that it does not
 * know. That says nothing of a body that has bytes, and is not compared with them.
 */
function forgetEmptyChecksum(
  headers: Record<string, string | undefined>,
  inQuery: ReadonlySet<string>,
): void {
  const length = headers['x-amz-decoded-content-length'] ?? headers['content-length'];
  const isEmpty =
    length === '0' || (length === undefined && headers['transfer-encoding'] === undefined);
  if (isEmpty) return;
  for (const [name, empty] of emptyChecksums) {
    if (!inQuery.has(name) || headers[name] !== empty) continue;
    delete headers[name];
    if (inQuery.has(sdkAlgorithm)) delete headers[sdkAlgorithm];
  }
}

/** The checksums of no bytes, by the names of their headers, of those that the SDK computes. */
const emptyChecksums = (['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'] as const).map(
  (one) => [checksumHeader(one), computeChecksum(one, Buffer.alloc(0)).toString('base64')] as const,
);
