// Removes backups that are not kept any more, and pieces and extents that no backup needs.
// Invariants: nothing is removed that a backup needs which is kept, nor while one is made: who
// prunes has the lock of the place; a backup that is removed is none before the first of its pieces
// goes; and where it cannot be known what a kept backup needs, no piece is removed.

import { afterwards } from '../core/closing.ts';
import { WorkFailure } from '../core/command-failure.ts';
import { IntegrityError } from '../core/errors.ts';
import { inParallel } from '../core/in-parallel.ts';
import { extentFolder, placedExtent, plainNameOf, readExtentLists } from './extents.ts';
import {
  listBackupIds,
  type Manifest,
  manifestName,
  readManifest,
  timeOfBackup,
} from './manifest.ts';
import { type PieceSealer, PieceStore, pieceFolder, placedPiece } from './pieces.ts';
import type { BackupPlace } from './place.ts';
import { segmentOf, streamFolder } from './shipping/segment.ts';

export interface PruneOptions {
  place: BackupPlace;
  sealer: PieceSealer;
  /** How many of the newest are kept; at least one. */
  keep: number;
  /** All that are younger are kept, too; milliseconds since the Unix epoch. */
  keepSinceMs: number;
  onProgress: (step: string, done: number) => void;
}

export interface PruneReport {
  kept: string[];
  removed: string[];
  /** Files that no backup needs any more. */
  files: number;
  bytes: number;
}

const removalsAtOnce = 8;
/** After so many removals it is checked that the lock of the place is still held. */
const removalsPerLook = 1000;

/** Throws `WorkFailure`, or the error of the system or store. */
export async function pruneBackups(options: PruneOptions): Promise<PruneReport> {
  const { place } = options;
  const lock = await place.lock();
  await using _lock = afterwards(() => lock.release());
  const report = await choose(options);
  const { needed, mayNeed } = await findNeeded(options, report.kept);
  await lock.confirm();
  for (const id of report.removed) await place.remove(manifestName(id));
  await place.settle();
  let batch: string[] = [];
  const flush = async (): Promise<void> => {
    await lock.confirm();
    await inParallel(batch, removalsAtOnce, (name) => place.remove(name));
    options.onProgress('removing files', report.files);
    batch = [];
  };
  for (const folder of [pieceFolder, extentFolder, streamFolder]) {
    for await (const { name, sizeBytes } of place.list(folder)) {
      if (needed.has(name) || mayNeed(name)) continue;
      batch.push(name);
      report.files++;
      report.bytes += sizeBytes;
      if (batch.length === removalsPerLook) await flush();
    }
  }
  await flush();
  await place.settle();
  return report;
}

async function choose(options: PruneOptions): Promise<PruneReport> {
  const { place, keep, keepSinceMs } = options;
  const ids = await listBackupIds(place);
  const report: PruneReport = { kept: [], removed: [], files: 0, bytes: 0 };
  for (const [index, id] of ids.entries()) {
    const isKept = index >= ids.length - Math.max(1, keep) || timeOfBackup(id) >= keepSinceMs;
    (isKept ? report.kept : report.removed).push(id);
  }
  return report;
}

async function readKept({ place, sealer }: PruneOptions, id: string): Promise<Manifest> {
  try {
    const manifest = await readManifest(place, sealer, id);
    if (manifest) return manifest;
    throw new IntegrityError(`the manifest of backup ${id} is missing`);
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    const advice =
      `what it needs is not known, so nothing is removed: put ${manifestName(id)} right or ` +
      'remove it';
    throw new WorkFailure(`${error.message}: ${advice}`, { cause: error });
  }
}

interface Needed {
  /** Names of all that the kept backups need. */
  needed: ReadonlySet<string>;
  /**
   * Whether it is one of the files of an extent that they need, a segment that one of them may be
   * brought forward by, or one that is to come.
   */
  mayNeed: (name: string) => boolean;
}

async function findNeeded(options: PruneOptions, kept: readonly string[]): Promise<Needed> {
  const { place, sealer } = options;
  const pieces = PieceStore.open(place, sealer);
  const needed = new Set<string>();
  /** Segments up to this one are in the oldest kept backup of the stream. */
  const shipped = new Map<string, number>();
  try {
    for (const id of kept) {
      const manifest = await readKept(options, id);
      const { database, files, extents } = manifest;
      if (manifest.shipped) {
        const { stream, seq } = manifest.shipped;
        shipped.set(stream, Math.min(seq, shipped.get(stream) ?? seq));
      }
      for (const { lists } of [database, ...Object.values(files)]) {
        for (const list of lists) {
          needed.add(placedPiece(list));
          for (const name of await pieces.getNames(list)) needed.add(placedPiece(name));
        }
      }
      for (const list of extents?.lists ?? []) needed.add(placedPiece(list));
      for await (const { id: extent } of readExtentLists(pieces, extents?.lists ?? [])) {
        needed.add(placedExtent(extent));
      }
    }
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
    const advice = 'a kept backup is damaged, so nothing is removed (bursar backup verify)';
    throw new WorkFailure(`${error.message}: ${advice}`, { cause: error });
  }
  const newest = kept.at(-1) ?? '';
  const mayNeed = (name: string): boolean => {
    // Which of an extent's files a list means is known to who reads them.
    const plain = plainNameOf(name);
    if (plain !== null) return needed.has(plain);
    const segment = segmentOf(name);
    if (!segment) return false;
    const { stream, seq } = segment;
    const from = shipped.get(stream);
    // A stream that has just begun has no backup yet.
    return from === undefined ? stream > newest : seq > from;
  };
  return { needed, mayNeed };
}
