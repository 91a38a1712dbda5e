// What the records tell of things of one kind, and the rows that there are of them. Invariants: each
// row is compared member by member with what the last record that told of it said; a member that no
// record tells of is not compared; and what a record that was erased may have changed is counted as
// unknown, not told as a difference.
import type { Difference } from '../../audit/verify/record-fields.ts';
import { canonicalize } from '../../core/canonical-json.ts';

/** By name, what is said of a thing; undefined: it is not told. */
export type Members = Readonly<Record<string, unknown>>;

interface Told {
  /** Of the last record that told of it. */
  index: number;
  members: Members;
}

export interface Row {
  id: string;
  members: Members;
}

/** What a comparison of rows with records needs to know, and tells. */
export interface Comparison {
  tell: (difference: Difference) => void;
  /** Of the last record that was erased or cannot be read; -1: there is none. */
  lastErased: number;
  /** Called for each row that cannot be compared for that. */
  onUnknown: () => void;
}

export class ComparedThings {
  readonly #noun: string;
  readonly #told = new Map<string, Told>();

  /** `noun`: what one of them is called, such as `bucket`. */
  constructor(noun: string) {
    this.#noun = noun;
  }

  get(id: string): Told | undefined {
    return this.#told.get(id);
  }

  entries(): IterableIterator<[string, Told]> {
    return this.#told.entries();
  }

  /** A record made it, or says all of it. */
  put(id: string, index: number, members: Members): void {
    this.#told.set(id, { index, members });
  }

  /** A record changed some of it; members that are undefined are not known any more. */
  change(id: string, index: number, members: Members): void {
    const told = this.#told.get(id);
    this.#told.set(id, { index, members: { ...told?.members, ...members } });
  }

  delete(id: string): void {
    this.#told.delete(id);
  }

  /** Compares all rows that there are. `mayLack`: may one that records tell of have no row? */
  compare(
    rows: readonly Row[],
    comparison: Comparison,
    mayLack: (id: string, told: Told) => boolean = () => false,
  ): void {
    const seen = new Set<string>();
    for (const row of rows) {
      seen.add(row.id);
      this.#compareRow(row, comparison);
    }
    for (const [id, told] of this.#told) {
      if (seen.has(id) || mayLack(id, told)) continue;
      const what = `it is missing, and record ${told.index} told of it last`;
      this.#conclude(id, told.index, what, comparison);
    }
  }

  #compareRow({ id, members }: Row, comparison: Comparison): void {
    const told = this.#told.get(id);
    if (!told) this.#conclude(id, -1, 'no record made it', comparison);
    for (const [name, value] of Object.entries(told?.members ?? {})) {
      if (value === undefined || isSame(value, members[name])) continue;
      const what = `its ${name} is not what record ${told?.index} and those before it say`;
      this.#conclude(id, told?.index ?? -1, what, comparison);
    }
  }

  #conclude(id: string, index: number, what: string, comparison: Comparison): void {
    if (comparison.lastErased > index) comparison.onUnknown();
    else comparison.tell({ where: `${this.#noun} ${id}`, what });
  }
}

function isSame(said: unknown, stored: unknown): boolean {
  if (typeof said !== 'object' || said === null) return said === stored;
  return canonicalize(said) === canonicalize(stored);
}
