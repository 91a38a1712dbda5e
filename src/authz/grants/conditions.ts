// Conditions of rules. Invariant: an operator, key or value that is not known is refused when the
// rule is written, never skipped; and a condition reads from the request only what it is about.
// Specification: "IAM JSON policy elements: Condition operators" and "Multivalued context keys" of
// the IAM user guide.
import type { AccessRequest } from './access-request.ts';
import { arnLengthMax, conditionMembersMax, conditionValuesMax } from './bounds.ts';
import { type ConditionKey, conditionKey, notLoaded, type ValueType } from './condition-keys.ts';
import { isWide, networkTest, parseNetwork } from './networks.ts';
import { Pattern } from './pattern.ts';
import { RuleFault, show } from './rule-fault.ts';

export interface Condition {
  /** As it was written, for explanations. */
  readonly name: string;
  readonly key: ConditionKey;
  /** About any or about all values of the request; null: it has one. */
  readonly quantifier: 'any' | 'all' | null;
  readonly isNegated: boolean;
  /** Does it hold where the request has no value? */
  readonly holdsAbsent: boolean;
  /** Does it hold where the request has one? Else `test` decides. */
  readonly holdsPresent: boolean | null;
  /** Whether a value of the request is one of those that the condition names. */
  readonly test: Test;
  /** Lets only whom or what it names in, so that a rule for anyone is not public. */
  readonly narrowsAudience: boolean;
  /** How many units its patterns try at each place of a text. */
  readonly searchLength: number;
}

type Test = (value: string, request: AccessRequest) => boolean;

/** What the values of a condition became. */
interface Compiled {
  test: Test;
  /** Names what it lets in one by one (or network by network). */
  isFixed: boolean;
  searchLength?: number;
}

interface Operator {
  types: readonly ValueType[];
  isNegated: boolean;
  compile(values: readonly string[]): Compiled;
}

/** Does the condition hold? `notLoaded`: it asks for the object's tags, and they are not there. */
export function evaluate(condition: Condition, request: AccessRequest): boolean | typeof notLoaded {
  const value = condition.key.read(request);
  if (value === notLoaded) return notLoaded;
  const isAbsent = value === undefined || (typeof value !== 'string' && value.length === 0);
  if (isAbsent) return condition.holdsAbsent;
  if (condition.holdsPresent !== null) return condition.holdsPresent;
  if (typeof value === 'string') return condition.test(value, request) !== condition.isNegated;
  const holds = (one: string) => condition.test(one, request) !== condition.isNegated;
  return condition.quantifier === 'all' ? value.every(holds) : value.some(holds);
}

// Operators ------------------------------------------------------------------------------------

function ofPatterns(values: readonly string[], form: { wildcards: boolean; ignoreCase?: boolean }) {
  const patterns = values.map((value) => new Pattern(value, form));
  return {
    test: (value: string, request: AccessRequest) =>
      patterns.some((pattern) => pattern.matches(value, request)),
    isFixed: patterns.every((pattern) => pattern.isFixed),
    searchLength: patterns.reduce((sum, pattern) => sum + pattern.searchLength, 0),
  };
}

/** Each of an ARN's six parts is compared by itself, so that no star reaches beyond its own. */
function ofArns(values: readonly string[]): Compiled {
  const arns = values.map((value) => {
    const parts = value.length <= arnLengthMax && splitArn(value, /:(?![^{}]*\})/);
    if (!parts) throw invalidValue(value);
    return parts.map((part) => new Pattern(part, { wildcards: true }));
  });
  const test: Test = (value, request) => {
    const parts = splitArn(value, ':');
    if (!parts) return false;
    return arns.some((patterns) =>
      patterns.every((one, i) => one.matches(parts[i] ?? '', request)),
    );
  };
  const all = arns.flat();
  const searchLength = all.reduce((sum, pattern) => sum + pattern.searchLength, 0);
  return { test, isFixed: all.every((pattern) => pattern.isFixed), searchLength };
}

function splitArn(text: string, colon: string | RegExp): string[] | undefined {
  const parts = text.split(colon);
  return parts.length < 6 ? undefined : [...parts.slice(0, 5), parts.slice(5).join(':')];
}

type Relation = (value: number, bound: number) => boolean;
type ReadNumber = (text: string) => number | undefined;

function ofNumbers(values: readonly string[], read: ReadNumber, relation: Relation): Compiled {
  const bounds = values.map((value) => read(value) ?? fail(value));
  const test: Test = (text) => {
    const value = read(text);
    return value !== undefined && bounds.some((bound) => relation(value, bound));
  };
  return { test, isFixed: false };
}

const numberForm = /^-?\d{1,15}(?:\.\d{1,15})?$/;

function readNumber(text: string): number | undefined {
  return numberForm.test(text) ? Number(text) : undefined;
}

const epochForm = /^\d{1,12}$/;
// W3C's note on ISO 8601: a time of day comes with its zone.
const dateForm =
  /^\d{4}(?:-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))?)?)?$/;

/** Milliseconds since 1970 of a date, or of seconds since 1970 where it is longer than a year. */
function readTimeMs(text: string): number | undefined {
  if (epochForm.test(text) && text.length !== 4) return Number(text) * 1000;
  const timeMs = dateForm.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

function ofNetworks(values: readonly string[]): Compiled {
  const networks = values.map((value) => parseNetwork(value) ?? fail(value));
  return { test: networkTest(networks), isFixed: !networks.some(isWide) };
}

function ofBools(values: readonly string[]): Compiled {
  const wanted = values.map((value) => value.toLowerCase());
  for (const value of wanted) if (value !== 'true' && value !== 'false') throw invalidValue(value);
  return { test: (value) => wanted.includes(value), isFixed: false };
}

function invalidValue(value: string): RuleFault {
  return new RuleFault(`Policy has an invalid condition value: ${show(value)}`);
}

function fail(value: string): never {
  throw invalidValue(value);
}

const everyType: readonly ValueType[] = ['string', 'number', 'time', 'bool', 'address', 'arn'];

const relations: Record<string, Relation> = {
  Equals: (value, bound) => value === bound,
  LessThan: (value, bound) => value < bound,
  LessThanEquals: (value, bound) => value <= bound,
  GreaterThan: (value, bound) => value > bound,
  GreaterThanEquals: (value, bound) => value >= bound,
};

const operators: ReadonlyMap<string, Operator> = new Map(allOperators());

function* allOperators(): Generator<[string, Operator]> {
  yield* pair('String', 'Equals', everyType, (values) => ofPatterns(values, { wildcards: false }));
  yield* pair('String', 'EqualsIgnoreCase', everyType, (values) =>
    ofPatterns(values, { wildcards: false, ignoreCase: true }),
  );
  yield* pair('String', 'Like', everyType, (values) => ofPatterns(values, { wildcards: true }));
  yield* pair('Arn', 'Equals', ['arn'], ofArns);
  yield* pair('Arn', 'Like', ['arn'], ofArns);
  yield* pair('', 'IpAddress', ['address'], ofNetworks);
  yield ['Bool', { types: ['bool'], isNegated: false, compile: ofBools }];
  for (const [name, relation] of Object.entries(relations)) {
    const numeric = (values: readonly string[]) => ofNumbers(values, readNumber, relation);
    const date = (values: readonly string[]) => ofNumbers(values, readTimeMs, relation);
    const both = [
      ...pair('Numeric', name, ['number', 'time'], numeric),
      ...pair('Date', name, ['time'], date),
    ];
    // Only equality has an opposite with `Not`.
    yield* both.filter(([, { isNegated }]) => name === 'Equals' || !isNegated);
  }
}

/** An operator and its opposite: `StringLike`, `StringNotLike`. */
function pair(
  family: string,
  name: string,
  types: readonly ValueType[],
  compile: Operator['compile'],
): [string, Operator][] {
  return [
    [`${family}${name}`, { types, isNegated: false, compile }],
    [`${family}Not${name}`, { types, isNegated: true, compile }],
  ];
}

// Reading --------------------------------------------------------------------------------------

/** The conditions of a `Condition` block: operator, key, values. Throws RuleFault. */
export function parseConditions(block: unknown): readonly Condition[] {
  return membersOf(block).flatMap(([operator, keys]) =>
    membersOf(keys).map(([key, values]) => parseCondition(operator, key, valuesOf(values))),
  );
}

function membersOf(value: unknown): [string, unknown][] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new RuleFault('Policy has an invalid condition: an object is missing');
  }
  const members = Object.entries(value);
  if (members.length > conditionMembersMax) throw new RuleFault('Policy has too many conditions');
  return members;
}

function valuesOf(value: unknown): string[] {
  const values: unknown[] = Array.isArray(value) ? value : [value];
  if (values.length === 0 || values.length > conditionValuesMax) {
    throw new RuleFault(`A condition has 1 to ${conditionValuesMax} values`);
  }
  return values.map((one) => {
    if (typeof one === 'string') return one;
    if (typeof one === 'number' || typeof one === 'boolean') return String(one);
    throw new RuleFault(`Policy has an invalid condition value: ${show(one)}`);
  });
}

const operatorForm = /^(?:For(All|Any)Values?:)?([A-Za-z]+?)(IfExists)?$/;

function parseCondition(text: string, keyName: string, values: readonly string[]): Condition {
  const [, set, name = '', ifExists] = operatorForm.exec(text) ?? [];
  const key = conditionKey(keyName);
  const common = { name: `${text} ${key.name}`, key };
  const quantifier = set === 'All' ? 'all' : set === 'Any' ? 'any' : null;
  if (name === 'Null' && !quantifier && !ifExists) return { ...common, ...nullTest(values) };
  const operator = operators.get(name);
  if (!operator?.types.includes(key.type)) {
    throw new RuleFault(`Invalid Condition type : ${show(text)}`);
  }
  if (key.isList && !quantifier) {
    throw new RuleFault(`${key.name} needs ForAllValues or ForAnyValue`);
  }
  const { isNegated } = operator;
  const { test, isFixed, searchLength = 0 } = operator.compile(values);
  const holdsAbsent =
    ifExists !== undefined || quantifier === 'all' || (isNegated && quantifier === null);
  const narrowsAudience = isFixed && !holdsAbsent && !isNegated && namesAudience(key, name);
  return {
    ...common,
    ...{ quantifier, isNegated, holdsAbsent, holdsPresent: null },
    ...{ test, narrowsAudience, searchLength },
  };
}

function nullTest(values: readonly string[]): Omit<Condition, 'name' | 'key'> {
  const [value = '', ...others] = values.map((one) => one.toLowerCase());
  if (others.length > 0 || (value !== 'true' && value !== 'false')) throw invalidValue(value);
  return {
    ...{ quantifier: null, isNegated: false },
    ...{ holdsAbsent: value === 'true', holdsPresent: value === 'false' },
    ...{ test: () => false, narrowsAudience: false, searchLength: 0 },
  };
}

const audienceKeys = ['aws:PrincipalArn', 'aws:PrincipalAccount'];

/** Whether a condition with constant values on this key says who, or from which network. */
function namesAudience(key: ConditionKey, operator: string): boolean {
  if (key.name === 'aws:SourceIp') return operator === 'IpAddress';
  return audienceKeys.includes(key.name);
}
