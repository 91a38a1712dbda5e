// Small objects, current or as of a snapshot, as they were read and verified, so that a GET of one
// that is read often needs neither the database nor another verification. Invariant: what is given
// is the committed state at that moment (catalog/version-marks.ts), and memory stays within its
// bound. Who may read an object, whether the snapshot is still there, what a read costs and how it
// is recorded is decided for each request, as ever.

import type { Mark, VersionMarks } from '../../../catalog/version-marks.ts';
import type { Attributes, Version } from '../../../catalog/versions.ts';

/** What a GET needs of an object. Nobody changes any of it. */
export interface SmallObject {
  version: Version;
  attributes: Attributes;
  /** Of all of it; hex. */
  sha256: string | undefined;
  /** All of its bytes, verified. */
  body: Buffer;
}

/** A key as it is now, or as it was at a snapshot. */
export interface ObjectName {
  bucketId: number;
  key: string;
  /** The snapshot's `seq`; undefined: as it is now. */
  at: number | undefined;
}

interface Kept extends SmallObject {
  mark: Mark;
  weightBytes: number;
  /** It was given since it was last looked whether it should go. */
  isUsed: boolean;
}

/** What an entry takes besides its bytes and texts, about. */
const entryBytes = 1024;
/** So many are looked at for each one that is kept, so that this takes a bounded time. */
const looksMax = 8;

export class ObjectMemory {
  readonly #marks: VersionMarks;
  readonly #bytesMax: number;
  /** By bucket, snapshot and key, from the one that was looked at longest ago on. */
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;
  hits = 0;
  misses = 0;

  /** `bytesMax`: 0 keeps nothing. */
  constructor(marks: VersionMarks, bytesMax: number) {
    this.#marks = marks;
    this.#bytesMax = bytesMax;
  }

  /** The version of the key, where it is kept and has not changed. */
  find(asked: ObjectName): SmallObject | undefined {
    const name = nameOf(asked);
    const kept = this.#kept.get(name);
    if (kept && this.#marks.holds(kept.mark)) {
      kept.isUsed = true;
      this.hits += 1;
      return kept;
    }
    if (kept) this.#remove(name, kept);
    this.misses += 1;
    return undefined;
  }

  /** To be taken before an object is read that may be kept. */
  mark({ bucketId, key }: ObjectName): Mark | null {
    return this.#bytesMax > 0 ? this.#marks.take(bucketId, key) : null;
  }

  /** Keeps a version that was read after the mark was taken, if it is still what the key is. */
  keep(mark: Mark, asked: ObjectName, object: SmallObject): void {
    const { version, body } = object;
    const { key } = asked;
    // What the row brought along stays in memory with it: it is weighed, too.
    const texts = 2 * (version.attributes.length + key.length);
    const weightBytes = entryBytes + body.buffer.byteLength + version.manifest.length + texts;
    if (weightBytes > this.#bytesMax / 16 || !this.#marks.holds(mark)) return;
    const name = nameOf(asked);
    const before = this.#kept.get(name);
    if (before) this.#remove(name, before);
    this.#makeRoom(weightBytes);
    if (this.#bytes + weightBytes > this.#bytesMax) return;
    this.#kept.set(name, { ...object, mark, weightBytes, isUsed: false });
    this.#bytes += weightBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get entries(): number {
    return this.#kept.size;
  }

  /** Lets go of what was not used lately; what was gets another round ("second chance"). */
  #makeRoom(weightBytes: number): void {
    let looks = 0;
    for (const [name, kept] of this.#kept) {
      if (this.#bytes + weightBytes <= this.#bytesMax || looks === looksMax) return;
      looks += 1;
      this.#remove(name, kept);
      if (!kept.isUsed || !this.#marks.holds(kept.mark)) continue;
      kept.isUsed = false;
      this.#kept.set(name, kept);
      this.#bytes += kept.weightBytes;
    }
  }

  #remove(name: string, { weightBytes }: Kept): void {
    this.#kept.delete(name);
    this.#bytes -= weightBytes;
  }
}

function nameOf({ bucketId, key, at }: ObjectName): string {
  return at === undefined ? `${bucketId}/${key}` : `${bucketId}@${at}/${key}`;
}
