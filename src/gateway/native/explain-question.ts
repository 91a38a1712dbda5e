// What `bursar explain` can be asked, and what of it only some may ask.
import type { RequestFacts } from '../../authz/grants/access-request.ts';
import type { Considered } from '../../authz/grants/decide.ts';
import { Refusal } from '../../core/errors.ts';
import type { Verdict } from '../s3/explained-access.ts';
import { administers } from './rights.ts';
import type { Call } from './route.ts';
import { boolean, closedObject, groups, type Json, text, time } from './schemas.ts';

const tags = {
  type: 'object',
  additionalProperties: { type: 'string' },
  maxProperties: 50,
} as const;

export interface Explanation extends Verdict {
  considered: readonly object[];
  chargedTo: readonly string[];
  warnings: readonly string[];
}

export const questionSchema = closedObject(
  {
    principal: {
      type: 'string',
      pattern: '^[^/]{1,63}/[^/]{1,63}$',
      description: '`cms/alice`; absent: who comes without credentials.',
    },
    groups: { ...groups, description: "Of another tenant's principal: the groups it is in." },
    action: text('`s3:GetObject`, `bursar:ListPrincipals`'),
    resource: text(
      '`bucket/key`, `tenant:bucket/key`, as the principal would name it; of a listing ' +
        'with its prefix; of a `bursar:` action the tenant, or of one about snapshots ' +
        '`tenant:bucket/prefix`.',
      { maxLength: 1200 },
    ),
    source: text('From this address; absent: from yours.'),
    secure: boolean('Over TLS? Absent: as this call.'),
    time: { ...time, description: 'At this time; absent: now.' },
    objectTags: { ...tags, description: 'Tags of the object that is there.' },
    requestTags: { ...tags, description: 'Tags that the request brings.' },
  },
  ['action'],
);
export type Question = Json<typeof questionSchema>;

export function invalid(field: string, message: string): Refusal {
  return new Refusal('InvalidInput', { message, fields: { field: `body.${field}` } });
}

/** Grants that do not apply are the admins' to see. */
export function shownToOwner(considered: readonly Considered[]): readonly Considered[] {
  return considered.filter(({ name: rule, verdict }) => {
    return verdict === 'applies' || !rule.startsWith('grant:');
  });
}

/** What lies in other tenants is refused before it is looked up. */
export function mayLookInto({ who }: Call, tenant: string): boolean {
  return tenant === who.tenant || administers(who, tenant);
}

/** By what is not so, whoever is no admin could find out from where and when grants deny. */
export function refuseInvented({ source, secure, time }: Question): void {
  const given = Object.entries({ source, secure, time }).find(([, value]) => value !== undefined);
  if (given)
    throw invalid(given[0], 'Only admins can ask what would be elsewhere or at other times');
}

export function factsFor(call: Call, question: Question, listPrefix: string | null): RequestFacts {
  const { source, secure, time: at, objectTags, requestTags = {} } = question;
  return {
    timeMs: at === undefined ? Date.now() : Date.parse(at),
    sourceAddress: source ?? call.origin.source,
    isSecure: secure ?? call.origin.isSecure,
    headers: {},
    query: listPrefix === null ? [] : [['prefix', listPrefix]],
    versionId: null,
    copySource: null,
    authentication: null,
    requestTags: new Map(Object.entries(requestTags)),
    objectTags: objectTags && new Map(Object.entries(objectTags)),
  };
}
