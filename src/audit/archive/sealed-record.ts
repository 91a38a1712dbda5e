// One record as it lies in the archive: compressed, then encrypted under its own salt, which stays
// in the database. So erasing the salt erases the record in every copy of the archive, wherever
// those are. AES-256-CTR (NIST SP 800-38A): the key is SHA-256("bursar/archived-record/v1" ‖ 0 ‖
// salt), one for each record, and the initial counter block is the pack's nonce. Nothing here
// authenticates: what was opened is compared with the record's commitment. DEFLATE (RFC 1951) with
// a dictionary, since records are short and alike. Pure.
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  type KeyObject,
} from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';

export const nonceBytes = 16;
/** No record is longer than this. */
const recordBytesMax = 16 * 1024 * 1024;

const keyLabel = Buffer.from('bursar/archived-record/v1\0');

/**
 * Text that most records have in common. A record that was compressed with it is read with it
 * alone.
 */
const dictionary = Buffer.from(
  [
    '{"alarm":{"limit":"","meter":"","percent":80,"used":"","window":"month"},',
    '"action":"bursar:","target":"tenants//principals/","limits":{',
    '"backend":[{"cost":"0.00000","frees":0,"gets":1,"priceBook":"aws-us-east-1-2026","puts":1,',
    '"receivedBytes":0,"sentBytes":0,"store":"s3"}],"backendCost":"0.00000',
    '"error":"AccessDenied","error":"NoSuchKey","error":"QuotaExceeded","error":"InvalidRequest"',
    '"keyThumbprint":"","range":"0-","bucketTenant":"","byteMs":"","period":"2026-',
    '"supersedes":,"tokens":["","storageCost":"0.000","evidence":"body-signed","evidence":"none",',
    '"headers-signed","evidenceHash":"","action":"s3:DeleteObject","action":"s3:ListBucket",',
    '"status":403,"status":404,"storedBytes":-,"storedObjects":-1,"price":"get",',
    '{"accessKeyId":"BUR","action":"s3:GetObject","bucket":"","bucketOwner":"","bytesIn":0,',
    '"bytesOut":0,"class":"STANDARD","cost":"0.0000004","etag":"","evidence":"shared-secret",',
    '"index":1,"key":"","price":"get","priceBook":"aws-us-east-1-2026","principal":"",',
    '"requestId":"","sha256":"","size":0,"source":"127.0.0.1","status":200,"storedBytes":0,',
    '"storedObjects":0,"tenant":"default","time":"2026-01-01T00:00:00.000Z","version":',
    '{"accessKeyId":"ASIA","action":"s3:PutObject","bucket":"data","bucketOwner":"admin",',
    '"bytesIn":4096,"bytesOut":0,"class":"STANDARD","cost":"0.000005","etag":"',
    '","evidence":"shared-secret","index":10,"key":"data/","price":"put",',
    '"priceBook":"aws-us-east-1-2026","principal":"admin","requestId":"","sha256":"',
    '","size":4096,"source":"10.0.0.1","status":200,"storedBytes":4096,"storedObjects":1,',
    '"tenant":"default","time":"2026-12-31T',
    '"}',
  ].join(''),
);

const compression = { dictionary, level: 9, windowBits: 15, memLevel: 8 };

export interface RecordKey {
  /** Of the record. */
  salt: Uint8Array;
  /** The nonce of its pack, 16 bytes. */
  nonce: Uint8Array;
}

export function sealRecord(text: string, { salt, nonce }: RecordKey): Buffer {
  const cipher = createCipheriv('aes-256-ctr', keyOf(salt), nonce);
  return cipher.update(deflateRawSync(text, compression));
}

/** undefined: it was not sealed under this salt, or was altered. That what it gives is right, only
 * the record's commitment can tell. */
export function openRecord(sealed: Uint8Array, { salt, nonce }: RecordKey): string | undefined {
  const cipher = createDecipheriv('aes-256-ctr', keyOf(salt), nonce);
  try {
    const options = { dictionary, maxOutputLength: recordBytesMax };
    return inflateRawSync(cipher.update(sealed), options).toString();
  } catch {
    return undefined;
  }
}

function keyOf(salt: Uint8Array): KeyObject {
  return createSecretKey(hash('sha256', Buffer.concat([keyLabel, salt]), 'buffer'));
}
