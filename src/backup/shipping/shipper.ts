// Ships what is committed to a database, while others write it, to a place of backups: as a stream
// of segments, each of which brings a copy of the database from one committed state to a later one.
// Invariants: a segment has each page that was changed since the one before, all as of one state;
// nothing is taken for shipped before its segment is there; where changes may have been missed,
// another stream is begun, which needs a backup of its own to begin with. What waits is a set of
// page numbers, however long the place is away.
//
// A state is read in a read transaction: while that is open, SQLite's log does not begin anew, and
// nothing that was committed later reaches the database's file. So a page as of the newest commit
// in the log is the log's newest frame of it, or else what the file has.
import { randomBytes } from 'node:crypto';
import { openSync, readSync } from 'node:fs';
import { readLogSize } from '../../audit/log/stored-tiles.ts';
import { nowMs } from '../../core/clock.ts';
import { checkpointPassively, type OpenDatabase, openDatabase } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import { listBackupIds, newBackupId, readManifest } from '../manifest.ts';
import type { PieceSealer } from '../pieces.ts';
import type { BackupPlace } from '../place.ts';
import { digestOf, encodeLast, encodePages, type Page, partName, segmentName } from './segment.ts';
import { keepStream } from './stream-file.ts';
import { WalFollower } from './wal-follower.ts';

export interface ShipperOptions {
  /** The data folder. */
  folder: string;
  databaseFile: string;
  place: BackupPlace;
  sealer: PieceSealer;
}

export interface ShipperState {
  /** Null: there is none until something is committed. */
  stream: string | null;
  seq: number;
  /**
   * What was committed before this moment can be restored from the place; null: nothing of this
   * stream, which has no backup yet.
   */
  safeMs: number | null;
  /** The bytes of changed pages that wait to be shipped. */
  waitingBytes: number;
  /** Bytes that were shipped since the process began. */
  shippedBytes: number;
  streams: number;
  /** Whether a backup should be made soon: this stream has none, or much was shipped since. */
  wantsBackup: boolean;
}

/** About how many bytes of plaintext an object has. */
const objectBytes = 4 * 1024 * 1024;
const coversMax = 16;
/** How much is shipped on top of one backup before another one is wanted. */
const segmentsMax = 20_000;
const shippedBytesMin = 1024 * 1024 * 1024;

/** SQLite's log began anew while its pages were read: they are read again. */
class Overtaken extends Error {}

export class Shipper {
  readonly #options: ShipperOptions;
  readonly #db: OpenDatabase;
  readonly #wal: WalFollower;
  /** Never closed before the process ends: that would end locks that SQLite has on the file. */
  readonly #file: number;
  readonly #waiting = new Set<number>();
  #stream: string | null = null;
  #seq = 0;
  #previous: string | null = null;
  #safeMs: number | null = null;
  #covers: string[] = [];
  #isCoverDue = false;
  #known = new Set<string>();
  #since = { segments: 0, bytes: 0 };
  #shippedBytes = 0;
  #streams = 0;

  private constructor(options: ShipperOptions) {
    this.#options = options;
    this.#db = openDatabase(options.databaseFile, { readonly: true, cacheKib: 1024 });
    this.#wal = new WalFollower(`${options.databaseFile}-wal`);
    this.#file = openSync(options.databaseFile, 'r');
  }

  /** Throws the error of the place. */
  static async open(options: ShipperOptions): Promise<Shipper> {
    const shipper = new Shipper(options);
    shipper.#known = new Set(await listBackupIds(options.place));
    return shipper;
  }

  get state(): ShipperState {
    const { segments, bytes } = this.#since;
    const { pageBytes, pageCount } = this.#wal;
    const isMuch = bytes > Math.max(shippedBytesMin, 2 * pageBytes * pageCount);
    return {
      stream: this.#stream,
      seq: this.#seq,
      safeMs: this.#safeMs,
      waitingBytes: this.#waiting.size * pageBytes,
      shippedBytes: this.#shippedBytes,
      streams: this.#streams,
      wantsBackup:
        this.#stream !== null && (this.#covers.length === 0 || segments > segmentsMax || isMuch),
    };
  }

  /**
   * Ships what was committed since the last time. Throws the error of the place or of the system.
   */
  async ship(): Promise<void> {
    for (let tries = 0; ; tries++) {
      const timeMs = nowMs();
      this.#db.exec('BEGIN');
      try {
        // Begins the read transaction.
        const records = await readLogSize(this.#db.tx);
        if (this.#follow()) await this.#write({ timeMs, records });
        return;
      } catch (error) {
        if (!(error instanceof Overtaken) || tries >= triesMax) throw error;
      } finally {
        this.#db.exec('COMMIT');
      }
    }
  }

  /** Looks for backups that were made since, which segments can be put on top of. */
  async lookForBackups(): Promise<void> {
    const { place, sealer } = this.#options;
    for (const id of await listBackupIds(place)) {
      if (this.#known.has(id)) continue;
      try {
        const manifest = await readManifest(place, sealer, id);
        if (manifest?.shipped && manifest.shipped.stream === this.#stream) {
          this.#covers = [...this.#covers, id].slice(-coversMax);
          this.#isCoverDue = true;
          this.#since = { segments: 0, bytes: 0 };
        }
      } catch (error) {
        // It is another gateway's backup, or a damaged one: nothing can be put on top of it.
        if (!(error instanceof IntegrityError)) throw error;
      }
      this.#known.add(id);
    }
  }

  /** Where nobody else has the database open, it is one file from then on. */
  close(): void {
    this.#db.close();
    this.#wal.close();
    checkpointPassively(this.#options.databaseFile);
  }

  /** Notes what was changed. False: there is nothing to follow. */
  #follow(): boolean {
    const found = this.#wal.advance();
    if (found.kind === 'none') {
      this.#endStream();
      return false;
    }
    if (found.kind === 'begun') this.#beginStream();
    else for (const page of found.pages) this.#waiting.add(page);
    return true;
  }

  /** A backup that is made from here on begins its copy after this. */
  #beginStream(): void {
    this.#endStream();
    this.#stream = newBackupId(nowMs(), randomBytes(4).toString('hex'));
    this.#streams++;
    this.#keep(this.#stream);
  }

  #endStream(): void {
    this.#stream = null;
    this.#seq = 0;
    this.#previous = null;
    this.#safeMs = null;
    this.#covers = [];
    this.#isCoverDue = false;
    this.#waiting.clear();
    this.#since = { segments: 0, bytes: 0 };
  }

  #keep(stream: string): void {
    const { folder, place } = this.#options;
    keepStream(folder, { place: place.name, stream, seq: this.#seq });
  }

  async #write(told: { timeMs: number; records: number }): Promise<void> {
    const { place, sealer } = this.#options;
    const stream = this.#stream as string;
    if (this.#waiting.size === 0 && !this.#isCoverDue) {
      if (this.#covers.length > 0) this.#safeMs = told.timeMs;
      return;
    }
    const seq = this.#seq + 1;
    const { pageBytes, pageCount } = this.#wal;
    const numbers = [...this.#waiting].filter((one) => one <= pageCount).sort((a, b) => a - b);
    const perObject = Math.max(1, Math.floor(objectBytes / pageBytes));
    const named = { stream, seq, attempt: randomBytes(4).toString('hex') };
    const parts: string[] = [];
    let bytes = 0;
    while (numbers.length > perObject) {
      const pages = this.#read(numbers.splice(0, perObject));
      const name = partName(named, parts.length);
      const sealed = sealer.sealSegment(name, encodePages(pages));
      await place.write(name, sealed);
      parts.push(digestOf(sealed));
      bytes += sealed.length;
    }
    const pages = this.#read(numbers);
    const head = {
      ...{ ...named, previous: this.#previous, ...told, pageBytes, pageCount },
      ...{ covers: this.#covers, parts },
    };
    const name = segmentName(stream, seq);
    const sealed = sealer.sealSegment(name, encodeLast(head, pages));
    // All the objects that it names are durable before it is written.
    if (parts.length > 0) await place.settle();
    await place.write(name, sealed);
    await place.settle();
    this.#shippedBytes += bytes + sealed.length;
    this.#since.segments++;
    this.#since.bytes += bytes + sealed.length;
    this.#seq = seq;
    this.#previous = digestOf(sealed);
    this.#waiting.clear();
    this.#isCoverDue = false;
    if (this.#covers.length > 0) this.#safeMs = told.timeMs;
    this.#keep(stream);
  }

  #read(numbers: readonly number[]): Page[] {
    const { pageBytes } = this.#wal;
    const pages = numbers.map((number) => {
      const bytes = Buffer.alloc(pageBytes);
      const offset = this.#wal.offsetOf(number);
      if (offset !== undefined) this.#wal.read(bytes, offset);
      else if (readSync(this.#file, bytes, 0, pageBytes, (number - 1) * pageBytes) !== pageBytes) {
        throw new Error(`${this.#options.databaseFile} lacks page ${number}`);
      }
      return { number, bytes };
    });
    // A reader whose state needs nothing of SQLite's log does not keep the log from beginning anew.
    if (!this.#wal.isSame()) throw new Overtaken(`${this.#options.databaseFile}-wal began anew`);
    return pages;
  }
}

const triesMax = 3;
