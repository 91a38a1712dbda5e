// The storage classes of all tenants, kept in memory: each write that names a class looks here.
import { haveBeenClasses, listAllClasses } from '../catalog/class-rows.ts';
import type { Reader } from '../core/database.ts';
import { getOrMake } from '../core/maps.ts';
import { defaultTenant } from '../core/principal.ts';
import type { LedgerEvent } from '../ledger/events.ts';
import { type ClassDefinition, decodeDefinition } from '../tiering/classes/class-definition.ts';

export interface StorageClass {
  /** Whose it is; the gateway's own tenant: everybody's. */
  tenant: string;
  name: string;
  definition: ClassDefinition;
}

export class ClassBook {
  /** Of each tenant the classes that have tiers, and those. */
  readonly #tiered = new Map<string, ReadonlySet<string>>();
  /** Of each tenant the stores of the legs of all classes since the start, also of those gone. */
  readonly #legs = new Map<string, Set<string>>();
  /** Whether there were any before the start. */
  #wereAny = false;
  /** By tenant, and by name. */
  readonly #classes = new Map<string, Map<string, StorageClass>>();

  static async load(read: Reader): Promise<ClassBook> {
    const book = new ClassBook();
    book.#wereAny = await haveBeenClasses(read);
    for (const { tenant, name, definition } of await listAllClasses(read)) {
      book.#put(tenant, name, definition);
    }
    return book;
  }

  /** Whether nobody has any, nor ever had. */
  get isEmpty(): boolean {
    return this.#classes.size === 0 && !this.#wereAny;
  }

  /** Whether a tenant has a class with a leg in the store, or had one since the start. */
  everHadLeg(tenant: string, store: string): boolean {
    return [tenant, defaultTenant].some((of) => this.#legs.get(of)?.has(store));
  }

  /** The class of a name; undefined: the tenant has none, and neither has everybody. */
  named(tenant: string, name: string): StorageClass | undefined {
    return this.#classes.get(tenant)?.get(name) ?? this.#classes.get(defaultTenant)?.get(name);
  }

  /** The class that an alias means to a tenant: its own before everybody's. */
  aliased(tenant: string, alias: string): StorageClass | undefined {
    for (const of of [tenant, defaultTenant]) {
      for (const one of this.#classes.get(of)?.values() ?? []) {
        if (one.definition.aliases.includes(alias)) return one;
      }
    }
    return undefined;
  }

  /** The class whose tier one is, or that has tiers itself; undefined: neither. */
  chainOf(tenant: string, name: string): StorageClass | undefined {
    const found = this.named(tenant, name);
    if (!found || !this.#tiered.get(found.tenant)?.has(name)) return undefined;
    return this.named(tenant, found.definition.tier?.of ?? name);
  }

  /** The names of all classes that have tiers, and of those. */
  listTiered(): string[] {
    return [...new Set([...this.#tiered.values()].flatMap((names) => [...names]))];
  }

  apply(event: LedgerEvent): void {
    if (event.kind === 'class') this.#put(event.tenant, event.name, event.definition);
    else if (event.kind === 'tenant' && event.isGone) {
      this.#classes.delete(event.name);
      this.#tiered.delete(event.name);
    }
  }

  /** A row that is no definition is no class: seals and `bursar verify deep` tell of it. */
  #put(tenant: string, name: string, text: string | null): void {
    const definition = text === null ? null : decodeDefinition(text);
    const classes = getOrMake(this.#classes, tenant, () => new Map<string, StorageClass>());
    if (definition) classes.set(name, { tenant, name, definition });
    else classes.delete(name);
    const legs = getOrMake(this.#legs, tenant, () => new Set<string>());
    for (const leg of definition?.durability.legs ?? []) legs.add(leg.store);
    const tiers = [...classes.values()].filter((one) => one.definition.tier !== undefined);
    const names = tiers.flatMap((one) => [one.name, one.definition.tier?.of ?? '']);
    if (names.length > 0) this.#tiered.set(tenant, new Set(names));
    else this.#tiered.delete(tenant);
  }
}
