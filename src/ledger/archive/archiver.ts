// Moves old records out of the database into packs in a store, in the background. Each pack is
// written under a declared intent, read back and compared, and entered in one transaction; then its
// tiles leave the database one by one, each in a transaction of its own, so that no request waits
// long. Invariants: what an undelete window shows is found by the times of records, so these stay
// as long as one reaches back to them; a record leaves the database only when its pack was read
// back whole; whatever ends the process, the next run goes on from what the tables say, and reads
// back once more what an earlier one had packed; and the newest record stays.
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import {
  countArchivedTiles,
  countPackedTiles,
  findPart,
  type Pack,
  type PackedPart,
  partOf,
} from '../../audit/archive/archived-tiles.ts';
import { tileWidth } from '../../audit/log/merkle.ts';
import type { ReadPart } from '../../audit/record-store.ts';
import { readLongestWindow } from '../../catalog/undelete-window.ts';
import { afterwards } from '../../core/closing.ts';
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import { encodeManifest } from '../../core/manifest.ts';
import { steadyClock } from '../../core/steady-clock.ts';
import { nextUnsummed } from '../../quota/roll-up/usage-days.ts';
import type { ObjectWriter, WrittenObject } from '../../tiering/object-writer.ts';
import type { IntentPool } from '../intent-pool.ts';
import type { Ledger } from '../ledger.ts';
import { archiveTenant } from './pack-entry.ts';
import type { MadePack, PackAnswer, PackJob, PackWorkerOptions } from './pack-worker.ts';

/** Of a pack: 4096 records, some 600 KB. */
const tilesPerPack = 16;
/** Pause after failures in a row: each may leave a pack in the store that is swept a day later. */
const pauseMsMax = 3_600_000;

interface ArchiverOptions {
  /** The database file. */
  path: string;
  read: Reader;
  ledger: Pick<Ledger, 'maintain'>;
  intents: Pick<IntentPool, 'take'>;
  writer: Pick<ObjectWriter, 'begin'>;
  readPart: ReadPart;
  /** The number of the store that takes the packs. */
  store: number;
  /** Records that are older go, milliseconds. */
  afterMs: number;
  /** Pause between two looks, milliseconds. */
  intervalMs: number;
  /** Asked before each step; once it is false, it stays so. */
  mayArchive: () => boolean;
  /** Default: `tilesPerPack`. */
  tilesPerPack?: number;
  onError: (error: unknown) => void;
}

export class Archiver {
  readonly #options: ArchiverOptions;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> = Promise.resolve();
  readonly #stopping = new AbortController();

  constructor(options: ArchiverOptions) {
    this.#options = options;
  }

  /**
   * Archives now and then again after each interval, until `stop`; later and later while it fails.
   */
  start(failures = 0): void {
    const { intervalMs, onError } = this.#options;
    const goOn = (failed: number): void => {
      if (this.#isStopped) return;
      const pauseMs = failed === 0 ? intervalMs : Math.min(intervalMs * 2 ** failed, pauseMsMax);
      this.#timer = setTimeout(() => this.start(failed), pauseMs);
      this.#timer.unref();
    };
    this.#running = this.archive().then(
      () => goOn(0),
      (error: unknown) => {
        onError(error);
        goOn(failures + 1);
      },
    );
  }

  /** Resolves when nothing is under way and nothing will begin. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#timer) clearTimeout(this.#timer);
    await this.#running;
  }

  /** For how long a pack could have been made and was not, milliseconds; 0: none is due. */
  async lateMs(): Promise<number> {
    const full = await this.#findFull();
    return full ? Math.max(steadyClock.nowMs() - this.#options.afterMs - full.newestMs, 0) : 0;
  }

  /** Archives all that is old enough. Rejects with what a store or the ledger refused. */
  async archive(): Promise<void> {
    const { read, path } = this.#options;
    if (this.#isStopped) return;
    const isLeft = (await countArchivedTiles(read)) < (await countPackedTiles(read));
    if (!isLeft && !(await this.#findFull())) return;
    const packer = new Packer(path);
    await using _packer = afterwards(() => packer.close());
    if (isLeft) await this.#moveLeft(packer);
    for (let first = await this.#findFull(); first && !this.#isStopped; ) {
      const begunMs = performance.now();
      await this.#archivePack(packer, first.tile);
      await this.#moveTiles();
      // Never more than half of a core and of a disk.
      await this.#rest(performance.now() - begunMs);
      first = await this.#findFull();
    }
  }

  get #isStopped(): boolean {
    return this.#stopping.signal.aborted || !this.#options.mayArchive();
  }

  /** The first tile of the next pack; undefined: not all of its records are old enough. */
  async #findFull(): Promise<{ tile: number; newestMs: number } | undefined> {
    const { read, afterMs } = this.#options;
    const tile = await countPackedTiles(read);
    const end = (tile + this.#tilesPerPack) * tileWidth;
    // Sums of usage are made of what is in the database.
    if ((await nextUnsummed(read)) < end) return undefined;
    const sql = 'SELECT idx, time_ms AS timeMs FROM records WHERE idx IN (?, ?)';
    const rows = await read.all<{ idx: number; timeMs: number }>(sql, end - 1, end);
    const last = rows.find(({ idx }) => idx === end - 1);
    const keptMs = Math.max(afterMs, await readLongestWindow(read));
    const isOld = last !== undefined && last.timeMs <= steadyClock.nowMs() - keptMs;
    return isOld && rows.length === 2 ? { tile, newestMs: last.timeMs } : undefined;
  }

  get #tilesPerPack(): number {
    return this.#options.tilesPerPack ?? tilesPerPack;
  }

  async #archivePack(packer: Packer, first: number): Promise<void> {
    const { ledger } = this.#options;
    const made = await packer.make(first, this.#tilesPerPack);
    const { nonce, ends } = made;
    const { runs } = await this.#write(made, first);
    const pack: Pack = { first, nonce, ends, manifest: encodeManifest(runs) };
    for (const i of ends.keys()) await this.#check(packer, first + i, partOf(pack, i));
    const ids = runs.map(({ id }) => id);
    const entered = await ledger.maintain({ kind: 'enterPack', pack, ids });
    if (entered === 0) throw new Error('the intents of a pack of records were given up');
  }

  /** What fails here is an intent, and the sweeper's. */
  async #write({ bytes }: MadePack, first: number): Promise<WrittenObject> {
    const { writer, intents, store } = this.#options;
    const sink = writer.begin({
      store,
      place: { tenant: archiveTenant, bucket: '', bucketId: 0, key: String(first) },
      sizeBytes: bytes.length,
      isApart: true,
      isPlain: true,
      checksums: [],
      takeId: () => intents.take(store),
    });
    try {
      await sink.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
      return await sink.seal(await sink.digest(), null);
    } catch (error) {
      await sink.abort();
      throw error;
    }
  }

  /** Throws where the part of a tile, as it is read back, lacks something that the database has. */
  async #check(packer: Packer, tile: number, part: PackedPart): Promise<void> {
    if (await packer.check(tile, part.nonce, await this.#options.readPart(part))) return;
    throw new IntegrityError(`tile ${tile} of the records was not read back as it was written`);
  }

  /**
   * What an earlier run had packed: it may be long ago, and its store may have lost it. The records
   * are here yet, so they are packed anew.
   */
  async #moveLeft(packer: Packer): Promise<void> {
    const { read, ledger, onError } = this.#options;
    const packed = await countPackedTiles(read);
    for (let tile = await countArchivedTiles(read); tile < packed && !this.#isStopped; tile++) {
      try {
        const part = await findPart(read, tile);
        if (!part) throw new IntegrityError(`no pack has tile ${tile} of the records`);
        await this.#check(packer, tile, part);
      } catch (error) {
        if (!(error instanceof IntegrityError)) throw error;
        onError(error);
        await ledger.maintain({ kind: 'unpackTiles', tile });
        return;
      }
      await this.#moveTile(tile);
    }
  }

  /** What was just read back of a pack leaves the database. */
  async #moveTiles(): Promise<void> {
    const { read } = this.#options;
    const packed = await countPackedTiles(read);
    for (let tile = await countArchivedTiles(read); tile < packed && !this.#isStopped; tile++) {
      await this.#moveTile(tile);
    }
  }

  async #moveTile(tile: number): Promise<void> {
    const begunMs = performance.now();
    await this.#options.ledger.maintain({ kind: 'archiveTile', tile });
    await this.#rest(performance.now() - begunMs);
  }

  async #rest(ms: number): Promise<void> {
    const { signal } = this.#stopping;
    await sleep(ms, undefined, { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
}

// The main thread's end of the thread that makes packs. Invariant: one job at a time; the thread is
// there only while there is something to pack.

class Packer {
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  #waiting: { resolve(answer: PackAnswer): void; reject(cause: unknown): void } | null = null;

  /** `path`: the database file. */
  constructor(path: string) {
    const workerData: PackWorkerOptions = { path };
    this.#worker = new Worker(new URL('./pack-worker.js', import.meta.url), { workerData });
    this.#worker.unref();
    this.#exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.on('message', (answer: PackAnswer) => this.#take()?.resolve(answer));
    this.#worker.on('error', (cause) => this.#take()?.reject(cause));
    this.#worker.on('exit', () => this.#take()?.reject(new Error('the packing thread ended')));
  }

  /** Packs the records of so many tiles, all of which are in the database. */
  async make(first: number, tiles: number): Promise<MadePack> {
    const answer = await this.#ask({ kind: 'make', first, tiles });
    if ('bytes' in answer) return answer;
    throw new Error('the packing thread answered something else');
  }

  /** Whether a tile's part, as it was read back, has all that the database has of the tile. */
  async check(tile: number, nonce: Uint8Array, part: Uint8Array): Promise<boolean> {
    const answer = await this.#ask({ kind: 'check', tile, nonce, part });
    return 'sound' in answer && answer.sound;
  }

  async close(): Promise<void> {
    this.#worker.postMessage(null);
    await this.#exited;
  }

  async #ask(job: PackJob): Promise<PackAnswer> {
    const answer = await new Promise<PackAnswer>((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#worker.postMessage(job);
    });
    if ('failed' in answer) throw new Error(answer.failed);
    return answer;
  }

  #take() {
    const waiting = this.#waiting;
    this.#waiting = null;
    return waiting;
  }
}
