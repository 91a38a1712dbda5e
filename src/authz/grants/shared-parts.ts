// Parts that many grants have in common, each kept once and known by a small number. Invariant: a
// part is kept exactly as long as somebody holds its number; then the number is given anew.

/** A part by its name: two of one name are equal. */
export interface Part<T> {
  name: string;
  make: () => T;
}

interface Kept {
  name: string;
  id: number;
  value: unknown;
  holders: number;
}

export class SharedParts {
  readonly #byName = new Map<string, Kept>();
  readonly #byId: (Kept | undefined)[] = [];
  readonly #freeIds: number[] = [];

  /** How many are kept. */
  get count(): number {
    return this.#byName.size;
  }

  /** Holds a part, which is made if it is not kept yet. Returns its number. */
  hold({ name, make }: Part<unknown>): number {
    let kept = this.#byName.get(name);
    if (!kept) {
      const value = make();
      kept = { name, id: this.#freeIds.pop() ?? this.#byId.length, value, holders: 0 };
      this.#byName.set(name, kept);
      this.#byId[kept.id] = kept;
    }
    kept.holders += 1;
    return kept.id;
  }

  /** Holds once more what is held. */
  holdAgain(id: number): void {
    this.#kept(id).holders += 1;
  }

  /** Gives up what was held. */
  release(id: number): void {
    const kept = this.#kept(id);
    kept.holders -= 1;
    if (kept.holders > 0) return;
    this.#byName.delete(kept.name);
    this.#byId[id] = undefined;
    this.#freeIds.push(id);
  }

  get(id: number): unknown {
    return this.#kept(id).value;
  }

  #kept(id: number): Kept {
    const kept = this.#byId[id];
    if (!kept) throw new Error('a part that nobody holds was asked for');
    return kept;
  }
}
