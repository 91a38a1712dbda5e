// The history of each version of a bucket, put together from how its objects were used. Invariant:
// of a version it keeps the days on which it was read, and of those not more than fit into memory.
import { CommandFailure } from '../../core/command-failure.ts';
import type { Answers } from '../../gateway/native/routes.ts';
import type { VersionHistory } from '../../tiering/policy/replay.ts';

export type Use = Answers['ListUses']['uses'][number];

const dayMs = 86_400_000;

export interface HistoryLimits {
  versions: number;
  /** Of all versions together, on which they were read. */
  days: number;
}

const usualLimits: HistoryLimits = { versions: 500_000, days: 5_000_000 };

interface Version {
  sizeBytes: number;
  bornDay: number;
  endDay: number | null;
  /** By day. */
  reads: Map<number, { reads: number; bytes: number }>;
}

export class VersionHistories {
  readonly #limits: HistoryLimits;
  readonly #versions = new Map<number, Version>();
  /** Numbers of versions: of each key the newest, and of each id that S3 knows. */
  readonly #newest = new Map<string, number>();
  readonly #named = new Map<string, number>();
  #days = 0;
  /** Reads of which the version is not known. */
  strayReads = 0;

  constructor(limits = usualLimits) {
    this.#limits = limits;
  }

  /** In the order of the log. Throws `CommandFailure` where they become too many. */
  add(use: Use): void {
    const { what, key, version, versionId } = use;
    if (what === 'read') this.#noteRead(use);
    else if (what === 'hidden') this.#newest.delete(key);
    else if (version === null) return;
    else if (what === 'ended') this.#end(key, version, dayOf(use.time));
    else {
      if (what === 'renamed') this.#rename(use, version);
      else this.#begin(use, version);
      this.#newest.set(key, version);
      if (versionId !== null) this.#named.set(nameOf(key, versionId), version);
    }
  }

  #begin({ time, size }: Use, version: number): void {
    const [bornDay, sizeBytes] = [dayOf(time), size ?? 0];
    this.#versions.set(version, { sizeBytes, bornDay, endDay: null, reads: new Map() });
    this.#checkSize();
  }

  /** It goes on under its new number. */
  #rename(use: Use, version: number): void {
    const before = use.from === null ? undefined : this.#versions.get(use.from);
    if (before && use.from !== null) {
      this.#versions.delete(use.from);
      this.#versions.set(version, before);
    } else this.#begin(use, version);
  }

  #end(key: string, version: number, day: number): void {
    const found = this.#versions.get(version);
    if (found) found.endDay = Math.max(day, found.bornDay);
    if (this.#newest.get(key) === version) this.#newest.delete(key);
  }

  #noteRead({ key, version, versionId, time, reads, bytes }: Use): void {
    const named = versionId === null ? undefined : this.#named.get(nameOf(key, versionId));
    const found = this.#versions.get(version ?? named ?? this.#newest.get(key) ?? -1);
    if (!found) {
      this.strayReads += reads;
      return;
    }
    const day = Math.max(Math.floor(dayOf(time)), Math.floor(found.bornDay));
    const before = found.reads.get(day);
    if (!before) {
      this.#days += 1;
      this.#checkSize();
    }
    const sum = { reads: (before?.reads ?? 0) + reads, bytes: (before?.bytes ?? 0) + bytes };
    found.reads.set(day, sum);
  }

  #checkSize(): void {
    const { versions, days } = this.#limits;
    if (this.#versions.size <= versions && this.#days <= days) return;
    throw new CommandFailure(
      'failed',
      `there are more than ${versions} versions, or ${days} days on which some were read: ` +
        'ask for a prefix',
    );
  }

  /** As of this time, milliseconds. */
  list(untilMs: number): VersionHistory[] {
    const until = untilMs / dayMs;
    return [...this.#versions.values()].map(({ sizeBytes, bornDay, endDay, reads }) => ({
      ...{ sizeBytes, bornDay, isEnded: endDay !== null },
      endDay: Math.max(bornDay, endDay ?? until),
      reads: [...reads]
        .map(([day, sum]) => ({ day, ...sum }))
        .filter(({ day }) => day <= (endDay ?? until))
        .sort((a, b) => a.day - b.day),
    }));
  }
}

function dayOf(time: string): number {
  return Date.parse(time) / dayMs;
}

/** No key of S3 has a line end before an id that has none. */
function nameOf(key: string, versionId: string): string {
  return `${versionId}\n${key}`;
}
