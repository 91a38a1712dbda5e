// What journals have still to tell, as far as it says which extents may not be removed yet: those
// that a rebuild by what a store's journal says now would take for alive. Invariants: a journal
// waits with what became of versions of its own store's buckets alone; these name extents of their
// tenant alone, in that store and in the legs of classes that the tenant has, or had; and an extent
// that was condemned before the oldest of such changes is named by none of them.
import type { Condemned } from '../catalog/extents.ts';
import { listOutbox, listUntoldBuckets } from '../catalog/outbox.ts';
import type { Reader } from '../core/database.ts';
import { getOrMake } from '../core/maps.ts';

/** Whether a tenant has, or had since the start, a class with a leg in the store. */
export type MayLink = (tenant: string, store: number) => boolean;

/** The oldest change of a tenant's buckets that a journal waits with. */
interface Waiting {
  ms: number;
  /** Its classes of then may be gone: it was there before the gateway started. */
  isOld: boolean;
}

interface Scanned {
  lastSeq: number;
  /** By tenant; null: of buckets that are gone, so of any. */
  tenants: Map<string | null, Waiting>;
}

/** For one sweep: what is told meanwhile is still waited for in it. */
export class Untold {
  readonly #read: Reader;
  readonly #mayLink: MayLink;
  readonly #startSeq: number;
  readonly #journals = new Map<number, Scanned>();

  /** `startSeq`: the newest record when the gateway started. */
  constructor(read: Reader, { mayLink, startSeq }: { mayLink: MayLink; startSeq: number }) {
    this.#read = read;
    this.#mayLink = mayLink;
    this.#startSeq = startSeq;
  }

  /**
   * Those of a store that no journal may still call alive. They have been read before: what let go
   * of them is committed, and is told, or waits, from now on.
   */
  async pass(
    store: number,
    found: readonly Condemned[],
    journaled: readonly number[],
  ): Promise<Condemned[]> {
    if (found.length === 0) return [];
    // The store's own journal is waited for whatever it has to tell.
    const [own] = await listOutbox(this.#read, store, 1);
    let passed = found.filter(({ changedMs }) => changedMs < (own?.timeMs ?? Number.MAX_VALUE));
    for (const other of journaled) {
      if (other === store) continue;
      const tenants = await this.#scan(other);
      passed = passed.filter((one) => !this.#isNamed(store, one, tenants));
    }
    return passed;
  }

  #isNamed(store: number, { tenant, changedMs }: Condemned, tenants: Scanned['tenants']): boolean {
    for (const [of, { ms, isOld }] of tenants) {
      if (changedMs < ms) continue;
      if (of === null || tenant === null) return true;
      if (of === tenant && (isOld || this.#mayLink(of, store))) return true;
    }
    return false;
  }

  async #scan(journal: number): Promise<Scanned['tenants']> {
    const none = (): Scanned => ({ lastSeq: -1, tenants: new Map() });
    const scanned = getOrMake(this.#journals, journal, none);
    const { tenants } = scanned;
    for (const one of await listUntoldBuckets(this.#read, journal, scanned.lastSeq)) {
      const before = tenants.get(one.tenant);
      tenants.set(one.tenant, {
        ms: Math.min(one.firstMs, before?.ms ?? one.firstMs),
        isOld: one.firstSeq <= this.#startSeq || before?.isOld === true,
      });
      scanned.lastSeq = Math.max(scanned.lastSeq, one.lastSeq);
    }
    return tenants;
  }
}
