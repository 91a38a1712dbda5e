// A segment of a stream: the pages of a database that one or more transactions changed, each as it
// is after the last of them (docs/formats/backup.md). Invariants: what is read is what was written
// under this number of this stream, after the segment that it names; and a segment is there when
// its last object is, which is written last and names the others.
import { createHash } from 'node:crypto';
import { canonicalize } from '../../core/canonical-json.ts';
import { IntegrityError } from '../../core/errors.ts';
import { isBackupId } from '../manifest.ts';
import type { PieceSealer } from '../pieces.ts';
import type { BackupPlace } from '../place.ts';
import { isPageSize } from './wal-follower.ts';

export const streamFolder = 'streams/';
const version = 1;
const pageHeadBytes = 4;
const headBytesMax = 16 * 1024 * 1024;
const digestPattern = /^[0-9a-f]{64}$/;

export interface SegmentHead {
  stream: string;
  /** 1 is the first. */
  seq: number;
  /** SHA-256 of the stored last object of the segment before, hex; null: this is the first. */
  previous: string | null;
  /** When its pages began to be read, milliseconds: what was committed before is in it. */
  timeMs: number;
  /** The number of records in the log at that time, at least. */
  records: number;
  pageBytes: number;
  /** The number of pages of the whole database. */
  pageCount: number;
  /** Backups of this stream whose copy is older than this segment's state, the newest last. */
  covers: string[];
  /**
   * In the names of the other objects, so that one that is written again leaves those as they are.
   */
  attempt: string;
  /** SHA-256 of the other stored objects, hex. */
  parts: string[];
}

export interface Page {
  number: number;
  bytes: Buffer;
}

/** `streams/STREAM/0000000012`. */
export function segmentName(stream: string, seq: number): string {
  return `${streamFolder}${stream}/${String(seq).padStart(10, '0')}`;
}

/** `streams/STREAM/0000000012.89abcdef.0`. */
export function partName(
  { stream, seq, attempt }: Pick<SegmentHead, 'stream' | 'seq' | 'attempt'>,
  part: number,
): string {
  return `${segmentName(stream, seq)}.${attempt}.${part}`;
}

/** Number of the segment that an object belongs to; null: it is none of a stream. */
export function segmentOf(name: string): { stream: string; seq: number; isLast: boolean } | null {
  const [, stream = '', seq, part] =
    /^streams\/([^/]+)\/(\d{10})(\.[0-9a-f]{8}\.\d+)?$/.exec(name) ?? [];
  if (!isBackupId(stream)) return null;
  return { stream, seq: Number(seq), isLast: part === undefined };
}

export function digestOf(stored: Uint8Array): string {
  return createHash('sha256').update(stored).digest('hex');
}

/** Returns the bytes that one page takes in a segment. */
export function encodedPageBytes({ pageBytes }: Pick<SegmentHead, 'pageBytes'>): number {
  return pageHeadBytes + pageBytes;
}

export function encodePages(pages: readonly Page[]): Buffer {
  const all: Buffer[] = [];
  for (const { number, bytes } of pages) {
    const head = Buffer.alloc(pageHeadBytes);
    head.writeUInt32BE(number);
    all.push(head, bytes);
  }
  return Buffer.concat(all);
}

/** The last object, before it is sealed: a line of JSON, then pages. */
export function encodeLast(head: SegmentHead, pages: readonly Page[]): Buffer {
  return Buffer.concat([
    Buffer.from(`${canonicalize({ version, ...head })}\n`),
    encodePages(pages),
  ]);
}

export interface ReadSegment {
  head: SegmentHead;
  /** What the next one names as the one before. */
  digest: string;
  /** Pages of the last object, encoded. */
  lastPages: Buffer;
}

/** Undefined: there is none of this number yet. Throws IntegrityError. */
export async function readSegment(
  place: BackupPlace,
  sealer: PieceSealer,
  { stream, seq }: { stream: string; seq: number },
): Promise<ReadSegment | undefined> {
  const name = segmentName(stream, seq);
  const stored = await place.read(name);
  if (!stored) return undefined;
  const plain = sealer.openSegment(name, stored);
  const end = plain.indexOf(0x0a);
  const head = end < 0 || end > headBytesMax ? null : parseHead(plain.toString('utf8', 0, end));
  if (head?.stream !== stream || head.seq !== seq) throw new IntegrityError(`${name} is damaged`);
  return { head, digest: digestOf(stored), lastPages: plain.subarray(end + 1) };
}

/** Its pages, object by object. Throws IntegrityError. */
export async function* readPages(
  place: BackupPlace,
  sealer: PieceSealer,
  { head, lastPages }: ReadSegment,
): AsyncGenerator<Page[]> {
  for (const [index, digest] of head.parts.entries()) {
    const name = partName(head, index);
    const stored = await place.read(name);
    if (!stored) throw new IntegrityError(`${name} is missing`, { kind: 'missing' });
    if (digestOf(stored) !== digest) throw new IntegrityError(`${name} is not what was written`);
    yield decodePages(sealer.openSegment(name, stored), head);
  }
  yield decodePages(lastPages, head);
}

export function decodePages(bytes: Buffer, head: SegmentHead): Page[] {
  const { pageCount } = head;
  const entryBytes = encodedPageBytes(head);
  if (bytes.length % entryBytes !== 0) throw new IntegrityError('pages of a segment are cut');
  const pages: Page[] = [];
  for (let at = 0; at < bytes.length; at += entryBytes) {
    const number = bytes.readUInt32BE(at);
    if (number < 1 || number > pageCount) throw new IntegrityError('a segment has no such page');
    pages.push({ number, bytes: bytes.subarray(at + pageHeadBytes, at + entryBytes) });
  }
  return pages;
}

function parseHead(text: string): SegmentHead | null {
  let value: Record<string, unknown>;
  try {
    value = Object(JSON.parse(text));
  } catch {
    return null;
  }
  if (Number(value.version) > version) {
    throw new IntegrityError('a segment is of a newer version of Bursar');
  }
  const { pageBytes, pageCount, stream, previous, covers, attempt, parts } = value;
  const counts = [value.seq, value.timeMs, value.records, pageBytes, pageCount];
  const isWhole =
    value.version === version &&
    counts.every((one) => Number.isSafeInteger(one) && (one as number) >= 0) &&
    isPageSize(pageBytes as number) &&
    typeof stream === 'string' &&
    (previous === null || isDigest(previous)) &&
    Array.isArray(covers) &&
    covers.every((one) => typeof one === 'string' && isBackupId(one)) &&
    typeof attempt === 'string' &&
    /^[0-9a-f]{8}$/.test(attempt) &&
    Array.isArray(parts) &&
    parts.every(isDigest);
  if (!isWhole) return null;
  const { version: _, ...head } = value;
  return head as unknown as SegmentHead;
}

function isDigest(value: unknown): boolean {
  return typeof value === 'string' && digestPattern.test(value);
}
