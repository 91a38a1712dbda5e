// The outside issuers of all tenants, in memory as they are in the database. Invariant: a group
// that is gone is in no issuer's mapping, so what its name was once granted is nobody's any more.
import { hash } from 'node:crypto';
import type { Reader } from '../../core/database.ts';
import { parsePath, rights, type Scope } from '../tokens/scope.ts';
import type { AddressPolicy } from './address-policy.ts';
import type { IssuerEntry, IssuerMapping } from './issuer.ts';
import { fetchKeys } from './issuer-documents.ts';
import { IssuerKeys } from './issuer-keys.ts';

/** An issuer, ready to verify its tokens. */
export interface TrustedIssuer {
  tenant: string;
  name: string;
  url: string;
  audience: string;
  keys: IssuerKeys;
  pathPrefix: string;
  /** The scope of tokens that name no storage right; null: everywhere that their principals may. */
  wholeScope: Scope | null;
  principals: ReadonlyMap<string, string>;
  groups: ReadonlyMap<string, string>;
  defaultPrincipal: string | null;
  /** `issuerState` of its row. */
  state: string;
}

export interface IssuerBookOptions {
  /** The addresses at which issuers may be asked for their keys. */
  policy: AddressPolicy;
  /** How long an issuer has to give them. */
  fetchMsMax: number;
  /** Told, for the operator, why an issuer gave no keys. */
  onProblem: (reason: string) => void;
}

/** All issuers, as the tables say. */
interface Issuers {
  issuers: Map<string, TrustedIssuer>;
  keys: Map<string, IssuerKeys>;
}

export class IssuerBook {
  readonly #read: Reader;
  readonly #policy: AddressPolicy;
  readonly #fetchMsMax: number;
  readonly #onProblem: (reason: string) => void;
  #issuers = new Map<string, TrustedIssuer>();
  /** By tenant and URL, so that a tenant cannot see from the state of keys whom others trust. */
  #keys = new Map<string, IssuerKeys>();
  #asOf = 0;

  constructor(read: Reader, { policy, fetchMsMax, onProblem }: IssuerBookOptions) {
    this.#read = read;
    this.#policy = policy;
    this.#fetchMsMax = fetchMsMax;
    this.#onProblem = onProblem;
  }

  /** The issuers with this URL and one of these audiences: `iss` and `aud` of a token. */
  find(url: string, audiences: readonly string[]): TrustedIssuer[] {
    return audiences.flatMap((audience) => this.#issuers.get(placeOf(url, audience)) ?? []);
  }

  /** Another text after each change of an issuer; undefined: there is none of this name. */
  stateOf({ tenant, name }: { tenant: string; name: string }): string | undefined {
    for (const issuer of this.#issuers.values()) {
      if (issuer.tenant === tenant && issuer.name === name) return issuer.state;
    }
    return undefined;
  }

  keysOf({ tenant, url }: { tenant: string; url: string }): IssuerKeys | undefined {
    return this.#keys.get(keysPlaceOf(tenant, url));
  }

  /** Another one after each `take`. */
  get asOf(): number {
    return this.#asOf;
  }

  /** What the tables say now. Keys of issuers that stay are kept. */
  async read(): Promise<Issuers> {
    // One query, so that the later one of two loads has the newer state.
    const { sparing = this.#read } = this.#read;
    const rows = await sparing.all<IssuerRow & { groups: string }>(
      `SELECT ${columns}, (SELECT json_group_array(name) FROM groups
         WHERE groups.tenant = issuers.tenant) AS groups FROM issuers`,
    );
    const issuers = new Map<string, TrustedIssuer>();
    const keys = new Map<string, IssuerKeys>();
    for (const row of rows) {
      const place = keysPlaceOf(row.tenant, row.url);
      const kept = keys.get(place) ?? this.#keys.get(place) ?? this.#newKeys(row);
      keys.set(place, kept);
      const groups = new Set(JSON.parse(row.groups) as string[]);
      issuers.set(placeOf(row.url, row.audience), trust(row, kept, groups));
    }
    return { issuers, keys };
  }

  /** From now on tokens are verified by these. */
  take({ issuers, keys }: Issuers): void {
    this.#issuers = issuers;
    this.#keys = keys;
    this.#asOf += 1;
  }

  #newKeys({ tenant, name, url }: IssuerRow): IssuerKeys {
    return new IssuerKeys(
      () => fetchKeys(url, this.#policy, this.#fetchMsMax),
      (reason) => this.#onProblem(`keys of the issuer ${tenant}/${name}: ${reason}`),
    );
  }
}

function keysPlaceOf(tenant: string, url: string): string {
  return `${tenant}\n${url}`;
}

/** The separator is unambiguous, since a URL has no line end. */
function placeOf(url: string, audience: string): string {
  return `${url}\n${audience}`;
}

/** Other than that of an issuer of the same name that is trusted otherwise. */
export function issuerState({ url, audience, mapping, createdMs }: IssuerRow): string {
  // Session tokens have it: it stays as it is.
  const row = JSON.stringify({ url, audience, mapping, created_ms: createdMs });
  return hash('sha256', row, 'base64url');
}

function trust(row: IssuerRow, keys: IssuerKeys, groupsThere: ReadonlySet<string>): TrustedIssuer {
  const { mapping, ...entry } = entryOf(row);
  const { tenant, name, url, audience } = entry;
  const { pathPrefix, principals, groups, defaultPrincipal } = mapping;
  const place = parsePath(pathPrefix);
  return {
    ...{ tenant, name, url, audience, keys, pathPrefix, defaultPrincipal },
    state: issuerState(row),
    wholeScope: place.bucket === null ? null : rights.map((right) => ({ right, ...place })),
    principals: new Map(Object.entries(principals)),
    groups: new Map(Object.entries(groups).filter(([, group]) => groupsThere.has(group))),
  };
}

export type IssuerRow = Omit<IssuerEntry, 'mapping'> & { mapping: string };

function entryOf({ mapping, ...row }: IssuerRow): IssuerEntry {
  return { ...row, mapping: JSON.parse(mapping) as IssuerMapping };
}

const columns = 'tenant, name, url, audience, mapping, created_ms AS createdMs';

/** A tenant's issuers, in the order of their names. They are few. */
export async function listIssuers(read: Reader, tenant: string): Promise<IssuerEntry[]> {
  const sql = `SELECT ${columns} FROM issuers WHERE tenant = ? ORDER BY name`;
  const rows = await read.all<IssuerRow>(sql, tenant);
  return rows.map(entryOf);
}

export async function readIssuer(
  read: Reader,
  tenant: string,
  name: string,
): Promise<IssuerEntry | undefined> {
  const sql = `SELECT ${columns} FROM issuers WHERE tenant = ? AND name = ?`;
  const row = await read.get<IssuerRow>(sql, tenant, name);
  return row && entryOf(row);
}

/** `issuerState` as the tables say it. */
export async function readIssuerState(
  read: Reader,
  { tenant, name }: { tenant: string; name: string },
): Promise<string | undefined> {
  const sql = `SELECT ${columns} FROM issuers WHERE tenant = ? AND name = ?`;
  const row = await read.get<IssuerRow>(sql, tenant, name);
  return row && issuerState(row);
}
