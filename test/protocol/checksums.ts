// Five checksums of S3, computed without anything of Bursar's: SHA by Node, CRC-32 by zlib,
// CRC-32C and CRC-64/NVME from their definitions (reflected polynomials, all ones before and
// after).
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

export const algorithms = ['CRC32', 'CRC32C', 'CRC64NVME', 'SHA1', 'SHA256'] as const;
export type Algorithm = (typeof algorithms)[number];

const allBytes = Array.from({ length: 256 }, (_, byte) => byte);

const castagnoli = Int32Array.from(allBytes, (byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  return crc;
});

function crc32c(bytes: Buffer): number {
  let crc = -1;
  for (let i = 0; i < bytes.length; i++) {
    crc = (castagnoli[(crc ^ (bytes[i] as number)) & 255] as number) ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

const nvme = allBytes.map((byte) => {
  let crc = BigInt(byte);
  for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ 0x9a6c9329ac4bc9b5n : crc >> 1n;
  return crc;
});
const nvmeHigh = Int32Array.from(nvme, (crc) => Number(crc >> 32n));
const nvmeLow = Int32Array.from(nvme, (crc) => Number(crc & 0xffffffffn));

/** Two words of 32 bits, since a BigInt per byte would take seconds. */
function crc64Nvme(bytes: Buffer): Buffer {
  let high = -1;
  let low = -1;
  for (let i = 0; i < bytes.length; i++) {
    const at = (low ^ (bytes[i] as number)) & 255;
    low = ((low >>> 8) | (high << 24)) ^ (nvmeLow[at] as number);
    high = (high >>> 8) ^ (nvmeHigh[at] as number);
  }
  const out = Buffer.alloc(8);
  out.writeUInt32BE(~high >>> 0, 0);
  out.writeUInt32BE(~low >>> 0, 4);
  return out;
}

function word(value: number): Buffer {
  const out = Buffer.alloc(4);
  out.writeUInt32BE(value);
  return out;
}

export function checksumOf(algorithm: Algorithm, bytes: Buffer): Buffer {
  switch (algorithm) {
    case 'CRC32':
      return word(crc32(bytes));
    case 'CRC32C':
      return word(crc32c(bytes));
    case 'CRC64NVME':
      return crc64Nvme(bytes);
    case 'SHA1':
      return createHash('sha1').update(bytes).digest();
    case 'SHA256':
      return createHash('sha256').update(bytes).digest();
  }
}

export function base64Checksum(algorithm: Algorithm, bytes: Buffer): string {
  return checksumOf(algorithm, bytes).toString('base64');
}

/** The checksum of a multipart object of the composite type. */
export function compositeChecksum(algorithm: Algorithm, parts: readonly Buffer[]): string {
  const joined = Buffer.concat(parts.map((part) => checksumOf(algorithm, part)));
  return `${base64Checksum(algorithm, joined)}-${parts.length}`;
}

export function md5Of(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('hex');
}

/** The ETag of a multipart object, without quotes. */
export function multipartTag(parts: readonly Buffer[]): string {
  const md5 = createHash('md5');
  for (const part of parts) md5.update(createHash('md5').update(part).digest());
  return `${md5.digest('hex')}-${parts.length}`;
}
