// An S3 bucket that is measured: its address, and requests to it, signed. Invariant: all headers
// that have a meaning are signed; bodies are not (UNSIGNED-PAYLOAD), since to hash them would be
// measured too.
// Specification: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
// reference.
import { percentEncode, type QueryPairs } from '../../core/canonical-request.ts';
import { nowMs } from '../../core/clock.ts';
import { signRequest } from '../../core/sigv4.ts';
import type { ProbePrices } from './spending.ts';

export interface ProbeCredentials {
  accessKeyId: string;
  secretAccessKey: string;
  /** The session token of temporary keys. */
  sessionToken?: string | undefined;
}

export interface TargetOptions {
  /** What samples call it. */
  name: string;
  /** `https://s3.example.org`, without a path. */
  endpoint: string;
  bucket: string;
  region: string;
  /** `/BUCKET/KEY` instead of `BUCKET.HOST`. */
  isPathStyle: boolean;
  /** null: they are not known. */
  prices: ProbePrices | null;
  /** Asked for each request, since temporary ones change. */
  credentials: () => Promise<ProbeCredentials>;
}

export interface ProbeRequest {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE';
  /** Decoded; '' is the bucket. */
  key: string;
  query?: QueryPairs;
  headers?: Readonly<Record<string, string>>;
}

export class ProbeTarget {
  readonly name: string;
  readonly origin: string;
  readonly prices: ProbePrices | null;
  readonly #options: TargetOptions;
  readonly #host: string;
  readonly #pathStart: string;

  constructor(options: TargetOptions) {
    const { name, endpoint, bucket, isPathStyle } = options;
    const url = new URL(endpoint);
    if (!isPathStyle) url.hostname = `${bucket}.${url.hostname}`;
    this.#options = options;
    this.name = name;
    this.prices = options.prices;
    this.origin = url.origin;
    this.#host = url.host;
    this.#pathStart = isPathStyle ? `/${bucket}/` : '/';
  }

  /** The target and headers to send. Rejects when there are no credentials. */
  async sign(
    request: ProbeRequest,
  ): Promise<{ path: string; headers: Readonly<Record<string, string>> }> {
    const { region, credentials } = this.#options;
    const { accessKeyId, secretAccessKey: secret, sessionToken } = await credentials();
    const path = `${this.#pathStart}${request.key}`;
    const { method, query = [] } = request;
    const headers: Record<string, string> = { host: this.#host, ...request.headers };
    if (sessionToken !== undefined) headers['x-amz-security-token'] = sessionToken;
    const keys = { accessKeyId, secret, region };
    const added = signRequest({ ...keys, method, path, query, headers, timeMs: nowMs() });
    const search = query.map((pair) => pair.map((text) => percentEncode(text, false)).join('='));
    const target = percentEncode(path, true) + (search.length > 0 ? `?${search.join('&')}` : '');
    return { path: target, headers: { ...headers, ...added } };
  }
}
