// Requests and grants for tests, each with what a test does not speak of filled in.
import type { AccessRequest, RequestFacts } from '#bursar/authz/grants/access-request.js';
import type { Decision } from '#bursar/authz/grants/decide.js';
import { decideAccess } from '#bursar/authz/grants/decide.js';
import { type Grant, parseGrant } from '#bursar/authz/grants/grant.js';
import { GrantIndex } from '#bursar/authz/grants/grant-index.js';
import { parsePolicy } from '#bursar/authz/grants/policy.js';
import type { Rule } from '#bursar/authz/grants/rule.js';
import { subjectsOf } from '#bursar/authz/grants/subjects.js';
import type { Principal, Role } from '#bursar/core/principal.js';

/** `cms/alice`, a member. */
export function person(id: string, role: Role = 'member', membersCreateBuckets = true): Principal {
  const [tenant = '', name = ''] = id.split('/');
  return { tenant, name, id, kind: 'person', role, membersCreateBuckets };
}

export const facts: RequestFacts = {
  timeMs: Date.parse('2026-06-15T12:00:00Z'),
  sourceAddress: '192.0.2.1',
  isSecure: true,
  headers: {},
  query: [],
  versionId: null,
  copySource: null,
  authentication: null,
  requestTags: new Map(),
  objectTags: new Map(),
};

export type Given = Partial<Omit<AccessRequest, 'facts' | 'subjects'>> & {
  facts?: Partial<RequestFacts>;
  groups?: readonly string[];
};

/** A request of `cms/alice` for the bucket `raw` of `cms`, which is `cms/boss`'s. */
export function ask(given: Given): AccessRequest {
  const { who = person('cms/alice'), groups = [], ...rest } = given;
  return {
    action: 's3:GetObject',
    tenant: 'cms',
    bucket: 'raw',
    owner: 'boss',
    key: null,
    listPrefix: null,
    ...rest,
    who,
    subjects: subjectsOf(who, groups),
    facts: { ...facts, ...given.facts },
  };
}

/** A listing of `raw` with this prefix; null: the query has none. */
export function askList(prefix: string | null, given: Given = {}): AccessRequest {
  const query = prefix === null ? [] : [['prefix', prefix] as const];
  const listing = { action: 's3:ListBucket', listPrefix: prefix ?? '' } as const;
  return ask({ ...listing, ...given, facts: { query, ...given.facts } });
}

let made = 0;

/** Alice may read all of `raw`, but for what is given. */
export function grant(given: Partial<Grant>): Grant {
  made += 1;
  return parseGrant({
    name: `g${made}`,
    effect: 'allow',
    subjects: ['principal:cms/alice'],
    actions: ['s3:GetObject'],
    bucket: 'raw',
    ...given,
  });
}

export function indexOf(...grants: readonly Grant[]): GrantIndex {
  const index = new GrantIndex();
  for (const one of grants) index.add('cms', one);
  return index;
}

export function policyOf(...statements: readonly object[]): readonly Rule[] {
  const document = { Version: '2012-10-17', Statement: statements };
  return parsePolicy(Buffer.from(JSON.stringify(document)), { tenant: 'cms', name: 'raw' });
}

/** Everybody may read every object of `raw`, but for what is given. */
export function statement(given: object): object {
  return {
    Effect: 'Allow',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: 'arn:aws:s3:::raw/*',
    ...given,
  };
}

export function decideBy(policy: readonly Rule[], request: AccessRequest): Decision {
  return decideAccess(new GrantIndex(), request, policy);
}
