// By which journals identities are restored. Each store's journal tells all of them, so any one
// will do; of several the newest word on each thing holds. Invariants: only journals of one
// database are read together, since only then log indexes tell what is newer (of the others
// revocations alone are taken); and what is missing of one journal is in doubt unless another tells
// of the same changes.
import { compareGenerations } from '../journal/generation.ts';
import type { Tells } from '../journal/identity-format.ts';

/** Changes, both included, of which a journal may not tell. */
export interface Hole {
  firstSeq: number;
  lastSeq: number;
}

/** What one journal was like, once it was read. */
export interface ToldIdentities {
  /** Up to which change it tells. */
  lastSeq: number;
  holes: Hole[];
  /** BEGIN of its snapshot, where that tells all and was read whole; else 0. */
  floorSeq: number;
  tells: Tells | null;
  /** Entries of a later version, of which nobody knows what they take away. */
  strange: number;
}

interface Begun {
  journal: { generation: string };
  begin: { instance?: string };
}

/** The database by whose journals identities are restored; undefined: none of them tells any. */
export function chooseInstance(
  journals: readonly Begun[],
  wanted: string | undefined,
): string | undefined {
  const telling = journals.filter(({ begin }) => begin.instance !== undefined);
  const asked = telling.find(({ journal }) => journal.generation === wanted);
  const newestFirst = telling.sort((a, b) =>
    compareGenerations(b.journal.generation, a.journal.generation),
  );
  return (asked ?? newestFirst[0])?.begin.instance;
}

/** Whether something may be missing that no other of these journals tells. */
export function isDoubtful(journals: readonly ToldIdentities[]): boolean {
  return journals.some(
    ({ holes, strange }, self) =>
      strange > 0 || holes.some((hole) => !isClosed(hole, journals.toSpliced(self, 1))),
  );
}

function isClosed({ firstSeq, lastSeq }: Hole, others: readonly ToldIdentities[]): boolean {
  return others.some(
    (other) =>
      other.tells !== null &&
      other.lastSeq >= lastSeq &&
      !other.holes.some((hole) => hole.firstSeq <= lastSeq && hole.lastSeq >= firstSeq),
  );
}
