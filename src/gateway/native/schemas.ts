// JSON schemas that several routes of the native API share. Requests are checked against them and
// the OpenAPI document is made from them, so what is described is what is checked.
import { groupsPerPrincipalMax, nativeListMax } from '../../core/limits.ts';
import { nameForm } from '../../core/names.ts';
import { principalKinds, roles } from '../../core/principal.ts';
import { recordReadsModes } from '../../core/record-reads.ts';

export const name = {
  type: 'string',
  pattern: nameForm.source,
  description:
    'Lower-case letters, digits, dot, underscore and hyphen, at most 63; begins with a ' +
    'letter or digit.',
} as const;

/** What else is checked of a value, and what it is where it is absent. */
type Rules = Readonly<Record<string, unknown>>;
type None = Readonly<Record<never, never>>;

export const text = <const R extends Rules = None>(description: string, rules?: R) =>
  ({ type: 'string', ...(rules as R), description }) as const;
export const textOrNull = <const R extends Rules = None>(description: string, rules?: R) =>
  ({ type: ['string', 'null'], ...(rules as R), description }) as const;
export const integer = <const R extends Rules = None>(description: string, rules?: R) =>
  ({ type: 'integer', ...(rules as R), description }) as const;
export const integerOrNull = <const R extends Rules = None>(description: string, rules?: R) =>
  ({ type: ['integer', 'null'], ...(rules as R), description }) as const;
export const boolean = (description: string) => ({ type: 'boolean', description }) as const;

const reasonCharactersMax = 500;
export const reason = text('It stays in the record of the act for good: nothing of the content.', {
  pattern: `^[^\\u0000-\\u001f\\u007f]{1,${reasonCharactersMax}}$`,
});

export const time = { type: 'string', format: 'date-time' } as const;
export const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const;

export const kind = text('A person or a robot.', { enum: [...principalKinds] });

export const role = text(
  'operator: the whole gateway. admin: everything in its tenant. auditor: records and usage of ' +
    'its tenant. member: its own things.',
  { enum: [...roles] },
);

export const recordReads = text(
  'When reads are recorded. prompt: within 100 ms. strict: before the last byte is sent. ' +
    'aggregate: as prompt, but reads by anybody are one record for each object and minute.',
  { enum: [...recordReadsModes] },
);

export const groups = {
  type: 'array',
  items: name,
  uniqueItems: true,
  maxItems: groupsPerPrincipalMax,
} as const;

export const pageQuery = {
  after: text('The `next` of the page before.', { maxLength: 128 }),
  limit: {
    type: 'string',
    pattern: '^([1-9][0-9]{0,2}|1000)$',
    description: `Entries a page, 1 to ${nativeListMax}; 1000 if absent.`,
  },
} as const;

export const next = textOrNull('Where the next page begins; null on the last.');

/** An object of which every member is known. */
export function closedObject<const P extends object, R extends keyof P & string = never>(
  properties: P,
  required: readonly R[] = [],
) {
  return { type: 'object', additionalProperties: false, required, properties } as const;
}

/** An object of an answer: all members are always there. */
export function answerObject<const P extends object>(properties: P) {
  const required = Object.keys(properties) as (keyof P)[];
  return { type: 'object', required, properties } as const;
}

/** A page of a listing. */
export function answerPage<const M extends string, const I extends object>(member: M, items: I) {
  const entries = { [member]: { type: 'array', items } } as {
    [member in M]: { type: 'array'; items: I };
  };
  return answerObject({ ...entries, next });
}

/** A schema that is put together at run time, and describes values of the type `T`. */
export type Composed<T> = object & { readonly composed?: T };

/** The type of the JSON that a schema describes. */
export type Json<S> = S extends { composed?: infer T }
  ? T
  : S extends { anyOf: readonly (infer One)[] }
    ? Json<One>
    : S extends { enum: readonly (infer Value)[] }
      ? Value
      : S extends { type: readonly (infer T)[] }
        ? JsonOf<T, S>
        : S extends { type: infer T }
          ? JsonOf<T, S>
          : unknown;

interface Simple {
  string: string;
  integer: number;
  number: number;
  boolean: boolean;
  null: null;
}

type JsonOf<T, S> = T extends keyof Simple
  ? Simple[T]
  : T extends 'array'
    ? Json<S extends { items: infer One } ? One : unknown>[]
    : T extends 'object'
      ? ObjectOf<S>
      : unknown;

/** The members that a route finds in any body, since they have a default. */
type Filled<P> = { [M in keyof P]: P[M] extends { default: unknown } ? M : never }[keyof P];

type ObjectOf<S> = S extends { properties: infer P; required: readonly (infer R)[] }
  ? { [M in keyof P as M extends R | Filled<P> ? M : never]: Json<P[M]> } & {
      [M in keyof P as M extends R | Filled<P> ? never : M]?: Json<P[M]>;
    }
  : Record<string, S extends { additionalProperties: infer One } ? Json<One> : unknown>;
