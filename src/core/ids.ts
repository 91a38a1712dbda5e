// Identifiers. Extent ids begin with the time (as RFC 9562 version 7 does), so that new rows of the
// catalog's extent table land beside each other; the other 80 bits are random and make them unique.
import { randomBytes, randomFillSync } from 'node:crypto';

export const extentIdBytes = 16;

const pool = Buffer.allocUnsafe(16 * 256);
let poolOffset = pool.length;

/**
 * Where the pool has `count` random bytes (at most 16) that are nobody else's, until it is filled
 * again: so small ids cost no system call each.
 */
function takeRandom(count: number): number {
  if (poolOffset + count > pool.length) {
    randomFillSync(pool);
    poolOffset = 0;
  }
  const start = poolOffset;
  poolOffset += count;
  return start;
}

/** A new 128-bit extent id: 48 bits of milliseconds, 80 random bits. */
export function newExtentId(): Buffer {
  const id = Buffer.allocUnsafeSlow(extentIdBytes);
  id.writeUIntBE(Date.now(), 0, 6);
  const start = takeRandom(10);
  pool.copy(id, 6, start, start + 10);
  return id;
}

/** 16 upper-case hexadecimal digits, as S3's request ids look. */
export function newRequestId(): string {
  const start = takeRandom(8);
  return pool.toString('hex', start, start + 8).toUpperCase();
}

let uploadsMs = 0;
let uploadsInMs = 0;

/**
 * A multipart upload id, safe in URLs and XML. It begins with the time, and of the same millisecond
 * with the order in which they were made, since S3 lists the uploads of a key as they began; its
 * other 80 bits are random.
 */
export function newUploadId(): string {
  const nowMs = Date.now();
  uploadsInMs = nowMs === uploadsMs ? uploadsInMs + 1 : 0;
  uploadsMs = nowMs;
  const order = Buffer.allocUnsafe(8);
  order.writeUIntBE(nowMs, 0, 6);
  order.writeUInt16BE(Math.min(uploadsInMs, 0xffff), 6);
  return order.toString('hex') + randomBytes(10).toString('hex');
}

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** `BUR` and 17 random characters: 20 in all, as long as an AWS access key id. */
export function newAccessKeyId(): string {
  return randomId('BUR');
}

/** The same of temporary keys, which begin with `ASIA` everywhere. */
export function newTemporaryKeyId(): string {
  return randomId('ASIA');
}

/** The same of SigV4A keys, which their owners make. */
export function newAsymmetricKeyId(): string {
  return randomId('AKIA');
}

function randomId(prefix: string): string {
  let id = prefix;
  for (const byte of randomBytes(20 - prefix.length)) id += alphabet[byte & 31];
  return id;
}

/** 240 random bits as 40 characters, as long as an AWS secret access key. */
export function newSecretAccessKey(): string {
  return randomBytes(30).toString('base64');
}
