// The checksums that clients send and ask for: `x-amz-checksum-<algorithm>` as header or announced
// trailer ("Checking object integrity" of the Amazon S3 user guide).
import { trailerNames } from '../../../authz/aws-chunked.ts';
import { Refusal } from '../../../core/errors.ts';
import {
  type ChecksumAlgorithm,
  checksumAlgorithms,
  checksumBytes,
} from '../../../tiering/checksums.ts';
import type { S3Request } from '../request.ts';

const claimable = checksumAlgorithms.map((algorithm) => ({
  algorithm,
  headerName: checksumHeader(algorithm),
}));

export interface ClaimedChecksum {
  algorithm: ChecksumAlgorithm;
  headerName: string;
  /** Base64; null when it comes as a trailer. */
  value: string | null;
}

export function checksumHeader(algorithm: string): string {
  return `x-amz-checksum-${algorithm.toLowerCase()}`;
}

/** `ChecksumCRC32`: the element of S3's XML. */
export function checksumElement(algorithm: string): string {
  return `Checksum${algorithm}`;
}

/**
 * The one checksum that the request carries or announces. Throws `Refusal` for two, for a bad one,
 * and for one of an algorithm that is not implemented.
 */
export function claimedChecksum(request: S3Request): ClaimedChecksum | null {
  const isTrailed = request.headers['x-amz-trailer'] !== undefined;
  const announced = isTrailed ? trailerNames(request.headers) : [];
  if (isTrailed) refuseUnknown(announced);
  let claimed: ClaimedChecksum | null = null;
  for (const { algorithm, headerName } of claimable) {
    const trails = announced.includes(headerName);
    if (request.headers[headerName] === undefined && !trails) continue;
    const value = request.headers[headerName] ?? null;
    if (claimed || (value !== null && trails)) {
      throw severalChecksums();
    }
    claimed = { algorithm, headerName, value };
  }
  if (claimed && claimed.value !== null) decodeChecksum(claimed.algorithm, claimed.value);
  const named = request.headers['x-amz-sdk-checksum-algorithm'];
  if (named === undefined) return claimed;
  const algorithm = parseAlgorithm(named);
  if (!claimed) {
    const message =
      'x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or ' +
      'x-amz-trailer headers were found.';
    throw new Refusal('InvalidRequest', { message });
  }
  if (claimed.algorithm !== algorithm) {
    throw new Refusal('InvalidRequest', {
      message: 'Value for x-amz-sdk-checksum-algorithm header is invalid.',
    });
  }
  return claimed;
}

/** Throws `Refusal` NotImplemented: who sends a checksum takes it for compared. */
function refuseUnknown(names: readonly string[]): void {
  const isUnknown = (name: string): boolean =>
    name.startsWith('x-amz-checksum-') &&
    !checksumAlgorithms.some((one) => checksumHeader(one) === name);
  const unknown = names.find(isUnknown);
  if (unknown !== undefined) throw new Refusal('NotImplemented', { fields: { Header: unknown } });
}

export function severalChecksums(): Refusal {
  const message =
    'Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.';
  return new Refusal('InvalidRequest', { message });
}

/** The algorithm that a header names. Throws `Refusal` InvalidRequest. */
export function parseAlgorithm(text: string): ChecksumAlgorithm {
  const algorithm = checksumAlgorithms.find((one) => one === text.toUpperCase());
  if (algorithm) return algorithm;
  const message =
    'Checksum algorithm provided is unsupported. Please try again with any of the valid types: ' +
    `[${checksumAlgorithms.join(', ')}]`;
  throw new Refusal('InvalidRequest', { message });
}

/** Throws `Refusal` InvalidRequest unless `text` is base64 of the algorithm's length. */
export function decodeChecksum(algorithm: ChecksumAlgorithm, text: string): Buffer {
  if (!isChecksum(algorithm, text)) {
    const message = `Value for ${checksumHeader(algorithm)} header is invalid.`;
    throw new Refusal('InvalidRequest', { message });
  }
  return Buffer.from(text, 'base64');
}

/** Whether `text` is base64 of the algorithm's length. */
export function isChecksum(algorithm: ChecksumAlgorithm, text: string): boolean {
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === checksumBytes[algorithm] && bytes.toString('base64') === text;
}
