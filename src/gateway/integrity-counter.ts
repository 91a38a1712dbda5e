// How often what is stored turned out not to be what was written, since this process began
// (DESIGN section 7): for `/_/health`, so that an operator's monitoring sees it. Numbers only; whose
// data it was is in the records.
import type { IntegrityError, IntegrityKind } from '../core/errors.ts';
import { inlineStore } from '../core/manifest.ts';

type Kinds = Partial<Record<IntegrityKind, number>>;

export class IntegrityCounter {
  readonly #stores = new Map<number, Kinds>();

  count({ store, kind }: Pick<IntegrityError, 'store' | 'kind'>): void {
    const kinds = this.#stores.get(store) ?? {};
    kinds[kind] = (kinds[kind] ?? 0) + 1;
    this.#stores.set(store, kinds);
  }

  /**
   * By the name of the store, `catalog` for rows and the bytes in them, then by what failed. What
   * never happened is not in it.
   */
  summarize(nameOf: (store: number) => string): Record<string, Kinds> {
    const named = [...this.#stores].map(([store, kinds]): [string, Kinds] => {
      return [store === inlineStore ? 'catalog' : nameOf(store), kinds];
    });
    return Object.fromEntries(named);
  }
}
