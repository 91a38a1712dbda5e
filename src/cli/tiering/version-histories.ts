// The history of each version of a bucket, put together from how its objects were used. Invariant:
// of a version it keeps the days on which it was read, and of those not more than fit into memory.
import { CommandFailure } from '../../core/command-failure.ts';
import type { Answers } from '../../gateway/native/routes.ts';
import type { DayOfReads } from '../../tiering/policy/cold-rule.ts';
import type { VersionHistory } from '../../tiering/policy/replay.ts';

export type Use = Answers['ListUses']['uses'][number];

const dayMs = 86_400_000;

export interface HistoryLimits {
  versions: number;
  /** Of all versions together, on which they were read. */
  days: number;
}

const usualLimits: HistoryLimits = { versions: 500_000, days: 5_000_000 };

/** Days on which a version was read, as three numbers each: there may be millions of them. */
const numbersPerDay = 3;
const none: number[] = [];

class Version {
  readonly sizeBytes: number;
  readonly bornDay: number;
  endDay: number | null = null;
  /** Day, reads and bytes; by day, ascending. */
  days = none;

  constructor(sizeBytes: number, bornDay: number) {
    this.sizeBytes = sizeBytes;
    this.bornDay = bornDay;
  }

  /** Gives whether it is a day on which none was known. */
  addReads(day: number, reads: number, bytes: number): boolean {
    if (this.days === none) this.days = [];
    const { days } = this;
    // They come in the order of the log, or nearly so.
    let at = days.length;
    while (at > 0 && (days[at - numbersPerDay] ?? 0) > day) at -= numbersPerDay;
    if (at > 0 && days[at - numbersPerDay] === day) {
      days[at - 2] = (days[at - 2] ?? 0) + reads;
      days[at - 1] = (days[at - 1] ?? 0) + bytes;
      return false;
    }
    if (at === days.length) days.push(day, reads, bytes);
    else days.splice(at, 0, day, reads, bytes);
    return true;
  }
}

/** What is known of a version as of a time; its reads are put into words when asked for. */
class KnownHistory implements VersionHistory {
  readonly #version: Version;
  readonly endDay: number;

  constructor(version: Version, untilDay: number) {
    this.#version = version;
    this.endDay = Math.max(version.bornDay, version.endDay ?? untilDay);
  }

  get sizeBytes(): number {
    return this.#version.sizeBytes;
  }

  get bornDay(): number {
    return this.#version.bornDay;
  }

  get isEnded(): boolean {
    return this.#version.endDay !== null;
  }

  get reads(): DayOfReads[] {
    const { days, endDay } = this.#version;
    const all: DayOfReads[] = [];
    for (let i = 0; i < days.length; i += numbersPerDay) {
      const [day = 0, reads = 0, bytes = 0] = [days[i], days[i + 1], days[i + 2]];
      if (day <= (endDay ?? this.endDay)) all.push({ day, reads, bytes });
    }
    return all;
  }
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
    this.#versions.set(version, new Version(size ?? 0, dayOf(time)));
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
    if (!found.addReads(day, reads, bytes)) return;
    this.#days += 1;
    this.#checkSize();
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
    return [...this.#versions.values()].map((one) => new KnownHistory(one, untilMs / dayMs));
  }
}

function dayOf(time: string): number {
  return Date.parse(time) / dayMs;
}

/** No key of S3 has a line end before an id that has none. */
function nameOf(key: string, versionId: string): string {
  return `${versionId}\n${key}`;
}
