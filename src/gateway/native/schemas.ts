// JSON schemas that several routes of the native API share. Requests are checked against them and
// the OpenAPI document is made from them, so what is described is what is checked.
import { groupsPerPrincipalMax, nativeListMax } from '../../core/limits.ts';
import { principalKinds, roles } from '../../core/principal.ts';
import { recordReadsModes } from '../../core/record-reads.ts';

export const name = {
  type: 'string',
  pattern: '^[a-z0-9][a-z0-9._-]{0,62}$',
  description:
    'Lower-case letters, digits, dot, underscore and hyphen, at most 63; begins with a ' +
    'letter or digit.',
} as const;

export const text = (description: string) => ({ type: 'string', description }) as const;
export const textOrNull = (description: string) =>
  ({ type: ['string', 'null'], description }) as const;
export const integer = (description: string) => ({ type: 'integer', description }) as const;
export const boolean = (description: string) => ({ type: 'boolean', description }) as const;

export const time = { type: 'string', format: 'date-time' } as const;

export const kind = {
  type: 'string',
  enum: [...principalKinds],
  description: 'A person or a robot.',
} as const;

export const role = {
  type: 'string',
  enum: [...roles],
  description:
    'operator: the whole gateway. admin: everything in its tenant. auditor: records and usage of ' +
    'its tenant. member: its own things.',
} as const;

export const recordReads = {
  type: 'string',
  enum: [...recordReadsModes],
  description:
    'When reads are recorded. prompt: within 100 ms. strict: before the last byte is sent. ' +
    'aggregate: as prompt, but reads by anybody are one record for each object and minute.',
} as const;

export const groups = {
  type: 'array',
  items: name,
  uniqueItems: true,
  maxItems: groupsPerPrincipalMax,
} as const;

export const pageQuery = {
  after: {
    type: 'string',
    maxLength: 128,
    description: 'The `next` of the page before.',
  },
  limit: {
    type: 'string',
    pattern: '^([1-9][0-9]{0,2}|1000)$',
    description: `Entries a page, 1 to ${nativeListMax}; 1000 if absent.`,
  },
} as const;

export const next = {
  type: ['string', 'null'],
  description: 'Where the next page begins; null on the last.',
} as const;

/** An object of which every member is known. */
export function closedObject<P extends object>(
  properties: P,
  required: readonly (keyof P & string)[] = [],
) {
  return { type: 'object', additionalProperties: false, required: [...required], properties };
}

/** An object that we answer with: all members are always there. */
export function answerObject<P extends object>(properties: P) {
  return { type: 'object', required: Object.keys(properties), properties };
}

/** A page of a listing. */
export function answerPage(member: string, items: object) {
  return answerObject({ [member]: { type: 'array', items }, next });
}
