// The one form that grants, bucket policies and session policies are compiled to: whom, what,
// where, under which conditions, allow or deny. Invariant: `verdictOf` alone says whether a rule
// applies to a request; indexes only choose which rules it is asked about.
import { liesBelow, liesIn } from '../tokens/scope.ts';
import type { AccessRequest } from './access-request.ts';
import type { ActionSet } from './actions.ts';
import { notLoaded } from './condition-keys.ts';
import { type Condition, evaluate } from './conditions.ts';
import type { Pattern } from './pattern.ts';
import { anyone } from './subjects.ts';

export type Effect = 'allow' | 'deny';

export interface Rule {
  readonly source: 'grant' | 'policy' | 'session';
  /** The grant's name, or the statement's Sid or number. */
  readonly name: string;
  readonly effect: Effect;
  readonly subjects: Subjects;
  readonly actions: ActionSet;
  readonly resource: Resource;
  readonly conditions: readonly Condition[];
}

export interface Subjects {
  readonly names: readonly string[];
  /** Everybody but those. */
  readonly isExcept: boolean;
}

type Resource = PlaceResource | PatternResource | NameResource;

/** A grant's: a tenant, one of its buckets, or a part of that. */
export interface PlaceResource {
  /** `object`: the one of the key `prefix`. `below`: the prefix as `liesBelow` has it. */
  readonly form: 'object' | 'below';
  readonly tenant: string;
  /** null: every bucket of the tenant, and what is about none. */
  readonly bucket: string | null;
  readonly prefix: string;
}

/** A policy's: texts with wildcards, of one bucket. */
export interface PatternResource {
  readonly form: 'patterns';
  readonly tenant: string;
  readonly bucket: string;
  /** Is the bucket itself among them? */
  readonly hasBucket: boolean;
  readonly keys: readonly Pattern[];
  /** All of the bucket but those. */
  readonly isExcept: boolean;
}

/** A session policy's: texts with wildcards for `bucket` and `bucket/key`, of any bucket. */
export interface NameResource {
  readonly form: 'names';
  /** In whose namespace names are meant; those of another tenant's buckets are `tenant:bucket`. */
  readonly tenant: string;
  readonly names: readonly Pattern[];
  /** All but those. */
  readonly isExcept: boolean;
}

export type Verdict =
  | 'applies'
  | 'needs tags'
  | 'another subject'
  | 'another action'
  | 'another resource'
  | 'a condition does not hold';

/** Whether the rule applies to the request, and if not, why. */
export function verdictOf(rule: Rule, request: AccessRequest): Verdict {
  if (!rule.actions.has(request.action)) return 'another action';
  if (!concerns(rule.subjects, request.subjects)) return 'another subject';
  if (!covers(rule, request)) return 'another resource';
  let verdict: Verdict = 'applies';
  for (const condition of rule.conditions) {
    const holds = evaluate(condition, request);
    if (holds === false) return 'a condition does not hold';
    if (holds === notLoaded) verdict = 'needs tags';
  }
  return verdict;
}

/** Might it apply to a key of the bucket, whichever, whatever its tags? They are not loaded. */
export function mayApply(rule: Rule, request: AccessRequest): boolean {
  const { actions, subjects, resource, conditions } = rule;
  if (!actions.has(request.action) || !concerns(subjects, request.subjects)) return false;
  return isNear(resource, request) && conditions.every((one) => evaluate(one, request) !== false);
}

/** Does it apply to all keys of the bucket, whatever their tags? They are not loaded. */
export function appliesToAll(rule: Rule, request: AccessRequest): boolean {
  const { actions, subjects, resource, conditions } = rule;
  if (!actions.has(request.action) || !concerns(subjects, request.subjects)) return false;
  return coversAll(resource, request) && conditions.every((one) => evaluate(one, request) === true);
}

/** Is it about something in the bucket, or may it be? */
function isNear(resource: Resource, { tenant, bucket }: AccessRequest): boolean {
  if (resource.form === 'names') return true;
  if (resource.tenant !== tenant) return false;
  return resource.bucket === null || resource.bucket === bucket;
}

function coversAll(resource: Resource, request: AccessRequest): boolean {
  if (resource.form === 'names') {
    const { names, isExcept } = resource;
    const beginning = `${nameOfBucket(resource, request)}/`;
    return !isExcept && names.some((pattern) => pattern.matchesAllBehind(beginning, request));
  }
  if (!isNear(resource, request)) return false;
  if (resource.form !== 'patterns') return resource.form === 'below' && resource.prefix === '';
  const { keys, isExcept } = resource;
  return !isExcept && keys.some((pattern) => pattern.matchesAllBehind('', request));
}

/** The first condition that does not hold, for explanations. */
export function failedCondition(rule: Rule, request: AccessRequest): string | undefined {
  return rule.conditions.find((condition) => evaluate(condition, request) === false)?.name;
}

function concerns({ names, isExcept }: Subjects, subjects: readonly string[]): boolean {
  for (const subject of subjects) {
    if (names.includes(subject)) return !isExcept;
  }
  return isExcept;
}

function covers({ resource, effect }: Rule, request: AccessRequest): boolean {
  if (resource.form === 'names') return coversByName(resource, request);
  if (resource.tenant !== request.tenant) return false;
  if (resource.form === 'patterns') return coversByPattern(resource, request);
  if (resource.bucket === null) return true;
  if (resource.bucket !== request.bucket) return false;
  const { form, prefix } = resource;
  if (form === 'below' && prefix === '') return true;
  const { key, listPrefix } = request;
  if (listPrefix !== null) {
    // What is denied must not show in the listing of something around it either.
    if (effect === 'deny' && prefix.startsWith(listPrefix)) return true;
    return form === 'below' && liesBelow(listPrefix, prefix);
  }
  if (key === null) return false;
  return form === 'below' ? liesIn(key, prefix) : key === prefix;
}

function coversByPattern(resource: PatternResource, request: AccessRequest): boolean {
  if (resource.bucket !== request.bucket) return false;
  const { key } = request;
  const isNamed =
    key === null
      ? resource.hasBucket
      : resource.keys.some((pattern) => pattern.matches(key, request));
  return isNamed !== resource.isExcept;
}

function coversByName(resource: NameResource, request: AccessRequest): boolean {
  const { key } = request;
  const own = nameOfBucket(resource, request);
  const name = key === null ? own : `${own}/${key}`;
  return resource.names.some((pattern) => pattern.matches(name, request)) !== resource.isExcept;
}

function nameOfBucket(resource: NameResource, { tenant, bucket }: AccessRequest): string {
  return tenant === resource.tenant ? (bucket ?? '') : `${tenant}:${bucket ?? ''}`;
}

/** Is the rule for everybody, with nothing that names from where or who? */
export function isForAnyone(rule: Rule): boolean {
  if (!rule.subjects.isExcept && !rule.subjects.names.includes(anyone)) return false;
  return !rule.conditions.some(({ narrowsAudience }) => narrowsAudience);
}

/** `grant:NAME`, `policy:SID` or `session:SID`. */
export function fullName({ source, name }: Rule): string {
  return `${source}:${name}`;
}

/** Are these the grant of one name and tenant? */
export function isSameGrant(a: Rule, b: Rule): boolean {
  return a.name === b.name && a.resource.tenant === b.resource.tenant;
}
