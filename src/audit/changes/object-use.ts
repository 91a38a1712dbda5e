// What a record says of how the objects of a bucket are used: that a version was written, ended or
// read. Whoever replays it in its order knows each version, and on which days it was read. Pure.
// Invariants: what only looks at an object is no read, so HEAD, conditions that fail and refusals
// do not count; nor is what the gateway does by itself, such as a verification or a move, nor a
// copy of an object onto itself.

export interface ObjectUse {
  /** Index of its record. */
  index: number;
  /** RFC 3339; of reads that are one record, of the last. */
  time: string;
  /**
   * `written`: a version came, and is the newest of its key; `renamed`: it was `from` before;
   * `hidden`: a delete marker came over it; `ended`: it is gone.
   */
  what: 'written' | 'renamed' | 'hidden' | 'ended' | 'read';
  key: string;
  /** By number; null: of a read that named none, the newest of the key. */
  version: number | null;
  /** As S3 names it; null: none was named. */
  versionId: string | null;
  from: number | null;
  /** Of the version, bytes. */
  size: number | null;
  /** How many reads there were, and bytes that they read. */
  reads: number;
  bytes: number;
}

/** The members of a record that are read here. */
interface Recorded {
  index: number;
  time: string;
  lastRead?: string;
  target?: string;
  action: string;
  error?: string;
  tenant: string;
  bucketTenant?: string;
  bucket?: string;
  key?: string;
  versionId?: string;
  version?: number;
  marker?: boolean;
  supersedes?: number;
  size?: number;
  price?: string;
  bytesOut: number;
  reads?: number;
  change?: { source?: Source; renamed?: { version: number }; lost?: { version: number } };
}

interface Source {
  bucketTenant: string;
  bucket: string;
  key: string;
  version: number;
}

export interface UsedBucket {
  tenant: string;
  name: string;
}

/** By a record's canonical text, in the order in which it happened. */
export function usesOf(text: string, of: UsedBucket): ObjectUse[] {
  const record = JSON.parse(text) as Recorded;
  if (record.error !== undefined) return [];
  const { bucket, key } = record;
  const isHere = bucket === of.name && (record.bucketTenant ?? record.tenant) === of.tenant;
  const copied = copiedOf(record, of, isHere);
  if (!isHere || key === undefined) return copied;
  return [...copied, ...endedOf(record, key), ...writtenOf(record, key), ...readOf(record, key)];
}

function useOf(record: Recorded, key: string, what: ObjectUse['what']): ObjectUse {
  const { index, time, versionId = null } = record;
  return {
    ...{ index, time, what, key, version: null, versionId, from: null },
    ...{ size: null, reads: 0, bytes: 0 },
  };
}

function copiedOf(record: Recorded, of: UsedBucket, isHere: boolean): ObjectUse[] {
  const { action, key, size = 0, target } = record;
  const source = record.change?.source;
  if (source?.bucket !== of.name || source.bucketTenant !== of.tenant) return [];
  if (typeof source.key !== 'string' || typeof source.version !== 'number') return [];
  if (action !== 's3:PutObject') return [];
  // As part of an upload it becomes another object, though it may have the same key.
  if (isHere && source.key === key && target === undefined) return [];
  const use = { ...useOf(record, source.key, 'read'), version: source.version, versionId: null };
  return size > 0 ? [{ ...use, size, reads: 1, bytes: size }] : [];
}

function endedOf(record: Recorded, key: string): ObjectUse[] {
  const lost = record.action === 'bursar:LoseObject' ? record.change?.lost?.version : undefined;
  const version = record.supersedes ?? lost;
  return version === undefined ? [] : [{ ...useOf(record, key, 'ended'), version }];
}

function writtenOf(record: Recorded, key: string): ObjectUse[] {
  const { version, marker, size = 0, change } = record;
  if (version === undefined) return [];
  if (marker) return [{ ...useOf(record, key, 'hidden'), version }];
  const from = change?.renamed?.version ?? null;
  return [{ ...useOf(record, key, from === null ? 'written' : 'renamed'), version, from, size }];
}

function readOf(record: Recorded, key: string): ObjectUse[] {
  const { action, bytesOut, reads = 1, size = null, time, lastRead = time } = record;
  if (action !== 's3:GetObject' && action !== 's3:GetObjectVersion') return [];
  const use = { ...useOf(record, key, 'read'), time: lastRead, size, reads };
  if (bytesOut > 0) return [{ ...use, bytes: bytesOut }];
  // Read for a copy into another tenant, whose own record has the request and its price.
  const isForCopy = record.price === undefined && record.reads === undefined && size !== null;
  return isForCopy && size > 0 ? [{ ...use, bytes: size }] : [];
}
