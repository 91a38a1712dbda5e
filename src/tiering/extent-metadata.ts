// What an extent in a remote store says of itself, sealed behind its chunks, so that a lost catalog
// can be rebuilt from the store alone (docs/formats/extent.md). AES-256-GCM (NIST SP 800-38D) under
// a key of its epoch, bound to the extent's id. Invariant: what `openExtentMetadata` gives was
// written by this gateway for this very extent, and each field has its type and range.
import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { IntegrityError } from '../core/errors.ts';
import { isObject } from '../core/json.ts';
import type { Keyring } from '../core/keyring.ts';
import { extentBytesMax } from '../core/limits.ts';
import { sealedBytes } from './chunk-format.ts';
import type { RemoteStore } from './stores/store.ts';
import { askAgain } from './stores/store-meter.ts';

/** The place where the bytes of a write belong. */
export interface WritePlace {
  tenant: string;
  bucket: string;
  bucketId: number;
  key: string;
  /** The bytes are a part of a multipart upload. */
  upload?: { id: string; part: number };
}

/** What the catalog says of a plain object besides its place, its bytes and their SHA-256. */
export interface ObjectDescription {
  etag: string;
  class: string;
  owner: string;
  /** JSON, as in the catalog. */
  attributes: string;
  /**
   * The extents alone cannot restore the write: it had a condition, so it may have been refused
   * after its bytes were stored; or it made a version, whose id only the catalog knows.
   */
  needsJournal?: true;
}

/** The last extent of a write that makes an object also says what the object is. */
export interface LastExtent extends ObjectDescription {
  /** Extents of the write, this one included. */
  extentCount: number;
  sizeBytes: number;
  /** Hex. */
  sha256: string;
  timeMs: number;
}

export interface ExtentMetadata extends WritePlace {
  /** The id of the write's first extent, hex: the same in all extents of one write. */
  write: string;
  /** Which extent of the write it is, from 0, and how many bytes of it come before. */
  index: number;
  offset: number;
  extentBytes: number;
  algorithm: number;
  /** The epoch of the tenant key that seals the chunks. */
  epoch: number;
  last?: LastExtent;
}

const magic = Buffer.from('BSX1');
const version = 1;
const nonceBytes = 12;
const gcmTagBytes = 16;
/** version 1 | epoch 2 | nonce 12 | tag 16 */
const headBytes = 3 + nonceBytes + gcmTagBytes;
/** length 4 | magic 4 */
const footBytes = 8;
/** Lengths are padded to a multiple of this, so that they say little about keys and metadata. */
const paddingBytes = 256;
/** Enough for 32 KiB of headers, with each character escaped in JSON within JSON, and the rest. */
const metadataBytesMax = 256 * 1024;
/** How much is read at first to find a trailer: nearly all are shorter. */
const firstReadBytes = 4096;

function contextOf(id: Buffer): Buffer {
  return Buffer.concat([Buffer.from('bursar/extent-metadata/v1\0'), id]);
}

/**
 * The trailer of extent `id`, under the current epoch. `trailerBytes`: as many as it had before,
 * which manifests know; what does not fit into it is left out.
 */
export function sealExtentMetadata(
  keyring: Keyring,
  id: Buffer,
  metadata: ExtentMetadata,
  trailerBytes?: number,
): Buffer {
  const room = trailerBytes === undefined ? null : trailerBytes - headBytes - footBytes;
  const whole = Buffer.from(JSON.stringify(metadata));
  const isTooLong = room !== null && whole.length > room;
  // Another key may be longer than the one that it was written for.
  const plain = isTooLong ? Buffer.from(JSON.stringify({ ...metadata, key: '' })) : whole;
  if (plain.length > (room ?? metadataBytesMax)) {
    throw new Error(`${plain.length} bytes about an extent`);
  }
  const paddedBytes = room ?? Math.ceil(plain.length / paddingBytes) * paddingBytes;
  const trailer = Buffer.allocUnsafe(headBytes + paddedBytes + footBytes);
  const epoch = keyring.currentEpoch;
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', keyOf(keyring, epoch), nonce);
  cipher.setAAD(contextOf(id));
  trailer[0] = version;
  trailer.writeUInt16BE(epoch, 1);
  nonce.copy(trailer, 3);
  const filled = headBytes + cipher.update(plain).copy(trailer, headBytes);
  cipher.update(Buffer.alloc(paddedBytes - plain.length, ' ')).copy(trailer, filled);
  cipher.final();
  cipher.getAuthTag().copy(trailer, 3 + nonceBytes);
  trailer.writeUInt32BE(headBytes + paddedBytes, headBytes + paddedBytes);
  magic.copy(trailer, headBytes + paddedBytes + 4);
  return trailer;
}

function keyOf(keyring: Keyring, epoch: number): KeyObject {
  return createSecretKey(keyring.extentMetadataKey(epoch));
}

/** Bytes of the trailer that an extent with these last bytes has. Throws IntegrityError. */
export function countTrailerBytes(end: Buffer): number {
  const footAt = end.length - footBytes;
  if (footAt < 0 || !end.subarray(footAt + 4).equals(magic)) {
    throw new IntegrityError('an extent without metadata');
  }
  const sealed = end.readUInt32BE(footAt);
  if (sealed < headBytes || sealed > headBytes + metadataBytesMax + paddingBytes) {
    throw new IntegrityError(`an extent with ${sealed} bytes of metadata`);
  }
  return sealed + footBytes;
}

/** Opens a whole trailer of extent `id`. Throws IntegrityError when it is not one of ours. */
export function openExtentMetadata(keyring: Keyring, id: Buffer, trailer: Buffer): ExtentMetadata {
  if (countTrailerBytes(trailer) !== trailer.length || trailer[0] !== version) {
    throw new IntegrityError('metadata of an extent in another form');
  }
  const key = keyOf(keyring, trailer.readUInt16BE(1));
  const nonce = trailer.subarray(3, 3 + nonceBytes);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: gcmTagBytes });
  decipher.setAAD(contextOf(id));
  decipher.setAuthTag(trailer.subarray(3 + nonceBytes, headBytes));
  let parsed: unknown;
  try {
    const sealed = trailer.subarray(headBytes, trailer.length - footBytes);
    const plain = Buffer.concat([decipher.update(sealed), decipher.final()]);
    parsed = JSON.parse(plain.toString());
  } catch (cause) {
    const name = id.toString('hex');
    throw new IntegrityError(`the metadata of extent ${name} is not authentic`, { cause });
  }
  return readMetadata(parsed);
}

/**
 * What extent `id` says of itself, and its sizes in the store. undefined: there is no such extent.
 * Throws IntegrityError when metadata and size do not belong together, and what the store throws.
 */
export function readExtentMetadata(
  store: RemoteStore,
  keyring: Keyring,
  id: Buffer,
): Promise<FoundMetadata | undefined> {
  return askAgain(store.meter, () => readMetadataOnce(store, keyring, id));
}

interface FoundMetadata {
  metadata: ExtentMetadata;
  trailerBytes: number;
  sizeBytes: number;
}

async function readMetadataOnce(
  store: RemoteStore,
  keyring: Keyring,
  id: Buffer,
): Promise<FoundMetadata | undefined> {
  let end = await store.readEnd(id, firstReadBytes);
  if (!end) return undefined;
  const trailerBytes = countTrailerBytes(end.bytes);
  if (trailerBytes > end.bytes.length) end = await store.readEnd(id, trailerBytes);
  if (!end) return undefined;
  const { bytes, sizeBytes } = end;
  if (bytes.length < trailerBytes) throw new IntegrityError('an extent shorter than its metadata');
  const trailer = bytes.subarray(bytes.length - trailerBytes);
  const metadata = openExtentMetadata(keyring, id, trailer);
  if (sizeBytes !== sealedBytes(metadata.extentBytes) + trailerBytes) {
    throw new IntegrityError(`an extent of ${sizeBytes} bytes says that it is of another size`);
  }
  return { metadata, trailerBytes, sizeBytes };
}

type Fields = Record<string, unknown>;

function readMetadata(parsed: unknown): ExtentMetadata {
  const fields = fieldsOf(parsed);
  const { upload, last } = fields;
  return {
    tenant: readText(fields, 'tenant'),
    bucket: readText(fields, 'bucket'),
    bucketId: readCount(fields, 'bucketId'),
    key: readText(fields, 'key'),
    write: readHex(fields, 'write', 16),
    index: readCount(fields, 'index'),
    offset: readCount(fields, 'offset'),
    extentBytes: readCount(fields, 'extentBytes', 1, extentBytesMax),
    algorithm: readCount(fields, 'algorithm', 1, 255),
    epoch: readCount(fields, 'epoch', 1, 0xffff),
    ...(upload === undefined ? {} : { upload: readUpload(fieldsOf(upload)) }),
    ...(last === undefined ? {} : { last: readLast(fieldsOf(last)) }),
  };
}

function readUpload(fields: Fields): { id: string; part: number } {
  return { id: readText(fields, 'id'), part: readCount(fields, 'part', 1) };
}

function readLast(fields: Fields): LastExtent {
  return {
    extentCount: readCount(fields, 'extentCount', 1),
    sizeBytes: readCount(fields, 'sizeBytes', 1),
    etag: readText(fields, 'etag'),
    sha256: readHex(fields, 'sha256', 32),
    class: readText(fields, 'class'),
    owner: readText(fields, 'owner'),
    attributes: readText(fields, 'attributes'),
    timeMs: readCount(fields, 'timeMs'),
    ...(fields.needsJournal === true ? { needsJournal: true } : {}),
  };
}

function fieldsOf(value: unknown): Fields {
  if (isObject(value)) return value;
  throw new IntegrityError('metadata of an extent that is no object');
}

function readText(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === 'string') return value;
  throw new IntegrityError(`metadata of an extent without ${name}`);
}

function readHex(fields: Fields, name: string, bytes: number): string {
  const value = readText(fields, name);
  if (value.length === 2 * bytes && /^[0-9a-f]*$/.test(value)) return value;
  throw new IntegrityError(`metadata of an extent with an odd ${name}`);
}

function readCount(
  fields: Fields,
  name: string,
  min = 0,
  max: number = Number.MAX_SAFE_INTEGER,
): number {
  const value = fields[name];
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) {
    return value as number;
  }
  throw new IntegrityError(`metadata of an extent with an odd ${name}`);
}
