// Which pages of other origins a browser lets ask for what in a bucket, and read of the answers.
// Pure. Invariant: the first rule that fits decides alone; what no rule allows, no header allows.
// Specification: "Elements of a CORS configuration" of the Amazon S3 user guide, and the Fetch
// standard, section "CORS protocol".

import { Refusal } from '../../../core/errors.ts';
import { corsInfixesMax, corsRulesMax } from '../../../core/limits.ts';
import { firstRule, intersect, StarPatterns } from '../../http/star-patterns.ts';
import { textOf, type XmlElements, type XmlNode } from '../../http/xml.ts';

export const corsMethods = ['GET', 'PUT', 'POST', 'DELETE', 'HEAD'] as const;

export interface CorsRule {
  id?: string;
  /** With at most one `*`, as origins are. */
  allowedHeaders: readonly string[];
  allowedMethods: readonly string[];
  allowedOrigins: readonly string[];
  exposeHeaders: readonly string[];
  maxAgeSeconds?: number;
}

export interface CorsAsk {
  origin: string;
  method: string;
  /** What the page wants to send, lower-case. */
  headers: readonly string[];
}

/** The rules of a bucket, made ready for being asked: anybody may, and often. */
export class CorsRules {
  /** As they were written. */
  readonly rules: readonly CorsRule[];
  readonly #methods: StarPatterns;
  readonly #origins: StarPatterns;
  readonly #headers: StarPatterns;

  constructor(rules: readonly CorsRule[]) {
    this.rules = rules;
    this.#methods = new StarPatterns(rules.map(({ allowedMethods }) => allowedMethods));
    this.#origins = new StarPatterns(rules.map(({ allowedOrigins }) => allowedOrigins));
    this.#headers = new StarPatterns(
      rules.map(({ allowedHeaders }) => allowedHeaders.map((pattern) => pattern.toLowerCase())),
    );
  }

  /** The rule that allows it; undefined: none does. */
  find({ method, origin, headers }: CorsAsk): CorsRule | undefined {
    const allowing = this.#methods.rulesOf(method);
    intersect(allowing, this.#origins.rulesOf(origin));
    for (const name of headers) {
      if (firstRule(allowing) === undefined) return undefined;
      intersect(allowing, this.#headers.rulesOf(name));
    }
    const first = firstRule(allowing);
    return first === undefined ? undefined : this.rules[first];
  }
}

/** As `bucket_settings` has them. */
export function readCorsRules(document: string): CorsRules {
  return new CorsRules(JSON.parse(document) as CorsRule[]);
}

/** What caches have to keep apart, wherever there are rules. */
export const corsVary = 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method';

/** What tells a browser that the rule allows it. */
export function corsHeaders(rule: CorsRule, ask: CorsAsk): Record<string, string> {
  const { allowedMethods, allowedOrigins, exposeHeaders, maxAgeSeconds } = rule;
  const isForAll = allowedOrigins.includes('*');
  return {
    'access-control-allow-origin': isForAll ? '*' : ask.origin,
    ...(isForAll ? {} : { 'access-control-allow-credentials': 'true' }),
    'access-control-allow-methods': allowedMethods.join(', '),
    ...(ask.headers.length > 0 && { 'access-control-allow-headers': ask.headers.join(', ') }),
    ...(exposeHeaders.length > 0 && { 'access-control-expose-headers': exposeHeaders.join(', ') }),
    ...(maxAgeSeconds !== undefined && { 'access-control-max-age': String(maxAgeSeconds) }),
  };
}

// The document of a bucket's CORS rules, read strictly: what is not understood may have been a
// restriction. Specification: PutBucketCors and GetBucketCors of the Amazon S3 API reference.

const idLengthMax = 255;
const known = ['ID', 'AllowedHeader', 'AllowedMethod', 'AllowedOrigin', 'ExposeHeader'];

/**
 * The rules of a document, which has this root. Throws `Refusal` MalformedXML or InvalidRequest.
 */
export function parseCorsRules({ children }: XmlNode): CorsRule[] {
  if (children.some(({ name }) => name !== 'CORSRule')) throw new Refusal('MalformedXML');
  if (children.length === 0 || children.length > corsRulesMax) throw new Refusal('MalformedXML');
  const rules = children.map(parseRule);
  const infixes = rules.flatMap(({ allowedHeaders }) => allowedHeaders.filter(isInfix));
  if (infixes.length <= corsInfixesMax) return rules;
  throw invalid(
    `More than ${corsInfixesMax} values of AllowedHeader have a wildcard in their middle.`,
  );
}

/** Is something on both sides of its star? */
function isInfix(pattern: string): boolean {
  return /.\*./.test(pattern);
}

function parseRule(node: XmlNode): CorsRule {
  const isKnown = ({ name }: XmlNode): boolean => known.includes(name) || name === 'MaxAgeSeconds';
  if (!node.children.every(isKnown)) throw new Refusal('MalformedXML');
  const id = textOf(node, 'ID');
  if (id !== undefined && id.length > idLengthMax) throw new Refusal('MalformedXML');
  const rule = {
    ...(id !== undefined && { id }),
    allowedHeaders: textsOf(node, 'AllowedHeader').map((text) =>
      checkStars('AllowedHeader', checkName('AllowedHeader', text)),
    ),
    allowedMethods: textsOf(node, 'AllowedMethod').map(checkMethod),
    allowedOrigins: textsOf(node, 'AllowedOrigin').map((text) =>
      checkStars('AllowedOrigin', checkOrigin(text)),
    ),
    exposeHeaders: textsOf(node, 'ExposeHeader').map((text) =>
      checkName('ExposeHeader', checkExposed(text)),
    ),
    ...parseMaxAge(textOf(node, 'MaxAgeSeconds')?.trim()),
  };
  if (rule.allowedMethods.length === 0 || rule.allowedOrigins.length === 0) {
    throw new Refusal('MalformedXML');
  }
  return rule;
}

/** The texts of all children of this name. */
function textsOf({ children }: XmlNode, wanted: string): string[] {
  return children.filter(({ name }) => name === wanted).map(({ text }) => text.trim());
}

/** What can be no header, or stand for one, is never sent as one. */
function checkName(name: string, text: string): string {
  if (/^[\w!#$%&'*+.^`|~-]+$/.test(text)) return text;
  throw invalid(`${name} "${text}" contains invalid character.`);
}

/** As on S3, it may be empty, which no page's is. */
function checkOrigin(text: string): string {
  if (/^[\x21-\x7e]*$/.test(text)) return text;
  throw new Refusal('MalformedXML');
}

function checkStars(name: string, text: string): string {
  if (text.indexOf('*') === text.lastIndexOf('*')) return text;
  throw invalid(`${name} "${text}" can not have more than one wildcard.`);
}

function checkMethod(text: string): string {
  if ((corsMethods as readonly string[]).includes(text)) return text;
  throw invalid(`Found unsupported HTTP method in CORS config. Unsupported method is ${text}`);
}

function checkExposed(text: string): string {
  if (!text.includes('*')) return text;
  throw invalid(`ExposeHeader "${text}" contains wildcard, which is not supported.`);
}

function parseMaxAge(text: string | undefined): Pick<CorsRule, 'maxAgeSeconds'> {
  if (text === undefined) return {};
  // A browser takes a negative age for none (Fetch, section "CORS-preflight fetch").
  if (/^-?\d{1,9}$/.test(text)) return { maxAgeSeconds: Number(text) };
  throw new Refusal('MalformedXML');
}

function invalid(message: string): Refusal {
  return new Refusal('InvalidRequest', { message });
}

/** The content of a CORSConfiguration. */
export function corsElements(rules: readonly CorsRule[]): XmlElements {
  return {
    CORSRule: rules.map((rule) => ({
      ID: rule.id,
      AllowedHeader: rule.allowedHeaders,
      AllowedMethod: rule.allowedMethods,
      AllowedOrigin: rule.allowedOrigins,
      ExposeHeader: rule.exposeHeaders,
      MaxAgeSeconds: rule.maxAgeSeconds,
    })),
  };
}
