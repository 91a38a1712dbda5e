// Grants, the native API's rules: who may (or may not) do what in which place, as JSON. Invariant:
// a grant that is stored means something in full: what is not known is refused, and its prefix ends
// at a boundary of segments, as a scope's does (key-prefix.ts).
import { Refusal } from '../../core/errors.ts';
import { keyBytesMax } from '../../core/limits.ts';
import { isName, notTheName } from '../../core/names.ts';
import { isObject, otherMember } from '../tokens/strict-json.ts';
import { type Action, ActionSet, parseActions } from './actions.ts';
import {
  grantActionsMax,
  grantConditionsBytesMax,
  grantSubjectsMax,
  unitPatternsLengthMax,
} from './bounds.ts';
import { type Condition, parseConditions } from './conditions.ts';
import type { Effect, PlaceResource, Rule, Subjects } from './rule.ts';
import { RuleFault, show } from './rule-fault.ts';
import type { Part } from './stored-grant.ts';
import { checkSubject } from './subjects.ts';

/** A grant as the API has it and the database keeps it. */
export interface Grant {
  /** Unique in its tenant. */
  name: string;
  effect: Effect;
  subjects: readonly string[];
  actions: readonly string[];
  /** Absent: every bucket of the tenant, and what is about none. */
  bucket?: string;
  /** A place in the bucket and all below it. Absent, with `key` absent: the whole bucket. */
  prefix?: string;
  /** One object. */
  key?: string;
  /** Under this name people of other tenants who are subjects see the bucket (decision 115). */
  alias?: string;
  /** IAM's `Condition` block. */
  conditions?: Readonly<Record<string, unknown>>;
}

const members = [
  ...['name', 'effect', 'subjects', 'actions'],
  ...['bucket', 'prefix', 'key', 'alias', 'conditions'],
];

/** Checks what a client sent. Throws `Refusal` InvalidInput, which says what is wrong. */
export function parseGrant(value: unknown): Grant {
  try {
    const grant = readGrant(value);
    compileGrant('tenant', grant);
    return grant;
  } catch (cause) {
    if (!(cause instanceof RuleFault)) throw cause;
    throw new Refusal('InvalidInput', { message: cause.message, cause });
  }
}

function readGrant(value: unknown): Grant {
  if (!isObject(value)) throw new RuleFault('A grant is an object');
  const other = otherMember(value, members);
  if (other !== undefined) throw new RuleFault(`A grant has no member ${show(other)}`);
  const { name, effect, bucket, prefix, key, alias, conditions } = value;
  if (!isName(name)) throw new RuleFault(notTheName(name, 'a grant'));
  if (effect !== 'allow' && effect !== 'deny') throw new RuleFault('effect is "allow" or "deny"');
  const subjects = readTexts(value, 'subjects', grantSubjectsMax);
  for (const subject of subjects) checkSubject(subject);
  if (bucket !== undefined && !isName(bucket)) {
    throw new RuleFault(notTheName(bucket, 'a bucket'));
  }
  checkPlace(bucket, prefix, key);
  if (alias !== undefined && (typeof alias !== 'string' || effect === 'deny' || !bucket)) {
    throw new RuleFault('An alias is a text, of a grant that allows something in a bucket');
  }
  checkConditions(conditions);
  const actions = readTexts(value, 'actions', grantActionsMax);
  return { ...value, name, effect, subjects, actions };
}

function readTexts(value: Readonly<Record<string, unknown>>, name: string, max: number): string[] {
  const texts = value[name];
  const isList = Array.isArray(texts) && texts.length > 0 && texts.length <= max;
  if (!isList || !texts.every((text) => typeof text === 'string')) {
    throw new RuleFault(`${name} has 1 to ${max} texts`);
  }
  if (new Set(texts).size < texts.length) throw new RuleFault(`${name} has a text twice`);
  return texts;
}

function checkPlace(bucket: unknown, prefix: unknown, key: unknown): void {
  if (prefix !== undefined && key !== undefined) {
    throw new RuleFault('A grant has either prefix or key');
  }
  const text = prefix ?? key;
  if (text === undefined) return;
  if (bucket === undefined) throw new RuleFault('A prefix or key needs a bucket');
  if (typeof text !== 'string' || Buffer.byteLength(text) > keyBytesMax) {
    throw new RuleFault(`prefix and key are texts of at most ${keyBytesMax} bytes`);
  }
  if (key === '') throw new RuleFault('key is empty');
  if (/\p{Surrogate}/u.test(text)) throw new RuleFault('prefix or key is not valid Unicode');
}

function checkConditions(conditions: unknown): void {
  if (conditions === undefined) return;
  if (!isObject(conditions)) throw new RuleFault('conditions is an object');
  // Its form first: what is nested deeper has no JSON that could be measured.
  readConditions(conditions);
  if (Buffer.byteLength(JSON.stringify(conditions)) > grantConditionsBytesMax) {
    throw new RuleFault(`conditions have at most ${grantConditionsBytesMax} bytes of JSON`);
  }
}

const noConditions: readonly Condition[] = [];

/** What a grant consists of besides its name and prefix, by names that equal parts share. */
export function grantParts(
  tenant: string,
  grant: Grant,
): {
  subjects: Part<Subjects>;
  actions: Part<{ effect: Effect; actions: ActionSet }>;
  place: Part<Omit<PlaceResource, 'prefix'>>;
  conditions: Part<readonly Condition[]>;
} {
  const { effect, subjects, actions, bucket = null, key, conditions } = grant;
  const form = key === undefined ? 'below' : 'object';
  return {
    subjects: {
      name: `subjects ${subjects.join(' ')}`,
      make: () => ({ names: subjects, isExcept: false }),
    },
    actions: {
      name: `${effect} ${actions.join(' ')}`,
      make: () => ({ effect, actions: actionsOf(grant) }),
    },
    place: {
      name: `${form} ${tenant} ${bucket ?? ''}`,
      make: () => ({ form, tenant, bucket }),
    },
    conditions: {
      name: `conditions ${conditions ? JSON.stringify(conditions) : ''}`,
      make: () => (conditions ? readConditions(conditions) : noConditions),
    },
  };
}

/** The rule that a grant of this tenant is. Throws RuleFault for one that `parseGrant` refuses. */
export function compileGrant(tenant: string, grant: Grant): Rule {
  const { subjects, actions, place, conditions } = grantParts(tenant, grant);
  return {
    source: 'grant',
    name: grant.name,
    ...actions.make(),
    subjects: subjects.make(),
    resource: { ...place.make(), prefix: grant.key ?? grant.prefix ?? '' },
    conditions: conditions.make(),
  };
}

/** Who may read below a place may list there: without the names it could not read. */
function actionsOf({ effect, actions }: Grant): ActionSet {
  const named = parseActions(actions);
  if (effect === 'deny') return named;
  const listings = new Set<Action>();
  if (named.has('s3:GetObject')) listings.add('s3:ListBucket');
  if (named.has('s3:GetObjectVersion')) listings.add('s3:ListBucketVersions');
  return listings.size === 0
    ? named
    : new ActionSet((name) => listings.has(name) || named.has(name));
}

function readConditions(block: Readonly<Record<string, unknown>>): readonly Condition[] {
  const conditions = parseConditions(block);
  const length = conditions.reduce((sum, { searchLength }) => sum + searchLength, 0);
  if (length > unitPatternsLengthMax) throw new RuleFault('conditions have too many "?"');
  return conditions;
}
