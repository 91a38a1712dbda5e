// `Range: bytes=…` (RFC 9110 section 14.1.2), one range, as S3 has it.
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { rangeHeaderLengthMax } from '../../core/limits.ts';

/** Bytes `[start, end)` of an object. */
export interface ByteRange {
  start: number;
  end: number;
}

/**
 * Null: no range, or one that S3 ignores (another unit, several ranges, bad syntax): the whole
 * object. Throws `Refusal` InvalidRange when no byte of the object is in it.
 */
export function parseRange(text: string | undefined, sizeBytes: number): ByteRange | null {
  // The bound comes first: what follows takes time that grows with the square of the length.
  if (text === undefined || text.length > rangeHeaderLengthMax) return null;
  const match = /^bytes=(\d*)-(\d*)$/.exec(text);
  if (!match) return null;
  const [, first = '', last = ''] = match;
  if (first === '' && last === '') return null;
  if (first === '') {
    const suffix = Number(last);
    if (suffix === 0) throw unsatisfiable(text, sizeBytes);
    // The last bytes of nothing are all of it, and no Content-Range names them.
    if (sizeBytes === 0) return null;
    return { start: Math.max(sizeBytes - suffix, 0), end: sizeBytes };
  }
  const start = Number(first);
  const end = last === '' ? sizeBytes : Math.min(Number(last) + 1, sizeBytes);
  if (last !== '' && Number(last) < start) return null;
  if (start >= sizeBytes) throw unsatisfiable(text, sizeBytes);
  return { start, end };
}

/**
 * `x-amz-copy-source-range: bytes=first-last`, where both are demanded and must lie in the source.
 */
export function parseCopyRange(text: string | undefined, sizeBytes: number): ByteRange | null {
  if (text === undefined) return null;
  const match = /^bytes=(\d+)-(\d+)$/.exec(text);
  const start = Number(match?.[1]);
  const end = Number(match?.[2]) + 1;
  if (!match || start >= end) {
    const message =
      'The x-amz-copy-source-range value must be of the form bytes=first-last where first and ' +
      'last are the zero-based offsets of the first and last bytes to copy';
    throw invalidArgument('x-amz-copy-source-range', text, message);
  }
  if (start >= sizeBytes) {
    const message = 'The specified copy range is invalid for the source object size';
    throw new Refusal('InvalidRequest', { message });
  }
  if (end > sizeBytes) {
    const message = `Range specified is not valid for source object of size: ${sizeBytes}`;
    throw invalidArgument('x-amz-copy-source-range', text, message);
  }
  return { start, end };
}

function unsatisfiable(text: string, sizeBytes: number): Refusal {
  const fields = { RangeRequested: text, ActualObjectSize: String(sizeBytes) };
  return new Refusal('InvalidRange', { fields });
}
