// Patterns of policies: texts with wildcards and with variables, `${aws:username}`, whose values
// are taken from the request. Invariant: a variable's value is literal, so no name that somebody
// chose acts as a wildcard, and none makes a search costly; a variable without a value makes a
// pattern that matches nothing.
// Specification: "IAM policy elements: Variables and tags" of the IAM user guide.
import type { AccessRequest } from './access-request.ts';
import { variableLengthMax } from './bounds.ts';
import { type ConditionKey, conditionKey } from './condition-keys.ts';
import { RuleFault, show } from './rule-fault.ts';
import { anyUnit, matchesSegments } from './wildcards.ts';

interface Variable {
  key: ConditionKey;
  /** What stands for a value that is not there. */
  fallback: string | undefined;
}

export interface PatternForm {
  /** Are `*` and `?` wildcards? */
  wildcards: boolean;
  ignoreCase?: boolean;
}

export class Pattern {
  /** Segments between stars; with variables, those are pieces of them. */
  readonly #segments: readonly (readonly (string | Variable)[])[];
  /** The same where there are no variables. */
  readonly #plain: readonly string[] | null;
  readonly #ignoreCase: boolean;

  /** Throws RuleFault. */
  constructor(text: string, { wildcards, ignoreCase = false }: PatternForm) {
    this.#ignoreCase = ignoreCase;
    this.#segments = parseSegments(text, wildcards);
    const hasVariables = this.#segments.some((one) =>
      one.some((piece) => typeof piece !== 'string'),
    );
    this.#plain = hasVariables ? null : this.#segments.map((one) => this.#cased(one.join('')));
  }

  /** Does it match one text only, whatever the request? */
  get isFixed(): boolean {
    return this.#plain?.length === 1 && !this.#plain[0]?.includes(anyUnit);
  }

  /** How many units a search has to try at each place of a text: those between two stars. */
  get searchLength(): number {
    const searched = this.#segments.slice(1, -1);
    const slow = searched.filter((pieces) => pieces.includes(anyUnit));
    return slow.flat().reduce((sum, piece) => sum + lengthOf(piece), 0);
  }

  matches(text: string, request: AccessRequest): boolean {
    const segments = this.#plain ?? this.#resolve(request);
    return segments !== undefined && matchesSegments(segments, this.#cased(text));
  }

  /** Does it match every text that begins so? */
  matchesAllBehind(beginning: string, request: AccessRequest): boolean {
    // What a star stands for at the end may be longer as well.
    const end = this.#segments.at(-1);
    return this.#segments.length > 1 && end?.join('') === '' && this.matches(beginning, request);
  }

  #cased(text: string): string {
    return this.#ignoreCase ? text.toLowerCase() : text;
  }

  #resolve(request: AccessRequest): string[] | undefined {
    const segments: string[] = [];
    for (const pieces of this.#segments) {
      let segment = '';
      for (const piece of pieces) {
        const value = typeof piece === 'string' ? piece : valueIn(piece, request);
        if (value === undefined) return undefined;
        segment += value;
      }
      segments.push(this.#cased(segment));
    }
    return segments;
  }
}

function lengthOf(piece: string | Variable): number {
  return typeof piece === 'string' ? piece.length : variableLengthMax;
}

function valueIn({ key, fallback }: Variable, request: AccessRequest): string | undefined {
  const value = key.read(request);
  const text = typeof value === 'string' ? value : fallback;
  if (text === undefined || text.length > variableLengthMax) return undefined;
  return text.includes(anyUnit) ? undefined : text;
}

const token = /\$\{([^}]*)\}|[*?]|[^*?$]+|\$/gu;

function parseSegments(text: string, wildcards: boolean): (string | Variable)[][] {
  checkText(text);
  // Each of many that are open would be looked for to the text's end.
  if (text.lastIndexOf('${') > text.lastIndexOf('}')) {
    throw new RuleFault('Policy has a variable without its end');
  }
  const segments: (string | Variable)[][] = [[]];
  for (const [piece, inside] of text.matchAll(token)) {
    const segment = segments.at(-1) as (string | Variable)[];
    if (inside !== undefined) segment.push(parseVariable(inside));
    else if (wildcards && piece === '*') segments.push([]);
    else segment.push(wildcards && piece === '?' ? anyUnit : piece);
  }
  return segments;
}

/** Throws RuleFault for half a surrogate pair, which our wildcard is. */
function checkText(text: string): void {
  if (/\p{Surrogate}/u.test(text)) throw new RuleFault('A text in the policy is not valid Unicode');
}

const variableForm = /^\s*([^\s,]+)\s*(?:,\s*'([^']*)'\s*)?$/;

function parseVariable(inside: string): string | Variable {
  if (inside === '*' || inside === '?' || inside === '$') return inside;
  const [, name, fallback] = variableForm.exec(inside) ?? [];
  const key = name === undefined ? undefined : conditionKey(name);
  if (!key || key.isList || key.name.toLowerCase().startsWith('s3:existingobjecttag/')) {
    throw new RuleFault(`Policy has an invalid variable: \${${show(inside)}}`);
  }
  return { key, fallback };
}
