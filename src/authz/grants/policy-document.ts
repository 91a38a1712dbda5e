// What all kinds of policies share: IAM's JSON document, read strictly. Invariant: what is not
// understood refuses the policy, because it may have been a restriction; so a policy that was taken
// is a policy that holds in full.
// Specification: "IAM JSON policy elements reference" of the IAM user guide.
import {
  isObject,
  type JsonObject,
  otherMember,
  parseStrictObject,
} from '../tokens/strict-json.ts';
import { type ActionLevel, ActionSet, levelsOf, parseActions } from './actions.ts';
import { unitPatternsLengthMax } from './bounds.ts';
import { parseConditions } from './conditions.ts';
import type { Pattern } from './pattern.ts';
import type { Effect, Rule } from './rule.ts';
import { RuleFault, show } from './rule-fault.ts';

/** What a kind of policy has of its own. */
export interface PolicyForm {
  source: Rule['source'];
  bytesMax: number;
  /** What a statement may have besides `Sid`, `Effect` and `Condition`. */
  fields: readonly string[];
  /** Throws RuleFault. */
  readStatement(value: JsonObject, effect: Effect): Pick<Rule, 'subjects' | 'actions' | 'resource'>;
}

const commonFields = ['Sid', 'Effect', 'Condition'];

/** The rules of a policy's text. Throws RuleFault. */
export function readPolicy(text: Uint8Array, form: PolicyForm): readonly Rule[] {
  if (text.byteLength > form.bytesMax) {
    throw new RuleFault(`Policies must not have more than ${form.bytesMax} bytes`);
  }
  if (text[0] !== 0x7b) {
    throw new RuleFault("Policies must be valid JSON and the first byte must be '{'");
  }
  const policy = parseStrictObject(text);
  if (!policy) throw new RuleFault('Policies must be valid JSON, without members given twice');
  refuseOthers(policy, ['Version', 'Id', 'Statement']);
  const { Version: version = '2008-10-17', Id: id, Statement: statement } = policy;
  if (version !== '2012-10-17' && version !== '2008-10-17') {
    throw new RuleFault('The policy must contain a valid version string');
  }
  if (id !== undefined && typeof id !== 'string') throw new RuleFault('Invalid policy Id');
  if (statement === undefined) throw new RuleFault('Missing required field Statement');
  const statements: unknown[] = Array.isArray(statement) ? statement : [statement];
  if (statements.length === 0)
    throw new RuleFault('Could not parse the policy: Statement is empty');
  const rules = statements.map((one, place) => readStatement(one, place, form));
  checkNames(rules);
  checkSearches(rules);
  // Only the newer language has variables; read as the older it would mean something else.
  if (version === '2008-10-17' && JSON.stringify(policy).includes('${')) {
    throw new RuleFault('Policies with variables must have the version 2012-10-17');
  }
  return rules;
}

function readStatement(value: unknown, place: number, form: PolicyForm): Rule {
  if (!isObject(value)) throw new RuleFault('Could not parse the policy: a statement is no object');
  refuseOthers(value, [...commonFields, ...form.fields]);
  const { Sid: sid = '', Condition: condition = {} } = value;
  if (typeof sid !== 'string') throw new RuleFault('Invalid Sid');
  const effect = readEffect(value);
  return {
    source: form.source,
    // Terraform and minio-py give all statements an empty one.
    name: sid === '' ? String(place + 1) : sid,
    effect,
    ...form.readStatement(value, effect),
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

/**
 * The value of exactly one of two members, the second of which says "all but". Throws RuleFault.
 */
export function oneOf(value: JsonObject, name: string, isRequired: string): [unknown, boolean] {
  const [plain, except] = [value[name], value[`Not${name}`]];
  if (plain !== undefined && except !== undefined) {
    throw new RuleFault(`A statement has either ${name} or Not${name}`);
  }
  if (plain === undefined && except === undefined) {
    throw new RuleFault(`Missing required field ${isRequired}`);
  }
  return plain === undefined ? [except, true] : [plain, false];
}

/** A statement's actions, all of S3, and what each that it names is about. Throws RuleFault. */
export function readActions(value: JsonObject): { actions: ActionSet; levels: Set<ActionLevel>[] } {
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

/** One text or a list of them. Throws RuleFault. */
export function textsOf(value: unknown, fault: string): string[] {
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
    if (resource.form === 'patterns') length += searchLengthOf(resource.keys);
    if (resource.form === 'names') length += searchLengthOf(resource.names);
  }
  if (length > unitPatternsLengthMax) {
    throw new RuleFault(
      `Policies must not have patterns with "?" of more than ${unitPatternsLengthMax} characters`,
    );
  }
}

function searchLengthOf(patterns: readonly Pattern[]): number {
  return patterns.reduce((sum, pattern) => sum + pattern.searchLength, 0);
}
