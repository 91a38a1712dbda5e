// What the journal tells besides a store's buckets: who there is, what they may and how much
// (docs/formats/journal.md). Invariant: an entry is the whole state of one thing, as it was when
// the record `toldSeq` was the newest: of two entries of a thing the one of the higher `toldSeq`
// holds, in whatever journal of the database it is, and two of the same `toldSeq` say the same.

import { isCount, isObject, parseJson } from '../../core/json.ts';

/** The checks of an object's fields, by name: each says whether a value is of its type. */
export type Fields = Record<string, (value: unknown) => value is unknown>;

type Of<C> = C extends (value: unknown) => value is infer T ? T : never;

/** An object whose fields have passed these checks. What may be undefined may be absent. */
export type Checked<F> = {
  [M in keyof F as undefined extends Of<F[M]> ? never : M]: Of<F[M]>;
} & { [M in keyof F as undefined extends Of<F[M]> ? M : never]?: Of<F[M]> };

/** An entry of a kind, whose fields these are by kind. */
export type Checking<K, F> = K extends keyof F ? { kind: K } & Checked<F[K]> : never;

export const isText = (value: unknown): value is string => typeof value === 'string';
export const isTextOrNull = (value: unknown): value is string | null =>
  value === null || isText(value);
export const isFlag = (value: unknown): value is boolean => typeof value === 'boolean';
const isFlagOrNone = (value: unknown): value is boolean | undefined =>
  value === undefined || isFlag(value);

/** What is told of one by one. */
export const thingKinds = [
  'tenant',
  'group',
  'principal',
  'grant',
  'mount',
  'issuer',
  'class',
  'limits',
  'webhook',
  'target',
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

/** What a later version tells, of which this one knows nothing. */
export interface StrangeEntry {
  kind: 'strange';
}

/**
 * What a journal tells of identities: nothing, or all, with the secrets of access keys or without.
 */
export type Tells = 'identities' | 'identitiesAndKeys';

/** Of a head, where there may be none. */
export const isTellsOrNone = (value: unknown): value is Tells | undefined =>
  value === undefined || value === 'identities' || value === 'identitiesAndKeys';

const isCountOrNull = (value: unknown): value is number | null => value === null || isCount(value);
/** Hex; null: there is none, or it is not told. */
const isHexOrNull = (value: unknown): value is string | null =>
  value === null || (isText(value) && /^(?:[0-9a-f]{2})*$/.test(value));
const isHexOrNone = (value: unknown): value is string | null | undefined =>
  value === undefined || isHexOrNull(value);
const isTexts = (value: unknown): value is string[] => Array.isArray(value) && value.every(isText);
const isListOf =
  <F extends Fields>(fields: F) =>
  (value: unknown): value is Checked<F>[] =>
    Array.isArray(value) && value.every((one) => hasFields(one, fields));
const isOneOf =
  <const W extends string>(...words: W[]) =>
  (value: unknown): value is W =>
    words.includes(value as W);
const isListOrNone =
  <F extends Fields>(fields: F) =>
  (value: unknown): value is Checked<F>[] | undefined =>
    value === undefined || isListOf(fields)(value);
/** The JSON of an object, as the database has it. */
const isJsonObject = (value: unknown): value is string =>
  isText(value) && isObject(parseJson(value));

const told = { toldSeq: isCount, tenant: isText, name: isText };

const kinds = {
  tenant: {
    ...told,
    createdMs: isCount,
    membersCreateBuckets: isFlag,
    /** Absent: it is of an earlier version, in which no member could. */
    membersMountBuckets: isFlagOrNone,
    defaultStore: isTextOrNull,
    recordReads: isTextOrNull,
    /** Its secret, as the database has it sealed; absent: it is of an earlier version. */
    sealedKey: isHexOrNone,
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
      /** Of the public key that it is; null: it has a secret. */
      thumbprint: isTextOrNull,
      createdMs: isCount,
      active: isFlag,
      /** As the database has it sealed. */
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
    /** Names of its own; absent: it is of an earlier version. */
    mounts: isListOrNone({
      ...{ name: isText, bucketTenant: isText, bucket: isText, createdMs: isCount },
    }),
  },
  grant: { ...told, rule: isJsonObject, createdMs: isCount },
  mount: { ...told, bucketTenant: isText, bucket: isText, createdMs: isCount },
  issuer: { ...told, url: isText, audience: isText, mapping: isJsonObject, createdMs: isCount },
  class: { ...told, definition: isJsonObject, createdMs: isCount },
  /** Of the account `name`. */
  limits: { ...told, limits: isJsonObject },
  /** Where alarms are told: of a tenant, or of the gateway, whose `tenant` is ''. */
  webhook: { ...told, url: isText, createdMs: isCount, sealedSecret: isHexOrNull },
  /** Where changes of objects are told. */
  target: {
    ...told,
    is: isOneOf('webhook', 'sqs'),
    url: isText,
    region: isTextOrNull,
    createdMs: isCount,
    sealedSecret: isHexOrNull,
  },
  /** A token that was issued here, or a share link; `name` is its id. */
  token: {
    ...told,
    is: isOneOf('issued', 'share'),
    principal: isText,
    accessKey: isTextOrNull,
    details: isJsonObject,
    createdMs: isCount,
    expiresMs: isCount,
    /** Of a share link: downloads; null: as many as one likes. */
    usesMax: isCountOrNull,
    /** Of a share link. */
    secretHash: isHexOrNull,
  },
  /** What lies below the id `name` is refused. */
  revocation: { ...told, principal: isText, revokedMs: isCount, expiresMs: isCountOrNull },
  /** There is no such thing, since this change or an earlier one. */
  absent: { ...told, of: isOneOf(...thingKinds) },
  /** There is none of this name, nor will there be. */
  retired: { ...told, of: isOneOf('tenant', 'principal', 'group', 'publicKey') },
} satisfies Record<string, Fields>;

export type IdentityEntry = Checking<keyof typeof kinds, typeof kinds>;
export type PresentEntry = Exclude<IdentityEntry, { kind: 'absent' | 'retired' }>;
export type PrincipalEntry = Checking<'principal', typeof kinds>;
export type TokenEntry = Checking<'token', typeof kinds>;
export type RetiredEntry = Checking<'retired', typeof kinds>;

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

export function hasFields(value: unknown, fields: Fields): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(fields).every(([name, check]) =>
    check((value as Record<string, unknown>)[name]),
  );
}
