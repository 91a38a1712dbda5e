// The rows that were found not to be what was stored, and whom the gateway does not serve for that:
// a principal, a bucket, a tenant, or everybody where nobody knows whom a row concerns. Whoever
// reads such a row is refused anyway; this is for what is served from memory, and for rows that
// were removed or put back, of which no row tells.
import { IntegrityError } from '../core/errors.ts';
import type { Unsealed } from '../core/seals/row-seal.ts';

export class SealFaults {
  /** By what they are about. */
  #found = new Map<string, Unsealed>();
  #everybody: Unsealed | null = null;
  readonly #tenants = new Map<string, Unsealed>();
  readonly #principals = new Map<string, Unsealed>();
  readonly #buckets = new Map<string, Unsealed>();
  readonly #told = new Set<(unsealed: Unsealed) => void>();
  /** Nearly always: nobody is concerned, and nothing needs to be asked. */
  isEmpty = true;
  #onChanged: (found: readonly Unsealed[]) => void = () => {};

  /** What was found and not put right since. */
  get found(): readonly Unsealed[] {
    return [...this.#found.values()];
  }

  /** Told of what was found already, and of each that is found later, once. */
  onFound(told: (unsealed: Unsealed) => void): void {
    this.#told.add(told);
    for (const unsealed of this.#found.values()) told(unsealed);
  }

  /** Told of all that is found, whenever that is another. */
  onChanged(told: (found: readonly Unsealed[]) => void): void {
    this.#onChanged = told;
  }

  add(unsealed: Unsealed): void {
    if (this.#found.has(unsealed.what)) return;
    this.#enter(unsealed);
    for (const told of this.#told) told(unsealed);
    this.#onChanged(this.found);
  }

  /** What a verification of everything has found: what it did not find again is right again. */
  replace(found: readonly Unsealed[]): void {
    const before = this.#found;
    this.#found = new Map();
    this.#everybody = null;
    this.isEmpty = true;
    for (const kept of [this.#tenants, this.#principals, this.#buckets]) kept.clear();
    for (const unsealed of found) {
      this.#enter(unsealed);
      if (!before.has(unsealed.what)) for (const told of this.#told) told(unsealed);
    }
    if (before.size + found.length > 0) this.#onChanged(this.found);
  }

  /** Why who asks is not served; null: they are. */
  ofPrincipal({ tenant, name }: { tenant: string; name: string }): IntegrityError | null {
    const found = this.#ofTenant(tenant) ?? this.#principals.get(`${tenant}/${name}`);
    return found ? new IntegrityError(found.what) : null;
  }

  /** Throws IntegrityError for a bucket that is not served, by its tenant and its name there. */
  checkBucket(tenant: string, name: string): void {
    const found = this.#ofTenant(tenant) ?? this.#buckets.get(`${tenant}/${name}`);
    if (found) throw new IntegrityError(found.what);
  }

  #ofTenant(tenant: string): Unsealed | undefined {
    return this.#everybody ?? this.#tenants.get(tenant);
  }

  #enter(unsealed: Unsealed): void {
    this.#found.set(unsealed.what, unsealed);
    this.isEmpty = false;
    const { scope } = unsealed;
    if (scope === null) this.#everybody ??= unsealed;
    else if (scope.principal) this.#principals.set(`${scope.tenant}/${scope.principal}`, unsealed);
    else if (scope.bucket) this.#buckets.set(`${scope.tenant}/${scope.bucket}`, unsealed);
    else this.#tenants.set(scope.tenant, unsealed);
  }
}
