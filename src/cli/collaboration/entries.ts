// What a collaboration is described by: entries, each of a kind and with a name. A file says them
// (`document.ts`, `people.ts`), and a gateway has them (`present.ts`).
import { CommandFailure, Mistakes, messageOfFailure } from '../../core/command-failure.ts';
import { isName, notAName } from '../../core/names.ts';
import { principalKinds, roles } from '../../core/principal.ts';

export const kinds = [
  ...['tenant', 'group', 'principal', 'bucket', 'mount', 'issuer', 'grant', 'limit'],
] as const satisfies string[];
export type Kind = 'tenant' | 'group' | 'principal' | 'bucket' | InTenant | 'limit';
type InTenant = 'mount' | 'issuer' | 'grant';

export type Value = string | number | boolean | null | readonly Value[] | Members;
export interface Members {
  readonly [name: string]: Value;
}

export interface Entry {
  readonly kind: Kind;
  /** `cms`, `cms/alice`, or an account, `principal:cms/alice`. */
  readonly name: string;
  readonly value: Members;
  /** `collaboration.yaml:12`; empty: of a gateway. */
  readonly at: string;
}

/** Entries by kind and name, of these tenants. */
export interface Description {
  readonly tenants: ReadonlySet<string>;
  /** Which kinds are said at all, of which tenants: `cms grant`. What is not said is left alone. */
  readonly said: ReadonlySet<string>;
  readonly entries: ReadonlyMap<string, Entry>;
}

export const entriesMax = 100_000;
export const fileBytesMax = 8 * 1024 * 1024;
/** So many mistakes are told at once. */
const mistakesMax = 20;

/** Collects entries, and what is wrong with those that cannot be taken. */
export class Gathered implements Description {
  readonly tenants = new Set<string>();
  readonly said = new Set<string>();
  readonly entries = new Map<string, Entry>();
  readonly #mistakes: string[] = [];

  /** What is wrong with a part does not keep the others from being read. */
  attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (error instanceof Mistakes || !(error instanceof CommandFailure)) throw error;
      this.#mistakes.push(messageOfFailure(error));
      if (this.#mistakes.length < mistakesMax) return;
      throw new Mistakes([...this.#mistakes, `no more than ${mistakesMax} mistakes are told`]);
    }
  }

  /** Throws `CommandFailure` where something was wrong. */
  finish(): void {
    if (this.#mistakes.length > 0) throw new Mistakes(this.#mistakes);
  }

  /** Throws `CommandFailure` where one is said twice, or there are too many. */
  add(entry: Entry): void {
    const key = keyOf(entry);
    const before = this.entries.get(key);
    if (before) throw wrong(entry.at, `${entry.kind} ${entry.name} is in ${before.at} too`);
    checkWords(entry);
    if (this.entries.size >= entriesMax) throw wrong(entry.at, `more than ${entriesMax} entries`);
    this.entries.set(key, entry);
    this.say(entry.kind, tenantOf(entry));
  }

  say(kind: Kind, tenant: string): void {
    this.tenants.add(tenant);
    this.said.add(`${tenant} ${kind}`);
  }

  /** Groups that principals are in are there, too; that does not say that there are no others. */
  completeGroups(): void {
    for (const { kind, name, value, at } of [...this.entries.values()]) {
      if (kind !== 'principal') continue;
      for (const group of (value.groups ?? []) as string[]) {
        const wanted = { kind: 'group', name: `${tenantOf({ kind, name })}/${group}` } as const;
        if (this.entries.has(keyOf(wanted))) continue;
        this.attempt(() => checkName(group, `${name}.groups`, at));
        this.entries.set(keyOf(wanted), { ...wanted, value: {}, at });
      }
    }
  }
}

/** As S3 has them. */
const bucketForm = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/** What a gateway would refuse only when all before it is done. Throws `CommandFailure`. */
function checkWords({ kind, name, value, at }: Entry): void {
  if (kind === 'bucket' && !bucketForm.test(ownNameOf({ name }))) {
    throw wrong(at, `bucket ${name}: names of buckets have 3 to 63 of a-z, 0-9, . and -`);
  }
  if (kind !== 'principal') return;
  for (const [member, words] of [
    ['role', roles],
    ['kind', principalKinds],
  ] as const) {
    const said = value[member];
    if (said === undefined || said === null || words.includes(said as never)) continue;
    throw wrong(at, `${name}: ${member} ${said} is none of ${words.join(', ')}`);
  }
}

/** Throws `CommandFailure`. `field`: what it is the name of. */
export function checkName(name: string, field: string, at: string): void {
  if (!isName(name)) throw wrong(at, `${field}: ${notAName(name)}`);
}

export function keyOf({ kind, name }: Pick<Entry, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

/** Of `cms`, `cms/alice` and `bucket:cms/raw`. */
export function tenantOf({ kind, name }: Pick<Entry, 'kind' | 'name'>): string {
  const path = kind === 'limit' ? name.slice(name.indexOf(':') + 1) : name;
  return path.split('/')[0] as string;
}

/** The name within the tenant. */
export function ownNameOf({ name }: Pick<Entry, 'name'>): string {
  return name.slice(name.indexOf('/') + 1);
}

export function wrong(at: string, message: string): CommandFailure {
  return new CommandFailure('usage', `${at}: ${message}`);
}

/** Without what says nothing, and in one order, so that two of one meaning are equal as JSON. */
export function normal(value: Value | undefined): Value {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value)) {
    const items = value.map(normal);
    return items.every((one) => typeof one === 'string') ? [...items].sort() : items;
  }
  if (typeof value !== 'object') return value;
  const members = Object.entries(value)
    .map(([name, one]) => [name, normal(one)] as const)
    .filter(([, one]) => one !== null && !isEmpty(one))
    .sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(members);
}

function isEmpty(value: Value): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

export function isSame(one: Value | undefined, other: Value | undefined): boolean {
  return JSON.stringify(normal(one)) === JSON.stringify(normal(other));
}
