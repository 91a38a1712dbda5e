// Small numbers for names that come up, so that what is counted by them are plain arrays.
// Invariant: a name has one slot for good, and there are never more slots than were asked for.

export const nobodySlot = 0;
/** What slot `nobodySlot` and the last one are called. */
const nobody = '';
const others = 'other';

export class NameSlots {
  readonly #slots = new Map<string, number>();
  readonly #names: string[] = [nobody];
  readonly #othersSlot: number;
  /** Slots there can be: of `namesMax` names, of none, and of all that come later. */
  readonly size: number;

  constructor(namesMax: number) {
    this.size = namesMax + 2;
    this.#othersSlot = namesMax + 1;
    // One that is called so must not make a second series of that name.
    this.#slots.set(others, this.#othersSlot);
  }

  /**
   * Returns a slot from 0 to `size` - 1. `isNew` says whether the name may take a slot if it has
   * none.
   */
  slotOf(name: string | null, isNew: boolean): number {
    if (name === null) return nobodySlot;
    return this.#slots.get(name) ?? (isNew ? this.#take(name) : this.#othersSlot);
  }

  #take(name: string): number {
    const slot = this.#names.length;
    if (slot === this.#othersSlot) return slot;
    this.#names.push(name);
    this.#slots.set(name, slot);
    return slot;
  }

  nameOf(slot: number): string {
    return this.#names[slot] ?? others;
  }
}
