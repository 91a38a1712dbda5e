// Bucket policies: IAM's JSON, read strictly, to rules. Invariant: what is not understood refuses
// the policy, because it may have been a restriction; so a policy that is stored is a policy that
// holds in full.
// Specification: "IAM JSON policy elements reference" of the IAM user guide, "Bucket policies" and
// "The meaning of public" of the Amazon S3 user guide. What of them: docs/formats/policy.md.
import { Refusal } from '../../core/errors.ts';
import {
  isObject,
  type JsonObject,
  otherMember,
  parseStrictObject,
} from '../tokens/strict-json.ts';
import { type ActionLevel, ActionSet, levelsOf, parseActions } from './actions.ts';
import { policyBytesMax, unitPatternsLengthMax } from './bounds.ts';
import { parseConditions } from './conditions.ts';
import { Pattern } from './pattern.ts';
import {
  type Effect,
  isForAnyone,
  type PatternResource,
  type Rule,
  type Subjects,
} from './rule.ts';
import { RuleFault, show } from './rule-fault.ts';
import { subjectOfPrincipal } from './subjects.ts';

export interface PolicyBucket {
  tenant: string;
  name: string;
}

/**
 * The rules of a policy's text, which is kept as it is beside them. Throws `Refusal`
 * MalformedPolicy, which says what is wrong with it.
 */
export function parsePolicy(text: Uint8Array, bucket: PolicyBucket): readonly Rule[] {
  try {
    return readPolicy(text, bucket);
  } catch (cause) {
    if (!(cause instanceof RuleFault)) throw cause;
    throw new Refusal('MalformedPolicy', { message: cause.message, cause });
  }
}

/** Does the policy let everybody in, as PolicyStatus defines it? */
export function isPublic(rules: readonly Rule[]): boolean {
  return rules.some((rule) => rule.effect === 'allow' && isForAnyone(rule));
}

function readPolicy(text: Uint8Array, bucket: PolicyBucket): readonly Rule[] {
  if (text.byteLength > policyBytesMax) {
    throw new RuleFault(`Policies must not have more than ${policyBytesMax} bytes`);
  }
  const policy = parseStrictObject(text);
  if (!policy) throw new RuleFault('Policies must be valid JSON, without members given twice');
  refuseOthers(policy, ['Version', 'Id', 'Statement']);
  const { Version: version = '2008-10-17', Id: id, Statement: statement } = policy;
  if (version !== '2012-10-17' && version !== '2008-10-17') {
    throw new RuleFault('The policy must contain a valid version string');
  }
  // Only the newer language has variables; read as the older it would mean something else.
  if (version === '2008-10-17' && JSON.stringify(policy).includes('${')) {
    throw new RuleFault('Policies with variables must have the version 2012-10-17');
  }
  if (id !== undefined && typeof id !== 'string') throw new RuleFault('Invalid policy Id');
  if (statement === undefined) throw new RuleFault('Missing required field Statement');
  const statements: unknown[] = Array.isArray(statement) ? statement : [statement];
  if (statements.length === 0)
    throw new RuleFault('Could not parse the policy: Statement is empty');
  const rules = statements.map((one, place) => readStatement(one, place, bucket));
  checkNames(rules);
  checkSearches(rules);
  return rules;
}

const statementFields = [
  ...['Sid', 'Effect', 'Principal', 'NotPrincipal', 'Action', 'NotAction'],
  ...['Resource', 'NotResource', 'Condition'],
];

function readStatement(value: unknown, place: number, bucket: PolicyBucket): Rule {
  if (!isObject(value)) throw new RuleFault('Could not parse the policy: a statement is no object');
  refuseOthers(value, statementFields);
  const { Sid: sid = String(place + 1), Condition: condition = {} } = value;
  if (typeof sid !== 'string') throw new RuleFault('Invalid Sid');
  const effect = readEffect(value);
  const { actions, levels } = readActions(value);
  const resource = readResource(value, bucket);
  checkLevels(levels, resource);
  return {
    source: 'policy',
    name: sid,
    effect,
    subjects: readSubjects(value, effect),
    actions,
    resource,
    conditions: parseConditions(condition),
  };
}

function refuseOthers(value: JsonObject, names: readonly string[]): void {
  const other = otherMember(value, names);
  if (other !== undefined) throw new RuleFault(`Unknown field ${show(other)}`);
}

function readEffect({ Effect: effect }: JsonObject): Effect {
  if (effect === undefined) throw new RuleFault('Missing required field Effect');
  if (effect === 'Allow') return 'allow';
  if (effect === 'Deny') return 'deny';
  throw new RuleFault(`Invalid effect: ${show(effect)}`);
}

/** The value of exactly one of two members, the second of which says "all but". */
function oneOf(value: JsonObject, name: string, isRequired: string): [unknown, boolean] {
  const [plain, except] = [value[name], value[`Not${name}`]];
  if (plain !== undefined && except !== undefined) {
    throw new RuleFault(`A statement has either ${name} or Not${name}`);
  }
  if (plain === undefined && except === undefined) {
    throw new RuleFault(`Missing required field ${isRequired}`);
  }
  return plain === undefined ? [except, true] : [plain, false];
}

function readSubjects(value: JsonObject, effect: Effect): Subjects {
  const [principal, isExcept] = oneOf(value, 'Principal', 'Principal');
  if (isExcept && effect === 'allow') throw new RuleFault('Allow with NotPrincipal is not allowed');
  if (typeof principal === 'string') {
    if (principal !== '*') throw new RuleFault(`Invalid principal in policy: ${show(principal)}`);
    return { names: [subjectOfPrincipal(principal)], isExcept };
  }
  const form = 'Invalid principal in policy: it is "*" or has AWS alone';
  if (!isObject(principal) || otherMember(principal, ['AWS'])) throw new RuleFault(form);
  const names = textsOf(principal.AWS, form).map(subjectOfPrincipal);
  return { names, isExcept };
}

function readActions(value: JsonObject): { actions: ActionSet; levels: Set<ActionLevel>[] } {
  const [action, isExcept] = oneOf(value, 'Action', 'Action');
  const texts = textsOf(action, 'Policy has invalid action');
  for (const text of texts) {
    if (/^bursar:/i.test(text)) throw new RuleFault(`Policy has invalid action: ${show(text)}`);
  }
  const named = parseActions(texts);
  const isS3 = (name: string) => name.startsWith('s3:');
  const actions = new ActionSet((name) => isS3(name) && named.has(name) !== isExcept);
  return { actions, levels: isExcept ? [] : texts.map(levelsOf) };
}

const resourceForm = /^arn:aws:s3::([^:/]*):([^/*?$]+)(\*$|\/.*)?$/s;

function readResource(value: JsonObject, bucket: PolicyBucket): PatternResource {
  const [resource, isExcept] = oneOf(value, 'Resource', 'Resource');
  const texts = textsOf(resource, 'Policy has invalid resource');
  let hasBucket = false;
  const keys: string[] = [];
  for (const text of texts) {
    const [, tenant, name, rest = ''] = resourceForm.exec(text) ?? [];
    if (name !== bucket.name || (tenant !== '' && tenant !== bucket.tenant)) {
      throw new RuleFault(`Policy has invalid resource: ${show(text)}`);
    }
    if (rest === '' || rest === '*') hasBucket = true;
    if (rest !== '') keys.push(rest === '*' ? '*' : rest.slice(1));
  }
  return {
    form: 'patterns',
    tenant: bucket.tenant,
    bucket: bucket.name,
    hasBucket,
    keys: keys.map((key) => new Pattern(key, { wildcards: true })),
    isExcept,
  };
}

/** Throws RuleFault for an action that is about nothing that the statement names. */
function checkLevels(levels: readonly Set<ActionLevel>[], resource: PatternResource): void {
  if (resource.isExcept) return;
  for (const one of levels) {
    const fits =
      (one.has('bucket') && resource.hasBucket) || (one.has('object') && resource.keys.length > 0);
    if (!fits) throw new RuleFault('Action does not apply to any resource(s) in statement');
  }
}

function textsOf(value: unknown, fault: string): string[] {
  const texts: unknown[] = Array.isArray(value) ? value : [value];
  if (texts.length === 0) throw new RuleFault(fault);
  return texts.map((text) => {
    if (typeof text !== 'string' || text === '') throw new RuleFault(`${fault}: ${show(text)}`);
    return text;
  });
}

function checkNames(rules: readonly Rule[]): void {
  if (new Set(rules.map(({ name }) => name)).size < rules.length) {
    throw new RuleFault('Statement IDs (SID) in a single policy must be unique');
  }
}

function checkSearches(rules: readonly Rule[]): void {
  let length = 0;
  for (const { resource, conditions } of rules) {
    for (const condition of conditions) length += condition.searchLength;
    if (resource.form !== 'patterns') continue;
    for (const key of resource.keys) length += key.searchLength;
  }
  if (length > unitPatternsLengthMax) {
    throw new RuleFault(
      `Policies must not have patterns with "?" of more than ${unitPatternsLengthMax} characters`,
    );
  }
}
