// The journal's objects, docs/formats/journal.md: lines of JSON under AES-256-GCM (NIST SP
// 800-38D) with the journal key of an epoch, bound to generation and name. Invariant: what
// `openObject` gives was written by a gateway with these keys under this very name, and each field
// has its type. They are not compressed: the length of what several tenants' texts are squeezed
// into tells about them.

import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import type { Versioning } from '../../catalog/buckets.ts';
import { IntegrityError } from '../../core/errors.ts';
import { isCount } from '../../core/json.ts';
import type { Keyring } from '../../core/keyring.ts';
import {
  type Checking,
  type Fields,
  type IdentityEntry,
  isFlag,
  isTellsOrNone,
  isText,
  isTextOrNull,
  readIdentities,
  type StrangeEntry,
} from './identity-format.ts';
import { type KeptEntry, readKept } from './kept-format.ts';

const isCountOrNone = (value: unknown): value is number | null | undefined =>
  value === undefined || value === null || isCount(value);
const isTextOrNone = (value: unknown): value is string | null | undefined =>
  value === undefined || isTextOrNull(value);
const isVersioning = (value: unknown): value is Versioning =>
  value === 'Unversioned' || value === 'Enabled' || value === 'Suspended';
/** Null: S3's `null` version. */
const isVersionId = (value: unknown): value is string | null => value === null || isId(value);
const isId = (value: unknown): value is string => isText(value) && /^[0-9a-f]{32}$/.test(value);
const isIds = (value: unknown): value is string[] => Array.isArray(value) && value.every(isId);
const isTexts = (value: unknown): value is Record<string, string> =>
  typeof value === 'object' && value !== null && Object.values(value).every(isText);

/**
 * BEGIN of the newest snapshot that was complete when this was written; null: there was none.
 * Absent from what 0.1.0 wrote.
 */
const since = { snapshot: isCountOrNone };

/** What an object of the journal is, its first line. Times are milliseconds since the epoch. */
const heads = {
  /**
   * The generation counts: it is the journal of the store of this number. `losses`: objects that
   * the rebuild which began it could not restore, and whose extents may still be there. `instance`:
   * the database that writes it, of which others may be in other stores; 0.1.0 does not say it.
   */
  begin: {
    store: isCount,
    name: isText,
    losses: isCount,
    timeMs: isCount,
    ...since,
    instance: isTextOrNone,
  },
  /** Changes up to `lastSeq`; `previous` is the segment that was written before it. */
  segment: { previous: isTextOrNull, lastSeq: isCount, timeMs: isCount, ...since },
  /** A page of a snapshot that tells of all changes before `beginSeq`, begun at `timeMs`. */
  page: { beginSeq: isCount, timeMs: isCount },
  /** The snapshot has so many pages. `tells`: what of identities; absent: nothing. */
  complete: { beginSeq: isCount, pages: isCount, timeMs: isCount, tells: isTellsOrNone },
  /** `note` is a checkpoint of the audit log, as it was signed. */
  checkpoint: { note: isText, timeMs: isCount },
} satisfies Record<string, Fields>;

/**
 * What is told of identities, in the head: readers that know nothing of them, as 0.1.0, read the
 * rest.
 */
interface Identities {
  identities?: (IdentityEntry | StrangeEntry)[];
}

/** The same of snapshots and what they hold. */
interface Kept {
  kept?: KeptEntry[];
}

export type Head =
  | Checking<'begin' | 'complete' | 'checkpoint', typeof heads>
  | (Checking<'segment' | 'page', typeof heads> & Identities & Kept);

/** Entries that are `told` are as new as that change, at least: the newest of a thing holds. */
const told = { toldSeq: isCount };

const entryKinds = {
  bucket: {
    ...told,
    id: isCount,
    tenant: isText,
    name: isText,
    owner: isText,
    createdMs: isCount,
    versioning: isVersioning,
    /** JSON, as in the catalog; null: none. */
    objectLock: isTextOrNull,
    publicAccess: isTextOrNull,
    ownership: isTextOrNull,
    /** Absent from what 0.1.0 wrote. */
    recordReads: isTextOrNone,
  },
  /**
   * What else is set of a bucket, and may be long. `documents`, by name: its policy, as it was
   * sent, and the JSON of what `bucket_settings` has.
   */
  settings: { ...told, bucketId: isCount, documents: isTexts },
  /** There is no bucket of this id any more, nor will there be. */
  bucketGone: { id: isCount },
  /** A version that is kept. Its row was authentic; who restores it makes MACs anew. */
  version: {
    ...told,
    bucketId: isCount,
    key: isText,
    versionId: isVersionId,
    /** It is a delete marker. */
    isMarker: isFlag,
    /** Its place among the versions of its key. */
    seq: isCount,
    createdMs: isCount,
    sizeBytes: isCount,
    etag: isText,
    /** Hex. */
    sha256: isTextOrNull,
    class: isText,
    owner: isText,
    /** JSON, as in the catalog. */
    attributes: isText,
    /** Base64. */
    manifest: isText,
  },
  /** There is no version of this id under a key, since this moment or an earlier one. */
  gone: { ...told, bucketId: isCount, key: isText, versionId: isVersionId, timeMs: isCount },
  /** Extents, hex, that may still be in the store and belong to nothing. */
  garbage: { ids: isIds },
} satisfies Record<string, Fields>;

export type Entry = Checking<keyof typeof entryKinds, typeof entryKinds>;
export type BucketEntry = Checking<'bucket', typeof entryKinds>;
export type SettingsEntry = Checking<'settings', typeof entryKinds>;
export type VersionEntry = Checking<'version', typeof entryKinds>;

export interface JournalObject {
  head: Head;
  entries: Entry[];
}

/** Where an object is: its name without the generation's folder is `name`. */
export interface Place {
  generation: string;
  name: string;
}

export const journalFolder = 'journal/';
export const beginName = 'begin';
export const checkpointName = 'checkpoint';
/** Nothing larger is read; the entry of the largest object that there can be fits twice. */
export const objectBytesMax = 64 * 1024 * 1024;

const magic = Buffer.from('BSJ1');
const nonceBytes = 12;
const tagBytes = 16;
/** magic 4 | epoch 2 | nonce 12 | tag 16 */
const headBytes = magic.length + 2 + nonceBytes + tagBytes;
/** The length of what is padded to this says little about a single key. */
const paddingBytes = 256;

export function objectName({ generation, name }: Place): string {
  return `${journalFolder}${generation}/${name}`;
}

/** Names that sort as their numbers do. */
export function segmentName(firstSeq: number, lastSeq: number): string {
  return `${digits(firstSeq)}-${digits(lastSeq)}`;
}

/** The last seq that a segment's name says; null when it is no segment's name. */
export function lastSeqOf(name: string): number | null {
  const found = /^(\d{20})-(\d{20})$/.exec(name);
  if (!found) return null;
  const lastSeq = Number(found[2]);
  // A number that is none of ours would not come out as its name.
  return Number.isSafeInteger(lastSeq) && Number(found[1]) <= lastSeq ? lastSeq : null;
}

/** The first seq that a segment's name says; null when it is no segment's name. */
export function firstSeqOf(name: string): number | null {
  return lastSeqOf(name) === null ? null : Number(name.slice(0, 20));
}

const snapshotPrefix = 'snapshot-';

export function pageName(beginSeq: number, page: number): string {
  return `${snapshotPrefix}${digits(beginSeq)}-${digits(page)}`;
}

export function completeName(beginSeq: number): string {
  return `${snapshotPrefix}${digits(beginSeq)}-complete`;
}

/** Which snapshot an object belongs to, and whether it completes it; null: to none. */
export function snapshotOf(name: string): { beginSeq: number; isComplete: boolean } | null {
  const found = /^snapshot-(\d{20})-(\d{20}|complete)$/.exec(name);
  const beginSeq = Number(found?.[1]);
  if (!found || !Number.isSafeInteger(beginSeq)) return null;
  return { beginSeq, isComplete: found[2] === 'complete' };
}

function digits(value: number): string {
  return String(value).padStart(20, '0');
}

/** The sealed form of `lines`, each the JSON of a head or an entry. */
export function sealObject(keyring: Keyring, place: Place, lines: readonly string[]): Buffer {
  const text = lines.join('\n');
  const plainBytes = Buffer.byteLength(text);
  const bodyBytes = Math.ceil(plainBytes / paddingBytes) * paddingBytes;
  const sealed = Buffer.allocUnsafe(headBytes + bodyBytes);
  sealed.write(text, headBytes);
  sealed.fill('\n', headBytes + plainBytes);
  const epoch = keyring.currentEpoch;
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', keyOf(keyring, epoch), nonce);
  cipher.setAAD(contextOf(place));
  cipher.update(sealed.subarray(headBytes)).copy(sealed, headBytes);
  cipher.final();
  magic.copy(sealed);
  sealed.writeUInt16BE(epoch, magic.length);
  nonce.copy(sealed, magic.length + 2);
  cipher.getAuthTag().copy(sealed, magic.length + 2 + nonceBytes);
  return sealed;
}

/** Throws IntegrityError when the bytes are not what a gateway with these keys put there. */
export function openObject(keyring: Keyring, place: Place, sealed: Buffer): JournalObject {
  const shown = objectName(place);
  if (sealed.length < headBytes || !sealed.subarray(0, magic.length).equals(magic)) {
    throw new IntegrityError(`${shown} is not of a journal`);
  }
  const key = keyOf(keyring, sealed.readUInt16BE(magic.length));
  const nonceAt = magic.length + 2;
  const nonce = sealed.subarray(nonceAt, nonceAt + nonceBytes);
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(contextOf(place));
  decipher.setAuthTag(sealed.subarray(nonceAt + nonceBytes, headBytes));
  let text: string;
  try {
    text = decipher.update(sealed.subarray(headBytes)).toString();
    decipher.final();
  } catch (cause) {
    throw new IntegrityError(`${shown} is not authentic`, { cause });
  }
  return parseObject(shown, text);
}

function keyOf(keyring: Keyring, epoch: number): KeyObject {
  return createSecretKey(keyring.journalKey(epoch));
}

function contextOf({ generation, name }: Place): Buffer {
  return Buffer.from(`bursar/journal/v1\0${generation}\0${name}`);
}

function parseObject(shown: string, text: string): JournalObject {
  const [first, ...rest] = text.split('\n').filter((line) => line !== '');
  try {
    return {
      head: readHead(JSON.parse(first ?? 'null')),
      entries: rest.map((line) => readFields<Entry>(entryKinds, JSON.parse(line))),
    };
  } catch (cause) {
    throw new IntegrityError(`${shown} is of another version`, { cause });
  }
}

function readHead(value: unknown): Head {
  const head = readFields<Head>(heads, value);
  if (head.kind !== 'segment' && head.kind !== 'page') return head;
  const { identities, kept } = head;
  return {
    ...head,
    ...(identities !== undefined && { identities: readIdentities(identities) }),
    ...(kept !== undefined && { kept: readKept(kept) }),
  };
}

function readFields<T extends { kind: string }>(
  kinds: Record<T['kind'], Fields>,
  value: unknown,
): T {
  const { kind } = (value ?? {}) as { kind?: unknown };
  if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind)) {
    throw new Error(`nothing is called ${kind}`);
  }
  for (const [name, check] of Object.entries(kinds[kind as T['kind']])) {
    const field = (value as Record<string, unknown>)[name];
    if (!check(field)) throw new Error(`${kind} has an odd ${name}`);
  }
  return value as T;
}
