// Requests of pages of other origins: their preflights, and what all answers to them tell the
// browser. Invariants: who sends no Origin costs nothing; a preflight proves nothing, so it is told
// nothing of a bucket but by the bucket's own rules, and one that is not there is as one without
// rules.
// Specification: the Fetch standard, section "CORS protocol"; "Using cross-origin resource sharing
// (CORS)" of the Amazon S3 user guide.
import type { ServerResponse } from 'node:http';
import type { Authenticator } from '../../authz/authenticate.ts';
import { Refusal } from '../../core/errors.ts';
import { defaultTenant } from '../../core/principal.ts';
import { TokenBucket } from '../../quota/token-bucket.ts';
import { lookUpBucket, publicBucketName } from '../s3/bucket-lookup.ts';
import {
  type CorsAsk,
  type CorsRules,
  corsHeaders,
  corsMethods,
  corsVary,
} from '../s3/buckets/cors.ts';
import { parseRequest, type S3Request } from '../s3/request.ts';
import type { RequestServices } from '../services.ts';
import type { Exchange } from './exchange.ts';
import { describeInXml, sendRefusal } from './reply.ts';

/** Preflights of one address in a second, and as many at once. */
const preflightsPerSecond = 200;
/** Beyond so many addresses the count begins again. */
const sourcesMax = 10_000;
const requestedHeadersMax = 100;
/** Of their names together. Metadata, whose names may be many, has 2 KiB for names and values. */
const requestedLengthMax = 4096;

type Known = Pick<
  RequestServices,
  'buckets' | 'mounts' | 'grants' | 'snapshots' | 'cors' | 'domains' | 'directory'
>;

/**
 * Has all answers to a request tell what the bucket's rules say of its origin. `tenant`: of who
 * asks; null: nobody is known.
 */
export async function tellOrigin(
  services: Known,
  authenticator: Authenticator,
  { request, response, tenant }: AskedAcross,
): Promise<void> {
  const origin = request.headers.origin;
  if (!origin || request.bucketName === null) return;
  const method = request.headers['access-control-request-method'] ?? request.method;
  try {
    const ask = { origin, method, headers: requestedHeaders(request) };
    const named = tenant ?? (await claimedTenant(authenticator, request));
    const rules = await findRules(services, request, named);
    if (!rules) return;
    response.setHeader('vary', corsVary);
    const rule = rules.find(ask);
    if (rule) setHeaders(response, corsHeaders(rule, ask));
  } catch (error) {
    // What can be no bucket has no rules; the request itself is refused for it.
    if (!(error instanceof Refusal)) throw error;
  }
}

export interface AskedAcross {
  request: S3Request;
  response: ServerResponse;
  tenant: string | null;
}

function setHeaders(response: ServerResponse, headers: Record<string, string>): void {
  for (const name in headers) response.setHeader(name, headers[name] as string);
}

/** Answers the preflights of browsers. */
export class Preflights {
  readonly #services: Known;
  readonly #authenticator: Authenticator;
  readonly #onBug: (error: unknown, requestId: string) => void;
  readonly #rates = new Map<string, TokenBucket>();

  constructor(given: {
    services: Known;
    authenticator: Authenticator;
    onBug: (error: unknown, requestId: string) => void;
  }) {
    this.#services = given.services;
    this.#authenticator = given.authenticator;
    this.#onBug = given.onBug;
  }

  /** Never rejects. Of preflights there is no record: nobody is known who could have sent it. */
  async serve(exchange: Exchange): Promise<void> {
    const { raw, response, clock } = exchange;
    exchange.operation = 'Preflight';
    try {
      this.#admit(exchange.source);
      const request = parseRequest(raw, exchange, this.#services.domains);
      clock.enter('decide');
      const headers = await this.#decide(request);
      clock.enter('firstByte');
      exchange.writeHead(200, { ...headers, 'content-length': '0' });
      response.end();
    } catch (error) {
      const isRefusal = error instanceof Refusal;
      if (!isRefusal) this.#onBug(error, exchange.id);
      const refusal = isRefusal ? error : new Refusal('InternalError', { cause: error });
      await sendRefusal(exchange, refusal, describeInXml);
    } finally {
      exchange.end();
    }
  }

  async #decide(request: S3Request): Promise<Record<string, string>> {
    const origin = originOf(request);
    const tenant = await claimedTenant(this.#authenticator, request);
    const rules = await findRules(this.#services, request, tenant);
    if (!rules) {
      const method = request.headers['access-control-request-method'] ?? 'OPTIONS';
      throw forbidden('BUCKET', method, 'CORS is not enabled for this bucket.');
    }
    const ask = readAsk(request, origin);
    const rule = rules.find(ask);
    if (rule) return { ...corsHeaders(rule, ask), vary: corsVary };
    // Letter for letter as AWS says it, "evalution" included.
    throw forbidden(
      request.key === null ? 'BUCKET' : 'OBJECT',
      ask.method,
      'This CORS request is not allowed. This is usually because the evalution of Origin, ' +
        'request method / Access-Control-Request-Method or Access-Control-Request-Headers are ' +
        "not whitelisted by the resource's CORS spec.",
    );
  }

  /** Throws `Refusal` SlowDown. */
  #admit(source: string): void {
    let rate = this.#rates.get(source);
    if (!rate) {
      if (this.#rates.size >= sourcesMax) this.#rates.clear();
      rate = new TokenBucket(preflightsPerSecond);
      this.#rates.set(source, rate);
    }
    if (rate.waitMs(1) > 0) throw new Refusal('SlowDown');
    rate.take(1);
  }
}

function originOf({ headers: { origin } }: S3Request): string {
  if (origin) return origin;
  throw insufficient('Insufficient information. Origin request header needed.');
}

function readAsk(request: S3Request, origin: string): CorsAsk {
  const method = request.headers['access-control-request-method'];
  if (method === undefined || !(corsMethods as readonly string[]).includes(method)) {
    throw insufficient(`Invalid Access-Control-Request-Method: ${method ?? null}`);
  }
  return { origin, method, headers: requestedHeaders(request) };
}

function insufficient(message: string): Refusal {
  return new Refusal('BadRequest', { message });
}

function forbidden(ResourceType: 'BUCKET' | 'OBJECT', Method: string, message: string): Refusal {
  const fields = { Method, ResourceType };
  return new Refusal('AccessForbidden', { message: `CORSResponse: ${message}`, fields });
}

function requestedHeaders(request: S3Request): string[] {
  const text = request.headers['access-control-request-headers'] ?? '';
  const names = text.toLowerCase().split(',', requestedHeadersMax + 1);
  if (names.length > requestedHeadersMax || text.length > requestedLengthMax)
    throw insufficient('Too many headers are requested.');
  return names
    .map((name) => name.trim())
    .filter((name) => name !== '')
    .map(checkName);
}

function checkName(name: string): string {
  if (/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return name;
  throw insufficient(`Access-Control-Request-Headers "${name}" contains invalid character.`);
}

/** A page's presigned URL says whose bucket it means, though a preflight does not prove it. */
function claimedTenant(
  authenticator: Authenticator,
  request: S3Request,
): Promise<string | null> | null {
  return request.query.length === 0 ? null : authenticator.findClaimedTenant(request);
}

/** The rules of the bucket that the request means; null: it has none, or is not there. */
async function findRules(
  services: Known,
  request: S3Request,
  tenant: string | null,
): Promise<CorsRules | null> {
  const named = await (tenant === null ? publicBucketName(services, request) : request.bucketName);
  if (named === null) return null;
  const { bucket } = await lookUpBucket(services, { tenant: tenant ?? defaultTenant }, named);
  return bucket ? services.cors.find(bucket.id) : null;
}
