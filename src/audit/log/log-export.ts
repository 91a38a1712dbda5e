// Copies a log as plain files, so that a static web server or a bucket can serve it. Invariants:
// nothing is written that does not lead to the signed root; the checkpoint comes last, so whoever
// finds it finds all that it is of; and it is replaced only by one whose log extends it.
// Specification: C2SP tlog-tiles.
import { inParallel } from '../../core/in-parallel.ts';
import type { LogSource } from '../verify/log-source.ts';
import { type Trust, verifyCheckpoint } from '../verify/signed-checkpoint.ts';
import { type Checkpoint, checkpointOf } from './checkpoint.ts';
import { rootOf, tileHeight, tileWidth } from './merkle.ts';
import { pathOfTile } from './tile-path.ts';
import { LogDamage, type VerifiedFile, VerifiedLog } from './verified-log.ts';

/** A place to which a log is written. */
export interface LogTarget extends LogSource {
  /** Whole or not at all; it need not be durable yet. */
  write(path: string, bytes: Uint8Array): Promise<void>;
  /** All that was written becomes durable. */
  settle(): Promise<void>;
  /** Told of a full tile: the partial ones that it replaces may be removed. */
  dropPartials(path: string): Promise<void>;
}

export interface ExportOptions {
  log: LogSource;
  target: LogTarget;
  trust: Trust;
  /** What is written as `key`. */
  keyText: string;
  /** Looks at all files, not only at those that the checkpoint in the target does not know. */
  isWhole?: boolean;
  /** Entries that are done, of how many. */
  onProgress?: (done: number, total: number) => void;
}

export interface ExportReport {
  origin: string;
  size: number;
  /** The size of the log in the target before. Null means that there was none. */
  sizeBefore: number | null;
  files: number;
  bytes: number;
}

/** Files that are read and written at the same time. */
const windowMax = 16;

/** Throws `LogDamage` for a log that is not what it should be, and errors of source and target. */
export async function exportLog(options: ExportOptions): Promise<ExportReport> {
  const { log, target, trust, keyText } = options;
  const note = await log.read('checkpoint');
  if (!note) throw new LogDamage('the log has no checkpoint');
  const head = verifyCheckpoint(note, trust);
  if (!head.ok) throw new LogDamage(head.why);
  const before = await readCheckpoint(target);
  const verified = await openExtension(log, target, { head, before });
  const written = new Written(target);
  const from = options.isWhole || !before ? 0 : before.size;
  await copyTiles(verified, written, { ...options, from });
  await written.replace('key', Buffer.from(keyText));
  await target.settle();
  if ((await readCheckpoint(target))?.size !== before?.size) {
    throw new LogDamage('another export to the same place has ended meanwhile: run it again');
  }
  await written.replace('checkpoint', Buffer.from(head.note));
  await target.settle();
  for (const path of fullNow(before?.size ?? 0, head.size)) await target.dropPartials(path);
  const { origin, size } = head;
  const { files, bytes } = written;
  return { origin, size, sizeBefore: before?.size ?? null, files, bytes };
}

/**
 * The checkpoint that the target has. It was verified before it was written, maybe by a key that is
 * gone.
 */
async function readCheckpoint(target: LogTarget): Promise<Checkpoint | undefined> {
  const note = await target.read('checkpoint');
  if (note === undefined) return undefined;
  const checkpoint = checkpointOf(note);
  if (!checkpoint) throw new LogDamage('the checkpoint that was exported before is damaged');
  return checkpoint;
}

async function openExtension(
  log: LogSource,
  target: LogTarget,
  { head, before }: { head: Checkpoint; before: Checkpoint | undefined },
): Promise<VerifiedLog> {
  if (before && before.origin !== head.origin) {
    throw new LogDamage(`the export is of ${before.origin}, the log is ${head.origin}`);
  }
  if (before && before.size > head.size) {
    const sizes = `${head.size} entries, the export ${before.size}`;
    throw new LogDamage(`the log was rolled back: it has ${sizes}`);
  }
  const verified = await VerifiedLog.open(head, log, [target]);
  if (before && !(await rootOf(verified, before.size)).equals(before.root)) {
    throw new LogDamage('the log was rewritten: it does not begin with what was exported before');
  }
  return verified;
}

async function copyTiles(
  verified: VerifiedLog,
  written: Written,
  { target, from, onProgress }: ExportOptions & { from: number },
): Promise<void> {
  const { size } = verified.head;
  const copy = async (file: VerifiedFile): Promise<void> => {
    if (file.source !== target) await written.write(file.path, file.bytes);
  };
  let done = from - (from % tileWidth);
  await inParallel(tilesOf(0, from, size), windowMax, async (index) => {
    await copy(await verified.tile(0, index));
    await copy(await verified.bundle(index));
    done = Math.min(done + tileWidth, size);
    onProgress?.(done, size);
  });
  for (let level = 1; tileWidth ** level <= size; level += 1) {
    await inParallel(tilesOf(level, from, size), windowMax, async (index) => {
      await copy(await verified.tile(level, index));
    });
  }
}

/** Tiles of a level that a tree of `size` has, and one of `from` has not whole. */
function* tilesOf(level: number, from: number, size: number): Generator<number> {
  const hashes = Math.floor(size / tileWidth ** level);
  const first = Math.floor(from / tileWidth ** (level + 1));
  for (let index = first; index * tileWidth < hashes; index += 1) yield index;
}

/** Tiles and bundles that were partial in the smaller tree and are full in the other one. */
function* fullNow(before: number, size: number): Generator<string> {
  for (let level = 0; level * tileHeight < 53; level += 1) {
    const index = Math.floor(before / tileWidth ** (level + 1));
    if ((index + 1) * tileWidth ** (level + 1) > size) continue;
    yield pathOfTile({ level, index, width: tileWidth });
    if (level === 0) yield pathOfTile({ level: 'entries', index, width: tileWidth });
  }
}

/** Counts what is written. */
class Written {
  files = 0;
  bytes = 0;
  readonly #target: LogTarget;

  constructor(target: LogTarget) {
    this.#target = target;
  }

  /** Leaves alone what is there already. */
  async replace(path: string, bytes: Buffer): Promise<void> {
    if (!(await this.#target.read(path))?.equals(bytes)) await this.write(path, bytes);
  }

  async write(path: string, bytes: Buffer): Promise<void> {
    await this.#target.write(path, bytes);
    this.files += 1;
    this.bytes += bytes.length;
  }
}
