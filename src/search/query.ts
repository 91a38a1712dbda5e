// The language in which objects are asked for by what is said of them (docs/formats/query.md).
// Invariants: a text is one query or an error that says where it is none; how long it is, how deep
// and of how many comparisons is bounded; and a query means the same to the index, which leads to
// what may fit, and to whoever then reads the object. Pure.
import { Refusal } from '../core/errors.ts';

/** `tag.detector`, `meta.run`, or one of `objectFields`. */
export type FieldName = string;

export type Literal =
  | { kind: 'text'; value: string }
  | { kind: 'number'; value: number }
  /** Milliseconds since the epoch. */
  | { kind: 'time'; value: number };

export type Order = '=' | '!=' | '<' | '<=' | '>' | '>=';

export type Comparison =
  | { is: Order; field: FieldName; than: Literal }
  | { is: 'like'; field: FieldName; pattern: string }
  | { is: 'exists'; field: FieldName };

export type Query =
  | Comparison
  | { is: 'and'; parts: readonly Query[] }
  | { is: 'or'; parts: readonly Query[] }
  | { is: 'not'; part: Query };

/** What every object has, and what it is compared with. Postings are kept in this order. */
export const objectFields: ReadonlyMap<FieldName, Literal['kind']> = new Map([
  ['key', 'text'],
  ['size', 'number'],
  ['modified', 'time'],
  ['class', 'text'],
  ['owner', 'text'],
  ['etag', 'text'],
  ['type', 'text'],
  ['sha256', 'text'],
  ['checksum', 'text'],
] as const);

/** Characters of a query. */
export const queryLengthMax = 4096;
const comparisonsMax = 64;
const depthMax = 16;

const second = 1000;
type Unit = readonly [unit: string, means: { kind: 'number' | 'age'; factor: number }];

const thousands = ['KB', 'MB', 'GB', 'TB', 'PB'];
const ages = { s: 1, min: 60, h: 3600, d: 86_400, w: 604_800 };

const units = new Map<string, Unit[1]>([
  ...thousands.map((unit, i): Unit => [unit, { kind: 'number', factor: 1000 ** (i + 1) }]),
  ...thousands.map(
    (unit, i): Unit => [unit.replace('B', 'iB'), { kind: 'number', factor: 1024 ** (i + 1) }],
  ),
  ...Object.entries(ages).map(
    ([unit, seconds]): Unit => [unit, { kind: 'age', factor: seconds * second }],
  ),
]);

/** A number as queries and values have it: decimal, with or without an exponent. */
export const numberForm = /^[+-]?\d{1,32}(?:\.\d{1,32})?(?:[eE][+-]?\d{1,3})?$/;
/** RFC 3339: a date, which is its beginning in UTC, or a time with its offset. */
export const timeForm =
  /^\d{4}-\d\d-\d\d(?:[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d))?$/;

type Token =
  | { kind: 'word' | 'text' | 'sign'; text: string; at: number }
  | { kind: 'literal'; literal: Literal | { kind: 'age'; value: number }; text: string; at: number }
  | { kind: 'end'; text: string; at: number };

/**
 * The query that a text is. `nowMs`: what ages are counted back from. Throws `Refusal`
 * InvalidInput, which says at which character.
 */
export function parseQuery(text: string, nowMs: number): Query {
  if (text.length > queryLengthMax) {
    throw refuse(`it has more than ${queryLengthMax} characters`, queryLengthMax);
  }
  return new Parser(readTokens(text), nowMs).parse();
}

const wordForm = /[A-Za-z_][A-Za-z0-9_]*/y;
const nameForm = /[A-Za-z0-9_][A-Za-z0-9_:/@+.-]*/y;
const signForm = /<=|>=|!=|[=<>(),]/y;
const dateForm = /\d{4}-\d\d-\d\d(?:[Tt][0-9:.]+(?:[Zz]|[+-]\d\d:\d\d))?/y;
const countForm = /[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?([A-Za-z]*)/y;

function readTokens(text: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  for (;;) {
    while (at < text.length && /\s/.test(text[at] as string)) at += 1;
    if (at === text.length) break;
    const token = readToken(text, at);
    tokens.push(token.token);
    at = token.end;
  }
  tokens.push({ kind: 'end', text: 'the end', at });
  return tokens;
}

function readToken(text: string, at: number): { token: Token; end: number } {
  if (text[at] === '"') {
    const { value, end } = readText(text, at);
    return { token: { kind: 'text', text: value, at }, end };
  }
  const word = matchAt(wordForm, text, at);
  if (word !== null) return readName(text, at, word[0]);
  const sign = matchAt(signForm, text, at);
  if (sign !== null) {
    return { token: { kind: 'sign', text: sign[0], at }, end: at + sign[0].length };
  }
  const date = matchAt(dateForm, text, at);
  if (date !== null) {
    const value = timeOf(date[0]);
    if (value === null) throw refuse(`${date[0]} is no date`, at);
    const literal = { kind: 'time', value } as const;
    return { token: { kind: 'literal', literal, text: date[0], at }, end: at + date[0].length };
  }
  const count = matchAt(countForm, text, at);
  if (count === null) throw refuse('this character means nothing', at);
  const [all, unit = ''] = count;
  const literal = readCount(all.slice(0, all.length - unit.length), unit, at);
  return { token: { kind: 'literal', literal, text: all, at }, end: at + all.length };
}

/** A word, or a field with the name behind its dot. */
function readName(text: string, at: number, word: string): { token: Token; end: number } {
  let end = at + word.length;
  if ((word !== 'tag' && word !== 'meta') || text[end] !== '.') {
    return { token: { kind: 'word', text: word, at }, end };
  }
  end += 1;
  const quoted = text[end] === '"' ? readText(text, end) : null;
  const plain = quoted ? null : matchAt(nameForm, text, end);
  const name = quoted?.value ?? plain?.[0] ?? '';
  if (name === '') throw refuse(`a name is missing behind ${word}.`, end);
  // S3 has names of metadata in lower case.
  const field = `${word}.${word === 'meta' ? name.toLowerCase() : name}`;
  return { token: { kind: 'word', text: field, at }, end: quoted?.end ?? end + name.length };
}

function readText(text: string, at: number): { value: string; end: number } {
  let value = '';
  for (let i = at + 1; i < text.length; i++) {
    const one = text[i] as string;
    if (one === '"') return { value, end: i + 1 };
    if (one !== '\\') {
      value += one;
      continue;
    }
    i += 1;
    const escaped = text[i];
    if (escaped !== '"' && escaped !== '\\') {
      throw refuse('a backslash stands before a quotation mark or a backslash', i);
    }
    value += escaped;
  }
  throw refuse('a quotation mark is not closed', at);
}

function readCount(
  digits: string,
  unit: string,
  at: number,
): Literal | { kind: 'age'; value: number } {
  const number = numberOf(digits);
  if (number === null) throw refuse(`${digits} is too long or too large a number`, at);
  if (unit === '') return { kind: 'number', value: number };
  const found = units.get(unit);
  if (!found) throw refuse(`${unit} is no unit: ${[...units.keys()].join(', ')}`, at);
  const { kind, factor } = found;
  return { kind, value: number * factor };
}

function matchAt(form: RegExp, text: string, at: number): RegExpExecArray | null {
  form.lastIndex = at;
  return form.exec(text);
}

const orders: ReadonlySet<string> = new Set(['=', '!=', '<', '<=', '>', '>=']);
const reversed = { '=': '=', '!=': '!=', '<': '>', '<=': '>=', '>': '<', '>=': '<=' } as const;

class Parser {
  readonly #tokens: readonly Token[];
  readonly #nowMs: number;
  #next = 0;
  #comparisons = 0;

  constructor(tokens: readonly Token[], nowMs: number) {
    this.#tokens = tokens;
    this.#nowMs = nowMs;
  }

  parse(): Query {
    const query = this.#parseList('or', 0);
    const { kind, text, at } = this.#peek();
    if (kind !== 'end') throw refuse(`"and", "or" or the end must come before ${text}`, at);
    return query;
  }

  #parseList(is: 'and' | 'or', depth: number): Query {
    const parse = () => (is === 'or' ? this.#parseList('and', depth) : this.#parseTerm(depth));
    const parts = [parse()];
    while (this.#takeWord(is)) parts.push(parse());
    return parts.length === 1 ? (parts[0] as Query) : { is, parts };
  }

  #parseTerm(depth: number): Query {
    const { at } = this.#peek();
    if (depth > depthMax) throw refuse(`it is nested deeper than ${depthMax}`, at);
    if (this.#takeWord('not')) return { is: 'not', part: this.#parseTerm(depth + 1) };
    if (!this.#takeSign('(')) return this.#parseComparison();
    const query = this.#parseList('or', depth + 1);
    if (!this.#takeSign(')')) throw refuse('a parenthesis is not closed', at);
    return query;
  }

  #parseComparison(): Query {
    const { text: field, at } = this.#takeField();
    if (this.#takeWord('exists')) return this.#count(at, { is: 'exists', field });
    if (this.#takeWord('like')) {
      const { kind, text, at: place } = this.#take();
      if (kind !== 'text') throw refuse('like is followed by a text in quotation marks', place);
      checkKind(field, 'text', place);
      return this.#count(at, { is: 'like', field, pattern: text });
    }
    if (this.#takeWord('in')) return this.#parseValues(field);
    const { kind, text, at: place } = this.#take();
    if (kind !== 'sign' || !orders.has(text)) {
      throw refuse(`${field} is followed by =, !=, <, <=, >, >=, like, in or exists`, place);
    }
    return this.#parseThan(field, text as Order);
  }

  #parseValues(field: FieldName): Query {
    const { at } = this.#peek();
    if (!this.#takeSign('(')) throw refuse('in is followed by values in parentheses', at);
    const parts: Query[] = [];
    do parts.push(this.#parseThan(field, '='));
    while (this.#takeSign(','));
    if (!this.#takeSign(')')) throw refuse('the values are not closed by a parenthesis', at);
    return parts.length === 1 ? (parts[0] as Query) : { is: 'or', parts };
  }

  #parseThan(field: FieldName, is: Order): Query {
    const token = this.#take();
    const { at } = token;
    if (token.kind === 'text') {
      checkKind(field, 'text', at);
      return this.#count(at, { is, field, than: { kind: 'text', value: token.text } });
    }
    if (token.kind !== 'literal') {
      throw refuse('a text in quotation marks, a number, a date or an age is missing', at);
    }
    const { literal } = token;
    if (literal.kind !== 'age') {
      checkKind(field, literal.kind, at);
      return this.#count(at, { is, field, than: literal });
    }
    checkKind(field, 'time', at);
    // The younger something is, the later it was.
    const than = { kind: 'time', value: this.#nowMs - literal.value } as const;
    return this.#count(at, { is: reversed[is], field, than });
  }

  #count(at: number, comparison: Comparison): Comparison {
    this.#comparisons += 1;
    if (this.#comparisons <= comparisonsMax) return comparison;
    throw refuse(`it has more than ${comparisonsMax} comparisons`, at);
  }

  #takeField(): Token {
    const token = this.#take();
    const { kind, text, at } = token;
    const isNamed = text.startsWith('tag.') || text.startsWith('meta.');
    if (kind === 'word' && (isNamed || objectFields.has(text))) return token;
    const known = [...objectFields.keys(), 'tag.NAME', 'meta.NAME'].join(', ');
    throw refuse(`one of ${known} is missing`, at);
  }

  #peek(): Token {
    return this.#tokens[this.#next] as Token;
  }

  #take(): Token {
    const token = this.#peek();
    if (token.kind !== 'end') this.#next += 1;
    return token;
  }

  #takeWord(word: string): boolean {
    const { kind, text } = this.#peek();
    const isIt = kind === 'word' && text.toLowerCase() === word;
    if (isIt) this.#next += 1;
    return isIt;
  }

  #takeSign(sign: string): boolean {
    const { kind, text } = this.#peek();
    const isIt = kind === 'sign' && text === sign;
    if (isIt) this.#next += 1;
    return isIt;
  }
}

const kindNames = {
  text: 'a text in quotation marks',
  number: 'a number',
  time: 'a date or an age',
};

function checkKind(field: FieldName, kind: Literal['kind'], at: number): void {
  const wanted = objectFields.get(field);
  if (wanted === undefined || wanted === kind) return;
  throw refuse(`${field} is compared with ${kindNames[wanted]}`, at);
}

/** `at`: of the text, in UTF-16 units. */
function refuse(what: string, at: number): Refusal {
  const message = `The query cannot be read at character ${at + 1}: ${what}.`;
  return new Refusal('InvalidInput', { message, fields: { field: 'where' } });
}

/** A value as a number; null: it is none. */
export function numberOf(text: string): number | null {
  if (!numberForm.test(text)) return null;
  const number = Number(text);
  return Number.isFinite(number) ? number : null;
}

/** A value as milliseconds since the epoch; null: it is no date of the calendar. */
export function timeOf(text: string): number | null {
  if (!timeForm.test(text)) return null;
  const ms = Date.parse(text.toUpperCase());
  // JavaScript takes the 31st of each month, as a day of the next one.
  const day = Date.parse(text.slice(0, 10));
  if (Number.isNaN(ms) || Number.isNaN(day)) return null;
  return new Date(day).toISOString().startsWith(text.slice(0, 10)) ? ms : null;
}
