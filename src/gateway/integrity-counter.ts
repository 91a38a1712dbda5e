// How often what is stored turned out not to be what was written, since this process began:
// for `/_/health`, so that an operator's monitoring sees it. Numbers only; whose data it was is in
// the records.
import type { IntegrityError, IntegrityKind } from '../core/errors.ts';
import { inlineStore } from '../core/manifest.ts';

const integrityKinds: readonly IntegrityKind[] = ['row', 'record', 'missing', 'length', 'chunk'];
/** Where rows are, and the bytes in them. */
const catalogName = 'catalog';

type Named = { number: number; name: string };
type Kinds = Partial<Record<IntegrityKind, number>>;

export class IntegrityCounter {
  readonly #stores = new Map<number, Kinds>();

  count({ store, kind }: Pick<IntegrityError, 'store' | 'kind'>): void {
    const kinds = this.#stores.get(store) ?? {};
    kinds[kind] = (kinds[kind] ?? 0) + 1;
    this.#stores.set(store, kinds);
  }

  /** Of each store and kind: also where there were none, so that the first is seen to come. */
  *counts(stores: readonly Named[]): Generator<readonly [string, IntegrityKind, number]> {
    for (const { number, name } of [{ number: inlineStore, name: catalogName }, ...stores]) {
      const kinds = this.#stores.get(number);
      for (const kind of integrityKinds) yield [name, kind, kinds?.[kind] ?? 0];
    }
  }

  /**
   * By the name of the store, `catalog` for rows and the bytes in them, then by what failed. What
   * never happened is not in it.
   */
  summarize(nameOf: (store: number) => string): Record<string, Kinds> {
    const named = [...this.#stores].map(([store, kinds]): [string, Kinds] => {
      return [store === inlineStore ? catalogName : nameOf(store), kinds];
    });
    return Object.fromEntries(named);
  }
}
