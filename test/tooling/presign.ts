// Presigned URLs, as the SDKs of clients make them.
import {
  canonicalHeaderValue,
  canonicalRequest,
  percentEncode,
  type QueryPairs,
} from '#bursar/core/canonical-request.js';
import {
  algorithm,
  deriveSigningKey,
  formatAmzDate,
  type SigningCredentials,
  scopeText,
  signText,
  stringToSign,
  unsignedPayload,
} from '#bursar/core/sigv4.js';

export interface UrlToSign extends SigningCredentials {
  method: string;
  /** `http://127.0.0.1:9000`: scheme and authority, no path. */
  origin: string;
  /** Decoded, begins with '/'. */
  path: string;
  query?: QueryPairs;
  /** Headers, besides `host`, that the user of the URL must send with these very values. */
  headers?: Readonly<Record<string, string>>;
  /** 1 to 604,800. */
  expiresSeconds: number;
  timeMs: number;
}

/** A URL that anyone can use until it expires. Its body is not signed. */
export function presignUrl(request: UrlToSign): string {
  const { method, origin, path, timeMs, region, service = 's3' } = request;
  const headers = Object.entries({ ...request.headers, host: new URL(origin).host })
    .map(([name, value]) => [name.toLowerCase(), canonicalHeaderValue(value)] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const headerNames = headers.map(([name]) => name);
  const amzDate = formatAmzDate(timeMs);
  const scope = { date: amzDate.slice(0, 8), region, service };
  const query: Array<readonly [string, string]> = [
    ...(request.query ?? []),
    ['X-Amz-Algorithm', algorithm],
    ['X-Amz-Credential', `${request.accessKeyId}/${scopeText(scope)}`],
    ['X-Amz-Date', amzDate],
    ['X-Amz-Expires', String(request.expiresSeconds)],
    ['X-Amz-SignedHeaders', headerNames.join(';')],
  ];
  const headerValues = headers.map(([, value]) => value);
  const signed = { method, path, query, headerNames, headerValues, payload: unsignedPayload };
  const text = stringToSign(algorithm, amzDate, scopeText(scope), canonicalRequest(signed));
  query.push(['X-Amz-Signature', signText(deriveSigningKey(request.secret, scope), text)]);
  const pairs = query.map(
    ([name, value]) => `${percentEncode(name, false)}=${percentEncode(value, false)}`,
  );
  return `${origin}${percentEncode(path, true)}?${pairs.join('&')}`;
}
