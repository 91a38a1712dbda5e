// The aliases that grants bring along: names that a tenant's people have for another tenant's
// bucket while the grant is there. Invariant: an alias begins with the name of the tenant that
// grants, and stands for a bucket of that tenant, so that a name tells whose bucket is meant; and
// whatever else has a name in the tenant that uses it goes before.
import type { Grant } from '../authz/grants/grant.ts';
import { aliasesMax } from '../core/limits.ts';
import { getOrMake } from '../core/maps.ts';
import type { Mount } from './mount-book.ts';

export interface Alias extends Mount {
  /** The grant that brings it, by its name in `bucketTenant`. */
  grant: string;
  /** Those whom the grant names, of the tenant that uses the alias. */
  subjects: readonly string[];
}

/** The other tenants whose people a grant of `tenant` names. */
export function granteesOf(tenant: string, { subjects }: Pick<Grant, 'subjects'>): Set<string> {
  const tenants = subjects.map((subject) => /^[a-z]+:([^/]+)/.exec(subject)?.[1]);
  return new Set(tenants.filter((one) => one !== undefined && one !== tenant) as string[]);
}

export class AliasBook {
  /** By the tenant that uses them, and by name. */
  readonly #aliases = new Map<string, Map<string, Alias[]>>();
  /** How many a tenant brings to another, by `from/to`. */
  readonly #counts = new Map<string, number>();

  add(tenant: string, grant: Grant): void {
    for (const [to, alias] of aliasesOf(tenant, grant)) {
      const named = getOrMake(this.#aliases, to, () => new Map<string, Alias[]>());
      const all = getOrMake(named, alias.name, () => []);
      all.push(alias);
      all.sort(compare);
      this.#count(tenant, to, 1);
    }
  }

  remove(tenant: string, grant: Grant): void {
    for (const [to, { name }] of aliasesOf(tenant, grant)) {
      const named = this.#aliases.get(to);
      const all = named?.get(name) ?? [];
      const left = all.filter((one) => one.bucketTenant !== tenant || one.grant !== grant.name);
      if (left.length > 0) named?.set(name, left);
      else named?.delete(name);
      if (named?.size === 0) this.#aliases.delete(to);
      this.#count(tenant, to, left.length - all.length);
    }
  }

  /** Gives why the grant's alias cannot be made; undefined: it can. It is not in the book. */
  findFault(tenant: string, grant: Grant): string | undefined {
    for (const [to, { name, bucket }] of aliasesOf(tenant, grant)) {
      const others = this.#aliases.get(to)?.get(name) ?? [];
      const other = others.find((one) => one.bucketTenant === tenant && one.bucket !== bucket);
      if (other) return `The grant ${other.grant} has the alias for the bucket ${other.bucket}`;
      if ((this.#counts.get(`${tenant}/${to}`) ?? 0) >= aliasesMax) {
        return `A tenant brings another at most ${aliasesMax} aliases`;
      }
    }
    return undefined;
  }

  find(tenant: string, name: string): Alias | undefined {
    return this.#aliases.get(tenant)?.get(name)?.[0];
  }

  /** All of a tenant's, those before that others hide included. */
  *list(tenant: string): Generator<Alias> {
    for (const all of this.#aliases.get(tenant)?.values() ?? []) yield* all;
  }

  #count(from: string, to: string, change: number): void {
    const id = `${from}/${to}`;
    const count = (this.#counts.get(id) ?? 0) + change;
    if (count > 0) this.#counts.set(id, count);
    else this.#counts.delete(id);
  }
}

/** Of `cms-raw-x`, tenant `cms-raw` is more likely meant than `cms`. */
function compare(one: Alias, other: Alias): number {
  const longer = other.bucketTenant.length - one.bucketTenant.length;
  return longer !== 0 ? longer : one.grant < other.grant ? -1 : 1;
}

/** With the tenants that use them. */
function* aliasesOf(tenant: string, grant: Grant): Generator<[to: string, Alias]> {
  const { name: grantName, alias: name, bucket, subjects } = grant;
  if (name === undefined || bucket === undefined) return;
  for (const to of granteesOf(tenant, grant)) {
    const own = subjects.filter((subject) => granteesOf(tenant, { subjects: [subject] }).has(to));
    const place = { tenant: to, name, bucketTenant: tenant, bucket, at: null, where: null };
    yield [to, { ...place, grant: grantName, subjects: own }];
  }
}
