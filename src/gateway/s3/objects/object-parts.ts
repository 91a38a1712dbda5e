// The parts that a multipart upload made an object of, which can be read one by one: `partNumber`
// of GetObject and HeadObject, `ObjectParts` of GetObjectAttributes (Amazon S3 API reference). An
// object that was written at once has one part, and no number of parts.
import type { Attributes, PartBytes } from '../../../catalog/versions.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { partChecksumsBytesMax, partCountMax } from '../../../core/limits.ts';
import type { ByteRange } from '../range.ts';
import { parameter, type S3Request } from '../request.ts';
import { checksumHeader } from './checksum-headers.ts';
import { checksumHeaders } from './object-attributes.ts';

/** A part by its place in the order of the parts, from 1 on, as it is asked for. */
export interface ObjectPart extends ByteRange {
  number: number;
  /** How many parts the object has; null: it was written at once. */
  count: number | null;
}

/**
 * The part that the request asks for; null: the whole object. Throws `Refusal` InvalidArgument,
 * InvalidRequest or InvalidPartNumber.
 */
export function askedPart(
  request: S3Request,
  attributes: Attributes,
  sizeBytes: number,
): ObjectPart | null {
  const text = parameter(request, 'partNumber');
  if (text === undefined) return null;
  const number = parsePartNumber(text);
  if (request.headers.range !== undefined) {
    const message = 'Cannot specify both Range header and partNumber query parameter';
    throw new Refusal('InvalidRequest', { message });
  }
  const parts = partSizesOf(attributes);
  const sizes = parts ?? [sizeBytes];
  const size = sizes[number - 1];
  if (size === undefined) {
    const fields = { PartNumberRequested: text, ActualPartCount: String(sizes.length) };
    throw new Refusal('InvalidPartNumber', { fields });
  }
  const start = sizes.slice(0, number - 1).reduce((sum, bytes) => sum + bytes, 0);
  return { number, start, end: start + size, count: parts?.length ?? null };
}

/** Sizes as they are kept, briefly: a client makes all parts but the last of one size. */
export function joinPartSizes(sizes: readonly number[]): PartBytes[] {
  const joined: [sizeBytes: number, count: number][] = [];
  for (const size of sizes) {
    const last = joined.at(-1);
    if (last?.[0] === size) last[1]++;
    else joined.push([size, 1]);
  }
  return joined.map(([size, count]) => (count === 1 ? size : [size, count]));
}

/** The size of each part; undefined: the object was written at once. */
export function partSizesOf({ partBytes }: Attributes): number[] | undefined {
  return partBytes?.flatMap((of) => {
    return typeof of === 'number' ? [of] : Array.from({ length: of[1] }, () => of[0]);
  });
}

/** Throws `Refusal` InvalidArgument. */
export function parsePartNumber(text: string): number {
  const number = Number(text);
  if (/^\d{1,5}$/.test(text) && number >= 1 && number <= partCountMax) return number;
  const message = `Part number must be an integer between 1 and ${partCountMax}, inclusive`;
  throw invalidArgument('partNumber', text, message);
}

/** The checksums of the parts together, as they are kept; undefined: they are too many bytes. */
export function joinPartChecksums(checksums: readonly Buffer[]): string | undefined {
  const joined = Buffer.concat(checksums);
  return joined.length <= partChecksumsBytesMax ? joined.toString('base64') : undefined;
}

/** What gives the checksum of a part by its number, base64; undefined: it is not kept. */
export function partChecksumsOf(attributes: Attributes): (number: number) => string | undefined {
  const { partChecksums } = attributes;
  const sizes = partSizesOf(attributes);
  if (sizes === undefined || partChecksums === undefined) return () => undefined;
  const joined = Buffer.from(partChecksums, 'base64');
  const bytes = joined.length / sizes.length;
  return (number) => joined.subarray((number - 1) * bytes, number * bytes).toString('base64');
}

/** The response headers of a part's checksum. */
export function partChecksumHeaders(
  attributes: Attributes,
  { number, count }: ObjectPart,
): Record<string, string> {
  if (count === null) return checksumHeaders(attributes);
  const value = partChecksumsOf(attributes)(number);
  const { checksum } = attributes;
  if (value === undefined || !checksum) return {};
  return { [checksumHeader(checksum.algorithm)]: value, 'x-amz-checksum-type': checksum.type };
}
