// What the policy of a form allows: until when, with which fields, and how many bytes. Pure.
// Invariants: each field that has a meaning must be named by a condition, so nobody adds to a form
// what its signer did not think of; a policy that is not understood in full allows nothing.
// Specification: "POST Policy" of the Amazon S3 API reference.
import { Buffer } from 'node:buffer';
import { Refusal } from '../core/errors.ts';

/** By lower-case names. */
export type FormFields = ReadonlyMap<string, string>;

interface Condition {
  operator: 'eq' | 'starts-with';
  /** Lower-case; null: it names none, and holds for no form. */
  field: string | null;
  value: string;
  /** As a refusal shows it. */
  shown: readonly unknown[];
}

export interface PostPolicy {
  expiresAtMs: number;
  conditions: readonly Condition[];
  /** The file's least and most bytes. */
  bytesMin: number;
  bytesMax: number;
}

/** `text`: as it was signed, base64. Throws `Refusal` InvalidPolicyDocument. */
export function parsePostPolicy(text: string): PostPolicy {
  const policy = parseJson(text);
  if (typeof policy !== 'object' || policy === null || Array.isArray(policy)) {
    throw invalid('Invalid JSON.');
  }
  const { expiration, conditions } = policy as Record<string, unknown>;
  if (expiration === undefined) throw invalid('Policy missing expiration.');
  if (conditions === undefined) throw invalid('Policy missing conditions.');
  if (!Array.isArray(conditions)) throw invalid("Invalid 'conditions' value: must be a List.");
  const parsed = { expiresAtMs: parseTime(expiration), bytesMin: 0, bytesMax: Infinity };
  const found: Condition[] = [];
  for (const one of conditions) {
    const range = parseRange(one);
    if (!range) found.push(parseCondition(one));
    else {
      parsed.bytesMin = Math.max(parsed.bytesMin, range.bytesMin);
      parsed.bytesMax = Math.min(parsed.bytesMax, range.bytesMax);
    }
  }
  return { ...parsed, conditions: found };
}

/**
 * Throws `Refusal` AccessDenied unless the policy allows a form with these fields, `bucket` among
 * them: the bucket that the form is sent to. The file's size is for others to compare.
 */
export function checkPostPolicy(policy: PostPolicy, fields: FormFields, nowMs: number): void {
  if (nowMs >= policy.expiresAtMs) throw denied('Policy expired.');
  const named = new Set<string>();
  for (const condition of policy.conditions) {
    const { field, shown } = condition;
    if (field === null || !holds(condition, fields.get(field))) {
      const texts = shown.map((one) => JSON.stringify(one));
      throw denied(`Policy Condition failed: [${texts.join(', ')}]`);
    }
    named.add(field);
  }
  const extra = [...fields.keys()].filter((name) => !named.has(name) && !needsNoCondition(name));
  if (extra.length > 0) throw denied(`Extra input fields: ${extra.join(', ')}`);
}

/** A checksum can only make an upload fail, so it takes nothing from the signer of the policy. */
function needsNoCondition(name: string): boolean {
  if (name === 'policy' || name === 'x-amz-signature') return true;
  return name.startsWith('x-ignore-') || name.startsWith('x-amz-checksum-');
}

/** As on S3, no condition holds for a field that is not there. */
function holds({ operator, field, value }: Condition, given: string | undefined): boolean {
  if (given === undefined) return false;
  if (operator === 'eq') return given === value;
  if (field !== 'content-type') return given.startsWith(value);
  // A list of types: each must begin so.
  return given.split(',').every((type) => type.trimStart().startsWith(value));
}

function parseJson(text: string): unknown {
  try {
    const json = new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'base64'));
    return JSON.parse(json.replace(/\\(.)/gs, unescapeOwn));
  } catch (cause) {
    throw invalid('Invalid JSON.', cause);
  }
}

/** JSON does not have these two of S3's escapes. */
function unescapeOwn(escaped: string, character: string): string {
  if (character === '$') return '$';
  return character === 'v' ? '\\u000b' : escaped;
}

const timeForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

function parseTime(expiration: unknown): number {
  const text = typeof expiration === 'string' ? expiration : '';
  const timeMs = timeForm.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(timeMs)) throw invalid(`Invalid 'expiration' value: ${JSON.stringify(text)}`);
  return timeMs;
}

/** `["content-length-range", 1, 1048576]`; null: it is another condition, or one without sizes. */
function parseRange(condition: unknown): Pick<PostPolicy, 'bytesMin' | 'bytesMax'> | null {
  if (!Array.isArray(condition) || lower(condition[0]) !== 'content-length-range') return null;
  const [, least, most] = condition;
  if (condition.length !== 3 || !isFlat(condition)) {
    throw invalid('Invalid content-length-range: two sizes in bytes are expected.');
  }
  if (!isSize(least) || !isSize(most)) return null;
  return { bytesMin: Number(least), bytesMax: Number(most) };
}

function isSize(value: unknown): boolean {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0;
  return typeof value === 'string' && /^\d{1,15}$/.test(value);
}

/** `{"acl": "private"}`, `["eq", "$acl", "private"]` or `["starts-with", "$key", "user/"]`. */
function parseCondition(condition: unknown): Condition {
  if (Array.isArray(condition)) {
    const [operator, field, value] = condition;
    const name = lower(field);
    const known = lower(operator);
    const isKnown = known === 'eq' || known === 'starts-with';
    const isWhole = condition.length === 3 && typeof field === 'string' && field !== '';
    // As on S3, sizes that are none are of a condition that no file fits.
    if (isWhole && known === 'content-length-range') return unfit(condition);
    if (!isWhole || !isKnown || typeof value !== 'string') {
      // What is nested may be too deep to be shown.
      throw invalid(
        `Invalid Condition${isFlat(condition) ? `: ${JSON.stringify(condition)}` : ''}`,
      );
    }
    if (!/^\$./s.test(name)) return unfit(condition);
    return { operator: known, field: name.slice(1), value, shown: [known, name, value] };
  }
  const pairs =
    typeof condition === 'object' && condition !== null ? Object.entries(condition) : [];
  const [[name, value] = []] = pairs;
  if (pairs.length !== 1 || name === undefined || typeof value !== 'string') {
    throw invalid(
      'Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.',
    );
  }
  const field = name.toLowerCase();
  return { operator: 'eq', field, value, shown: ['eq', `$${field}`, value] };
}

function unfit(shown: readonly unknown[]): Condition {
  return { operator: 'eq', field: null, value: '', shown };
}

function isFlat(condition: readonly unknown[]): boolean {
  return condition.every((one) => typeof one !== 'object');
}

function lower(value: unknown): string {
  return typeof value === 'string' ? value.toLowerCase() : '';
}

function invalid(detail: string, cause?: unknown): Refusal {
  return new Refusal('InvalidPolicyDocument', { message: `Invalid Policy: ${detail}`, cause });
}

function denied(detail: string): Refusal {
  return new Refusal('AccessDenied', { message: `Invalid according to Policy: ${detail}` });
}
