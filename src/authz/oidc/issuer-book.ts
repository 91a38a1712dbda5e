// The outside issuers of all tenants, in memory as they are in the database. Invariant: a group
// that is gone is in no issuer's mapping, so what its name was once granted is nobody's any more.
import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { JSONWebKeySet, JWK } from 'jose';
import type { Reader } from '../../core/database.ts';
import { parsePath, rights, type Scope } from '../tokens/scope.ts';
import { isObject, type JsonObject, parseStrictObject } from '../tokens/strict-json.ts';
import type { AddressPolicy } from './address-policy.ts';
import { askGuarded, failLate } from './guarded-request.ts';
import type { IssuerEntry, IssuerMapping } from './issuer.ts';
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

interface IssuerBookOptions {
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
function issuerState({ url, audience, mapping, createdMs }: IssuerRow): string {
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

type IssuerRow = Omit<IssuerEntry, 'mapping'> & { mapping: string };

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

// What an issuer publishes about itself: its configuration, and the keys that it signs with.
// Invariant: of a document nothing is used before all of it came within the bounds, from the place
// that was asked; there are no redirects.
// Specification: OpenID Connect Discovery 1.0 section 4; RFC 7517 section 5.

const documentBytesMax = 256 * 1024;
const keysMax = 100;
/** base64url characters of the modulus of the largest RSA key, of 8192 bits. */
const modulusLengthMax = 1366;

/**
 * The public keys that the issuer of this URL publishes now. Throws an Error that says, for the
 * operator, what is wrong; when the time is up, not before.
 */
function fetchKeys(
  issuerUrl: string,
  policy: AddressPolicy,
  timeoutMs: number,
): Promise<JSONWebKeySet> {
  return failLate(timeoutMs, async (signal) => {
    const base = issuerUrl.replace(/\/$/, '');
    const place = new URL(`${base}/.well-known/openid-configuration`);
    try {
      const configuration = await fetchDocument(place, policy, signal);
      if (configuration.issuer !== issuerUrl) {
        throw new Error(`${place} is the configuration of another issuer`);
      }
      return readKeySet(await fetchDocument(keysPlace(configuration, place), policy, signal));
    } catch (error) {
      if (!signal.aborted) throw error;
      throw new Error(`its documents did not come within ${timeoutMs} ms`, { cause: error });
    }
  });
}

/** Keys lie at the issuer itself, or elsewhere behind TLS. */
function keysPlace({ jwks_uri }: JsonObject, origin: URL): URL {
  if (typeof jwks_uri === 'string' && URL.canParse(jwks_uri)) {
    const place = new URL(jwks_uri);
    const isPlain = place.username === '' && place.password === '';
    if (!isPlain) throw new Error('its "jwks_uri" has a user');
    if (place.protocol === 'https:' || place.origin === origin.origin) return place;
  }
  throw new Error('its configuration has no "jwks_uri" of https or of its own origin');
}

const keyTypes: readonly unknown[] = ['RSA', 'EC', 'OKP'];

function readKeySet({ keys }: JsonObject): JSONWebKeySet {
  if (!Array.isArray(keys) || keys.length > keysMax || !keys.every(isObject)) {
    throw new Error(`its keys are not a list of at most ${keysMax} JSON Web Keys`);
  }
  return { keys: keys.filter(isUsable) as JWK[] };
}

function isUsable({ kty, n }: JsonObject): boolean {
  return keyTypes.includes(kty) && (typeof n !== 'string' || n.length <= modulusLengthMax);
}

function fetchDocument(url: URL, policy: AddressPolicy, signal: AbortSignal): Promise<JsonObject> {
  const headers = { accept: 'application/json' };
  return askGuarded({ url, policy, method: 'GET', headers, signal }, async (answer) => {
    if (answer.statusCode !== 200) throw new Error(`${url} answered ${answer.statusCode}`);
    const document = parseStrictObject(await readBounded(answer, url));
    if (!document) throw new Error(`${url} is not a JSON object`);
    return document;
  });
}

async function readBounded(answer: IncomingMessage, url: URL): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  for await (const piece of answer) {
    sizeBytes += (piece as Buffer).length;
    if (sizeBytes > documentBytesMax) {
      throw new Error(`${url} is larger than ${documentBytesMax} bytes`);
    }
    pieces.push(piece as Buffer);
  }
  return Buffer.concat(pieces);
}
