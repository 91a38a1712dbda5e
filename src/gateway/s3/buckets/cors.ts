// Which pages of other origins a browser lets ask for what in a bucket, and read of the answers.
// Pure. Invariant: the first rule that fits decides alone; what no rule allows, no header allows.
// Specification: "Elements of a CORS configuration" of the Amazon S3 user guide, and the Fetch
// standard, section "CORS protocol".

import { firstRule, intersect, StarPatterns } from '../../http/star-patterns.ts';

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
