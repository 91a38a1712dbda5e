// What the journal tells besides a store's buckets: who there is, what they may and how much
// (docs/formats/journal.md). Invariant: an entry is the whole state of one thing, as it was when
// the record `toldSeq` was the newest: of two entries of a thing the one of the higher `toldSeq`
// holds, in whatever journal of the database it is, and two of the same `toldSeq` say the same.

import { isObject, parseJson } from '../../core/json.ts';

/** Whether a field of the journal is of its type. */
export type Check = (value: unknown) => boolean;

export const isText: Check = (value) => typeof value === 'string';
export const isTextOrNull: Check = (value) => value === null || isText(value);
export const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
export const isFlag: Check = (value) => typeof value === 'boolean';

/** What is told of one by one. */
export const thingKinds = [
  'tenant',
  'group',
  'principal',
  'grant',
  'mount',
  'issuer',
  'limits',
  'webhook',
  'revocation',
  'token',
  'publicKey',
] as const;
export type ThingKind = (typeof thingKinds)[number];

/** `tenant` is '' where it is of none; of a tenant `name` is ''. */
export interface Thing {
  kind: ThingKind;
  tenant: string;
  name: string;
}

interface Told {
  toldSeq: number;
  tenant: string;
  name: string;
}

export interface TenantEntry extends Told {
  kind: 'tenant';
  createdMs: number;
  membersCreateBuckets: boolean;
  defaultStore: string | null;
  recordReads: string | null;
}

export interface GroupEntry extends Told {
  kind: 'group';
  createdMs: number;
}

export interface ToldAccessKey {
  id: string;
  /** Of the public key that it is; null: it has a secret. */
  thumbprint: string | null;
  createdMs: number;
  active: boolean;
  /** Hex, as the database has it sealed; null: it is not told. */
  sealedSecret: string | null;
}

export interface ToldPublicKey {
  thumbprint: string;
  jwk: string;
  purpose: string;
  proof: string;
  createdMs: number;
  active: boolean;
}

export interface PrincipalEntry extends Told {
  kind: 'principal';
  /** `person` or `robot`. */
  is: string;
  role: string;
  createdMs: number;
  active: boolean;
  groups: string[];
  accessKeys: ToldAccessKey[];
  publicKeys: ToldPublicKey[];
}

export interface GrantEntry extends Told {
  kind: 'grant';
  /** JSON, as in the database. */
  rule: string;
  createdMs: number;
}

export interface MountEntry extends Told {
  kind: 'mount';
  bucketTenant: string;
  bucket: string;
  createdMs: number;
}

export interface IssuerEntry extends Told {
  kind: 'issuer';
  url: string;
  audience: string;
  /** JSON. */
  mapping: string;
  createdMs: number;
}

/** Of the account `name`. */
export interface LimitsEntry extends Told {
  kind: 'limits';
  /** JSON. */
  limits: string;
}

/** Where alarms are told: of a tenant, or of the gateway, whose `tenant` is ''. */
export interface WebhookEntry extends Told {
  kind: 'webhook';
  url: string;
  createdMs: number;
  /** Hex, as the database has it sealed; null: it is not told. */
  sealedSecret: string | null;
}

/** A token that was issued here, or a share link; `name` is its id. */
export interface TokenEntry extends Told {
  kind: 'token';
  /** `issued` or `share`. */
  is: string;
  principal: string;
  accessKey: string | null;
  /** JSON. */
  details: string;
  createdMs: number;
  expiresMs: number;
  /** Of a share link: downloads; null: as many as one likes. */
  usesMax: number | null;
  /** Of a share link, hex. */
  secretHash: string | null;
}

/** What lies below the id `name` is refused. */
export interface RevocationEntry extends Told {
  kind: 'revocation';
  principal: string;
  revokedMs: number;
  expiresMs: number | null;
}

/** There is no such thing, since this change or an earlier one. */
export interface AbsentEntry extends Told {
  kind: 'absent';
  of: ThingKind;
}

/** There is none of this name, nor will there be. */
export interface RetiredEntry extends Told {
  kind: 'retired';
  of: 'tenant' | 'principal' | 'group' | 'publicKey';
}

export type PresentEntry =
  | TenantEntry
  | GroupEntry
  | PrincipalEntry
  | GrantEntry
  | MountEntry
  | IssuerEntry
  | LimitsEntry
  | WebhookEntry
  | TokenEntry
  | RevocationEntry;

export type IdentityEntry = PresentEntry | AbsentEntry | RetiredEntry;

/** What a later version tells, of which this one knows nothing. */
export interface StrangeEntry {
  kind: 'strange';
}

/**
 * What a journal tells of identities: nothing, or all, with the secrets of access keys or without.
 */
export type Tells = 'identities' | 'identitiesAndKeys';

/** Of a head, where there may be none. */
export const isTellsOrNone: Check = (value) =>
  value === undefined || value === 'identities' || value === 'identitiesAndKeys';

const isCountOrNull: Check = (value) => value === null || isCount(value);
const isHexOrNull: Check = (value) =>
  value === null || (isText(value) && /^(?:[0-9a-f]{2})*$/.test(value as string));
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText);
const isListOf =
  (fields: Record<string, Check>): Check =>
  (value) =>
    Array.isArray(value) && value.every((one) => hasFields(one, fields));
const isOneOf =
  (...words: string[]): Check =>
  (value) =>
    words.includes(value as string);
const isJsonObject: Check = (value) => isText(value) && isObject(parseJson(value as string));

const told = { toldSeq: isCount, tenant: isText, name: isText };

const kinds: Record<IdentityEntry['kind'], Record<string, Check>> = {
  tenant: {
    ...told,
    createdMs: isCount,
    membersCreateBuckets: isFlag,
    defaultStore: isTextOrNull,
    recordReads: isTextOrNull,
  },
  group: { ...told, createdMs: isCount },
  principal: {
    ...told,
    is: isOneOf('person', 'robot'),
    role: isOneOf('operator', 'admin', 'auditor', 'member'),
    createdMs: isCount,
    active: isFlag,
    groups: isTexts,
    accessKeys: isListOf({
      id: isText,
      thumbprint: isTextOrNull,
      createdMs: isCount,
      active: isFlag,
      sealedSecret: isHexOrNull,
    }),
    publicKeys: isListOf({
      thumbprint: isText,
      jwk: isJsonObject,
      purpose: isOneOf('token', 'sigv4a'),
      proof: isText,
      createdMs: isCount,
      active: isFlag,
    }),
  },
  grant: { ...told, rule: isJsonObject, createdMs: isCount },
  mount: { ...told, bucketTenant: isText, bucket: isText, createdMs: isCount },
  issuer: { ...told, url: isText, audience: isText, mapping: isJsonObject, createdMs: isCount },
  limits: { ...told, limits: isJsonObject },
  webhook: { ...told, url: isText, createdMs: isCount, sealedSecret: isHexOrNull },
  token: {
    ...told,
    is: isOneOf('issued', 'share'),
    principal: isText,
    accessKey: isTextOrNull,
    details: isJsonObject,
    createdMs: isCount,
    expiresMs: isCount,
    usesMax: isCountOrNull,
    secretHash: isHexOrNull,
  },
  revocation: { ...told, principal: isText, revokedMs: isCount, expiresMs: isCountOrNull },
  absent: { ...told, of: isOneOf(...thingKinds) },
  retired: { ...told, of: isOneOf('tenant', 'principal', 'group', 'publicKey') },
};

/** What a head has of them; of what a later version added it is said that it is there. */
export function readIdentities(value: unknown): (IdentityEntry | StrangeEntry)[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new Error('identities are no list');
  return value.map((one: unknown) => {
    const kind = (one as { kind?: unknown } | null)?.kind;
    if (typeof kind !== 'string') throw new Error('an identity is of no kind');
    if (!Object.hasOwn(kinds, kind)) return { kind: 'strange' };
    const fields = kinds[kind as IdentityEntry['kind']];
    if (!hasFields(one, fields)) throw new Error(`${kind} has an odd field`);
    return one as IdentityEntry;
  });
}

function hasFields(value: unknown, fields: Record<string, Check>): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(fields).every(([name, check]) =>
    check((value as Record<string, unknown>)[name]),
  );
}
