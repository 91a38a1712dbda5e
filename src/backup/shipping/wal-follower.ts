// What a SQLite database's write-ahead log tells of pages that were changed
// (https://www.sqlite.org/fileformat2.html#the_write_ahead_log), read beside those who write it.
// Invariants: a page is told only when the transaction that changed it was committed; each such
// page is told, or it is said that some may be missing. The log begins anew at times, over its own
// beginning: what was added to it last is then still behind what is new, if one looks soon enough,
// which is verified by its checksums.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

const headerBytes = 32;
const frameHeadBytes = 24;
/** The magic number of a log with little-endian checksums, as x86-64 and ARM write it. */
const magic = 0x377f0682;
/** How many frames are read at a time. */
const framesAtOnce = 64;

/** The first salt is one more with each turn of the log, the second one is random. */
interface Header {
  pageBytes: number;
  /** The checkpoint sequence number. */
  turn: number;
  salts: readonly [number, number];
  sums: readonly [number, number];
}

/** A place in the log after a committed transaction, with the checksum up to there. */
interface Mark {
  header: Header;
  frames: number;
  sums: readonly [number, number];
}

interface Scanned {
  mark: Mark;
  /** The pages of committed transactions after the mark it began at, each with its newest frame. */
  pages: Map<number, number>;
  /** The size of the database after the last of them, in pages; null: there are none. */
  pageCount: number | null;
  /** Frames of this turn of the log, also those that are not committed. */
  framesSeen: number;
  /** The salts of the first frame that is not of this turn; null: the file ends. */
  nextSalts: readonly [number, number] | null;
}

/**
 * `none`: there is no log to follow. `begun`: what was changed before is not told, if anything was.
 */
export type Advance = { kind: 'none' } | { kind: 'begun' | 'followed'; pages: Iterable<number> };

export class WalFollower {
  readonly #path: string;
  #file: number | null = null;
  #mark: Mark | null = null;
  /** The newest committed frame of each page in this turn of the log. */
  #frames = new Map<number, number>();
  #pageCount = 0;

  constructor(path: string) {
    this.#path = path;
  }

  /** Bytes of a page; 0: not known yet. */
  get pageBytes(): number {
    return this.#mark?.header.pageBytes ?? 0;
  }

  /** Pages of the database as of the last committed transaction that was seen. */
  get pageCount(): number {
    return this.#pageCount;
  }

  /** Bytes of committed pages in it. */
  get committedBytes(): number {
    return (this.#mark?.frames ?? 0) * this.pageBytes;
  }

  /** Reads what was added. Throws the system's error. */
  advance(): Advance {
    this.#file ??= openIfThere(this.#path);
    const header = this.#readHeader();
    if (!header) {
      // Somebody has emptied it, or just begins it.
      this.#mark = null;
      return { kind: 'none' };
    }
    const before = this.#mark;
    if (before && isSameTurn(before.header, header)) return this.#goOn(before);
    const tail = before && this.#readTail(before, header);
    this.#frames = new Map();
    const begun = this.#scan({ header, frames: 0, sums: header.sums });
    this.#take(begun);
    // The new frames must not have overwritten what was read of the old ones.
    if (!before || !tail || begun.framesSeen >= before.frames) {
      return { kind: 'begun', pages: begun.pages.keys() };
    }
    return { kind: 'followed', pages: new Set([...tail.keys(), ...begun.pages.keys()]) };
  }

  /** Where in the log a page is; undefined: the database's own file has it as it is. */
  offsetOf(page: number): number | undefined {
    const frame = this.#frames.get(page);
    return frame === undefined ? undefined : this.#offsetOf(frame) + frameHeadBytes;
  }

  /**
   * Whether the log has not begun anew since it was read, so that what `offsetOf` said is still
   * true.
   */
  isSame(): boolean {
    const header = this.#readHeader();
    return header !== null && this.#mark !== null && isSameTurn(header, this.#mark.header);
  }

  read(into: Buffer, offset: number): void {
    if (this.#file === null || readFully(this.#file, into, offset) !== into.length) {
      throw new Error(`${this.#path} became shorter while it was read`);
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
  }

  #goOn(mark: Mark): Advance {
    const found = this.#scan(mark);
    this.#take(found);
    return { kind: 'followed', pages: found.pages.keys() };
  }

  #take({ mark, pages, pageCount }: Scanned): void {
    this.#mark = mark;
    for (const [page, frame] of pages) this.#frames.set(page, frame);
    this.#pageCount = pageCount ?? this.#pageCount;
  }

  /**
   * What was added to the log before it began anew. Null means that this cannot be known any more.
   */
  #readTail(before: Mark, now: Header): Map<number, number> | null {
    const isNext =
      now.salts[0] === (before.header.salts[0] + 1) >>> 0 &&
      now.pageBytes === before.header.pageBytes;
    if (!isNext || this.#file === null) return null;
    if (fstatSync(this.#file).size < this.#offsetOf(before.frames, before.header)) return null;
    const { pages, nextSalts } = this.#scan(before);
    const isOverwritten = nextSalts && isSamePair(nextSalts, now.salts);
    return isOverwritten ? null : pages;
  }

  #offsetOf(frame: number, header: Header | undefined = this.#mark?.header): number {
    return headerBytes + frame * (frameHeadBytes + (header?.pageBytes ?? 0));
  }

  #readHeader(): Header | null {
    if (this.#file === null) return null;
    const bytes = Buffer.alloc(headerBytes);
    if (readFully(this.#file, bytes, 0) !== headerBytes) return null;
    const pageBytes = bytes.readUInt32BE(8);
    if (bytes.readUInt32BE(0) !== magic || !isPageSize(pageBytes)) return null;
    const sums = addUp(wordsOf(bytes, 0, 24), [0, 0]);
    // It is being written just now.
    if (!isSamePair(sums, pairAt(bytes, 24))) return null;
    return {
      pageBytes,
      turn: bytes.readUInt32BE(12),
      salts: pairAt(bytes, 16),
      sums,
    };
  }

  #scan(from: Mark): Scanned {
    const { header } = from;
    const frameBytes = frameHeadBytes + header.pageBytes;
    const block = Buffer.from(new ArrayBuffer(framesAtOnce * frameBytes));
    const found: Scanned = {
      mark: from,
      pages: new Map(),
      pageCount: null,
      framesSeen: from.frames,
      nextSalts: null,
    };
    let sums = from.sums;
    let open: [page: number, frame: number][] = [];
    for (;;) {
      const offset = this.#offsetOf(found.framesSeen, header);
      const length = this.#file === null ? 0 : readFully(this.#file, block, offset);
      const count = Math.floor(length / frameBytes);
      for (let i = 0; i < count; i++) {
        const at = i * frameBytes;
        const salts = pairAt(block, at + 8);
        if (!isSamePair(salts, header.salts)) return { ...found, nextSalts: salts };
        const afterHead = addUp(wordsOf(block, at, 8), sums);
        const next = addUp(wordsOf(block, at + frameHeadBytes, header.pageBytes), afterHead);
        if (!isSamePair(next, pairAt(block, at + 16))) return found;
        sums = next;
        open.push([block.readUInt32BE(at), found.framesSeen]);
        found.framesSeen++;
        const pageCount = block.readUInt32BE(at + 4);
        if (pageCount === 0) continue;
        for (const [page, frame] of open) found.pages.set(page, frame);
        open = [];
        found.pageCount = pageCount;
        found.mark = { header, frames: found.framesSeen, sums };
      }
      if (count < framesAtOnce) return found;
    }
  }
}

function openIfThere(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function readFully(file: number, into: Buffer, offset: number): number {
  let done = 0;
  while (done < into.length) {
    const read = readSync(file, into, done, into.length - done, offset + done);
    if (read === 0) break;
    done += read;
  }
  return done;
}

function pairAt(bytes: Buffer, at: number): readonly [number, number] {
  return [bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4)];
}

function wordsOf(bytes: Buffer, at: number, length: number): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset + at, length / 4);
}

/** The log's checksum: a running sum of pairs of words. */
function addUp(
  words: Uint32Array,
  [first, second]: readonly [number, number],
): readonly [number, number] {
  let [a, b] = [first | 0, second | 0];
  for (let i = 0; i < words.length; i += 2) {
    a = (a + (words[i] as number) + b) | 0;
    b = (b + (words[i + 1] as number) + a) | 0;
  }
  return [a >>> 0, b >>> 0];
}

function isSamePair(a: readonly [number, number], b: readonly [number, number]): boolean {
  return a[0] === b[0] && a[1] === b[1];
}

function isSameTurn(a: Header, b: Header): boolean {
  return a.turn === b.turn && isSamePair(a.salts, b.salts) && a.pageBytes === b.pageBytes;
}

/** A power of two, as SQLite has it. */
export function isPageSize(bytes: number): boolean {
  return bytes >= 512 && bytes <= 65536 && (bytes & (bytes - 1)) === 0;
}
