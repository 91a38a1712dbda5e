// How the segments of a journal hang together: each names the one before it, and the newest
// snapshot that was complete when it was written. So what is not there is known by what is, but for
// the end; and that by a database which lists what it wrote, up to then. Invariants: nothing that
// an authentic object names can be gone unnoticed; and what does not open counts as damaged only
// where it can be one of ours: a name alone is anybody's.
import { completeName, type Head, lastSeqOf, snapshotOf } from '../journal/format.ts';

type SegmentHead = Extract<Head, { kind: 'segment' }>;

export class Chain {
  /** Of the snapshot that the journal starts from; 0: there is none. */
  readonly #beginSeq: number;
  readonly #segments = new Set<string>();
  /** Segments that others name, not told by the snapshot. */
  readonly #named = new Set<string>();
  readonly #passedOver: string[] = [];
  #lastSeq: number;
  #snapshot = -1;

  constructor(beginSeq: number) {
    this.#beginSeq = beginSeq;
    this.#lastSeq = beginSeq - 1;
  }

  /** There was a complete snapshot of this BEGIN; what 0.1.0 wrote does not say so. */
  expect(snapshot: number | null | undefined): void {
    this.#snapshot = Math.max(this.#snapshot, snapshot ?? -1);
  }

  /** A segment that was written, as a database says that wrote it. */
  wrote(name: string, lastSeq: number): void {
    // What the snapshot tells as well may have been removed.
    if (lastSeq >= this.#beginSeq) this.#named.add(name);
  }

  /** A segment that opens. */
  add(name: string, { previous, lastSeq, snapshot }: SegmentHead): void {
    this.#segments.add(name);
    this.#lastSeq = Math.max(this.#lastSeq, lastSeq);
    this.expect(snapshot);
    if (previous !== null) this.wrote(previous, lastSeqOf(previous) ?? Infinity);
  }

  /** A segment, or what completes a snapshot, that is there and does not open. */
  passOver(name: string): void {
    this.#passedOver.push(name);
  }

  /** Once all was added. */
  judge(): { missing: string[]; damaged: string[]; foreign: string[] } {
    const wanted = new Set([...this.#named].filter((name) => !this.#segments.has(name)));
    if (this.#snapshot > this.#beginSeq) wanted.add(completeName(this.#snapshot));
    const damaged = new Set<string>();
    const foreign: string[] = [];
    for (const name of this.#passedOver) {
      if (wanted.has(name) || this.#isBehind(name)) damaged.add(name);
      else foreign.push(name);
    }
    const missing = [...wanted].filter((name) => !damaged.has(name));
    return { missing, damaged: [...damaged], foreign };
  }

  /** What would tell of changes that no other object tells: it may be the end of the journal. */
  #isBehind(name: string): boolean {
    const toldSeq = lastSeqOf(name) ?? (snapshotOf(name)?.beginSeq ?? 0) - 1;
    return toldSeq > this.#lastSeq;
  }
}
