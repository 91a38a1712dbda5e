// Which pages of other origins a browser lets ask for what in a bucket, and read of the answers.
// Pure. Invariant: the first rule that fits decides alone; what no rule allows, no header allows.
// Specification: "Elements of a CORS configuration" of the Amazon S3 user guide, and the Fetch
// standard, section "CORS protocol".

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

/** As `bucket_settings` has them. */
export function readCorsRules(document: string): readonly CorsRule[] {
  return JSON.parse(document) as CorsRule[];
}

/** The rule that allows it; undefined: none does. */
export function findCorsRule(rules: readonly CorsRule[], ask: CorsAsk): CorsRule | undefined {
  return rules.find(
    ({ allowedOrigins, allowedMethods, allowedHeaders }) =>
      allowedMethods.includes(ask.method) &&
      allowedOrigins.some((pattern) => fits(pattern, ask.origin)) &&
      ask.headers.every((name) =>
        allowedHeaders.some((pattern) => fits(pattern.toLowerCase(), name)),
      ),
  );
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

/** `*` stands for anything, also for nothing. */
function fits(pattern: string, text: string): boolean {
  const star = pattern.indexOf('*');
  if (star < 0) return pattern === text;
  const after = pattern.length - star - 1;
  return (
    text.length >= pattern.length - 1 &&
    text.startsWith(pattern.slice(0, star)) &&
    text.endsWith(pattern.slice(pattern.length - after))
  );
}
