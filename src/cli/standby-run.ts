// The life of `bursar standby follow`: looks again and again, says what changes, and ends on a
// signal or when another command asks it to. Invariant: whatever fails it goes on, and `look.json`
// says since when.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PieceSealer } from '../backup/pieces.ts';
import type { BackupPlace } from '../backup/place.ts';
import { Follower, standbyFolder } from '../backup/shipping/follower.ts';
import { isoTime, nowMs } from '../core/clock.ts';
import { messageOfFailure } from '../core/command-failure.ts';
import { replaceFileDurably } from '../core/durable-file.ts';
import { IntegrityError } from '../core/errors.ts';
import type { PlaceFlags } from '../server/folder/backup-place.ts';
import type { DataFolder } from '../server/folder/data-folder.ts';

export interface StandbyOptions {
  folder: DataFolder;
  place: BackupPlace;
  placeFlags: PlaceFlags;
  everyMs: number;
  onProgress: (step: string, done: number, total?: number) => void;
  /** What an operator should know, once. */
  tell: (text: string) => void;
}

/** `DIR/standby/look.json`: what a look found, for `status` and `promote`. */
export interface Look {
  place: string;
  placeFlags: PlaceFlags;
  /** When the copy was last seen to be complete, milliseconds; null: it never was. */
  seenMs: number | null;
  /** Why the last look failed; null: it did not. */
  problem: string | null;
}

const backupsEveryMs = 30_000;
const stopLookMs = 200;
const lookName = 'look.json';
const stopName = 'stop';

export function readLook(folder: string): Look | null {
  try {
    return JSON.parse(readFileSync(join(folder, standbyFolder, lookName), 'utf8'));
  } catch {
    return null;
  }
}

/** Asks the process that follows in this folder to end. */
export function askToStop(folder: string): void {
  writeFileSync(join(folder, standbyFolder, stopName), '', { mode: 0o600 });
}

export class StandbyRun {
  readonly #options: StandbyOptions;
  readonly #stopping = new AbortController();
  #look: Look;

  constructor(options: StandbyOptions) {
    this.#options = options;
    const { place, placeFlags } = options;
    this.#look = { place: place.name, placeFlags, seenMs: null, problem: null };
  }

  async untilStopped(): Promise<void> {
    const { folder, place, everyMs, onProgress, tell } = this.#options;
    const { path, storeFolder, keyring } = folder;
    const sealer = new PieceSealer(keyring);
    const follower = await Follower.open({ folder: path, storeFolder, place, sealer, onProgress });
    const stopFile = join(path, standbyFolder, stopName);
    rmSync(stopFile, { force: true });
    const { signal } = this.#stopping;
    for (const name of ['SIGINT', 'SIGTERM'] as const) {
      process.once(name, () => this.#stopping.abort());
    }
    const watch = setInterval(() => {
      if (existsSync(stopFile)) this.#stopping.abort();
    }, stopLookMs);
    let lookedMs = Number.NEGATIVE_INFINITY;
    let isLost = false;
    try {
      while (!signal.aborted) {
        try {
          if (isLost || !follower.state?.position || nowMs() - lookedMs > backupsEveryMs) {
            await follower.lookForBackups({ isLost });
            lookedMs = nowMs();
            isLost = false;
          }
          const seenMs = nowMs();
          await follower.follow();
          if (this.#look.seenMs === null && follower.state) {
            tell(`follows ${place.name}, now as of ${isoTime(follower.state.timeMs)}`);
          }
          await this.#note({ seenMs, problem: null });
        } catch (error) {
          isLost = error instanceof IntegrityError;
          const problem = messageOfFailure(error instanceof Error ? (error.cause ?? error) : error);
          if (this.#look.problem !== problem) tell(problem);
          // Where even this cannot be written, the time of the last look shows that something is
          // wrong.
          await this.#note({ problem }).catch(() => null);
        }
        await sleep(everyMs, null, { signal }).catch(() => null);
      }
    } finally {
      clearInterval(watch);
      rmSync(stopFile, { force: true });
    }
  }

  async #note(found: Partial<Look>): Promise<void> {
    this.#look = { ...this.#look, ...found };
    const path = join(this.#options.folder.path, standbyFolder, lookName);
    await replaceFileDurably(path, `${JSON.stringify(this.#look)}\n`, { mode: 0o600 });
  }
}
